"""Operators that are a function of one integer: every input is tried, or looked up."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx_ir as ir

from engine.errors import UnsupportedError
from engine.ir import constant_of
from engine.ops.core.base import QuantizedOperator
from engine.ops.core.bounds import Bound, Case, tabulated
from engine.ops.core.costs import CostKind
from engine.ops.core.element_functions import FUNCTIONS, element_function
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.rows import SAME_ROWS

TABULATED = (np.dtype(np.int8), np.dtype(np.int16))


def table_bound(operator: QuantizedOperator, case: Case) -> Bound:
    """The error bound of an operator that stands for an element-wise float node."""
    constants = [constant_of(value) for value in case.node.inputs[1:]]
    return tabulated(
        case,
        lambda inputs: operator.reference([*inputs, *constants], case.attributes),
        element_function(case.chain[0]),
    )


def looked_up(operator: QuantizedOperator, call: SourceNode, emit: Emitter) -> ir.Value:
    """What ``operator`` gives for every int8 or int16, looked up.

    Raises:
        UnsupportedError: the input has another type.
    """
    x = call.input(0)
    if x.dtype not in TABULATED:
        raise UnsupportedError(
            f"node {call.node.name} ({call.node.op_type}): input has type {x.dtype}; allowed: int8, int16"
        )
    lowest, highest = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    domain = np.arange(lowest, highest + 1, dtype=x.dtype)
    constants = [call.constant(index) for index in range(1, len(call.inputs))]
    (entries,) = operator.reference([domain, *constants], call.attributes)
    index = emit.op("Add", emit.cast(x.value, np.int32), np.int32(-lowest))
    return emit.op("Gather", entries, index)


class TableOperator(QuantizedOperator):
    """An element-wise function of one activation that a table computes."""

    float_types: ClassVar[tuple[str, ...]] = tuple(FUNCTIONS)
    cost = CostKind.LUT
    rows = SAME_ROWS
    instructions = Instructions.TABLE

    def error_bound(self, case: Case) -> Bound:
        return table_bound(self, case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        return (looked_up(self, call, emit),)
