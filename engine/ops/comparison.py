"""HzQuantizedComparison: two activations of one scale compared element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.graph import sole_reader
from engine.ir import before_calibration
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, Unbounded
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip

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
    float_types: ClassVar[tuple[str, ...]] = ("Equal", "Cast")
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


class EqualRule(FloatRule):
    """A map compared with its own maximum over windows, as a detector finds its peaks, cast to float for a product.

    ``centernet_a`` and ``centernet_c`` (provisional); other comparisons run on the CPU (reference/operators.md). The
    maximum has the scale of the map, so that integers are equal where they are the same.
    """

    op_types = ("Equal",)
    index_outputs = (0,)
    int16_inputs = False
    int16_outputs = False

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        """The map; its maximum is there in the same scale."""
        return (1 - index,) if (index := maximum_of(node)) is not None else ()

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        reader = sole_reader(node.outputs[0], once=True)
        is_cast = reader is not None and reader.op_type == "Cast"
        return None if is_cast and maximum_of(node) is not None else because(Code.COMPARISON)

    def absorbs(self, chain: Sequence[ir.Node], consumer: ir.Node, march: Chip) -> bool:
        return len(chain) == 1 and consumer.op_type == "Cast"

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node, result = chain[0], chain[-1].outputs[0]
        operands = [lowering.integer(given(node, index)) for index in (0, 1)]
        attributes = {"comparison": node.op_type, "data_format": "NHWC"}
        lowering.emit(
            "HzQuantizedComparison",
            node,
            [operand.value for operand in operands],
            attributes,
            result,
            bits=8,
            scale=np.ones(1, np.float32),
        )


class CastRule(FloatRule):
    """The cast of a comparison to float: 0 and 1 as they are, so its threshold is 127."""

    op_types = ("Cast",)
    int16_inputs = False
    int16_outputs = False

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        source = given(node, 0).producer()
        if source is None or source.op_type != "Equal" or EqualRule().refusal(source, march) is not None:
            return because(Code.NO_OPERATOR, march=march.name, op_type=node.op_type)
        return None

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        return ()

    def fixed_thresholds(self, node: ir.Node, qtype: str) -> tuple[float | None, float | None]:
        return (None, 127.0)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        raise AssertionError("a Cast on the BPU is part of its comparison")


def maximum_of(node: ir.Node) -> int | None:
    """Position of the operand of ``node`` that is the MaxPool of the other one."""
    for index in (0, 1):
        pool = before_calibration(given(node, index)).producer()
        if pool is not None and pool.op_type == "MaxPool":
            source = before_calibration(given(pool, 0))
            if source is before_calibration(given(node, 1 - index)):
                return index
    return None
