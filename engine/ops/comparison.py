"""HzQuantizedComparison: two activations of one scale compared element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.ops.core.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, Unbounded
from engine.ops.core.costs import CostKind
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, Schema

COMPARISONS: Mapping[str, Callable[[Array, Array], NDArray[Any]]] = MappingProxyType(
    {
        "Equal": np.equal,
        "Greater": np.greater,
        "GreaterOrEqual": np.greater_equal,
        "Less": np.less,
        "LessOrEqual": np.less_equal,
    }
)
"""By the name of ONNX's operator. Only Equal was seen in files of the original (``centernet_a``, ``centernet_c``)."""


class Comparison(QuantizedOperator):
    """1 where the comparison holds, else 0, as int8."""

    op_type = "HzQuantizedComparison"
    float_types: ClassVar[tuple[str, ...]] = ()
    cost = CostKind.ADD
    rows = SAME_ROWS
    instructions = Instructions.COMPARISON
    attributes: ClassVar[Schema] = {
        "comparison": Attribute("str", doc=", ".join(COMPARISONS)),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x and e, int8 or int16, which broadcast.

        Raises:
            UnsupportedError: a comparison of another name.
        """
        x, e = (np.asarray(value) for value in inputs)
        return (comparison(attributes)(x, e).astype(np.int8),)

    def error_bound(self, case: Case) -> Bound:
        return Unbounded("floats that differ may be one integer")

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """In float32, for int8 has no kernel."""
        comparison(call.attributes)
        name = str(call.attributes["comparison"])
        operands = [emit.cast(call.input(index).value, np.float32) for index in (0, 1)]
        return (emit.cast(emit.op(name, *operands), np.int8),)


def comparison(attributes: Attributes) -> Callable[[Array, Array], NDArray[Any]]:
    """The numpy function of the node.

    Raises:
        UnsupportedError: there is none of that name.
    """
    name = attributes["comparison"]
    if name not in COMPARISONS:
        raise UnsupportedError(f"HzQuantizedComparison: comparison is {name!r}; allowed: {', '.join(COMPARISONS)}")
    return COMPARISONS[name]
