"""HzSElementwiseSub: difference of two activations of different scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import shape_of
from engine.ops.add import (
    ELEMENTWISE_OUTPUT,
    elementwise_sum_bound,
    lower_elementwise,
    portable_rescaled,
    requantize_elementwise,
    scaled_operands,
)
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import shift_left
from engine.ops.core.float_nodes import given, refused_broadcast, refused_constant
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import Schema

if TYPE_CHECKING:
    from engine.chips import Chip


class Sub(QuantizedOperator):
    """``(x << x_shift) - e * e_scale``, requantised; ``output_scale`` is negative where the operands were swapped."""

    op_type = "HzSElementwiseSub"
    float_types: ClassVar[tuple[str, ...]] = ("Sub",)
    cost = CostKind.ADD
    rows = SAME_ROWS
    instructions = Instructions.WEIGHTED_DIFFERENCE
    attributes: ClassVar[Schema] = {
        "x_shift": Attribute("ints", (0,), "left shift of x"),
        "e_scale": Attribute("ints", (1,), "multiplier of e"),
        **ELEMENTWISE_OUTPUT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x and e, int8 or int16, also mixed (reference/arithmetic.md 1, HzSElementwiseSub)."""
        x, e = (np.asarray(value, np.int64) for value in inputs)
        difference = shift_left(x, attributes["x_shift"]) - e * attributes["e_scale"]
        return (requantize_elementwise(difference, attributes),)

    def error_bound(self, case: Case) -> Bound:
        return elementwise_sum_bound(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """It has no ``e_shift``."""
        x, e = scaled_operands(call, emit)
        return (portable_rescaled(emit.op("Sub", x, e), call.attributes, emit),)


class SubRule(FloatRule):
    """Difference of two activations."""

    op_types = ("Sub",)

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        return (0, 1)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        a, b = (shape_of(given(node, index)) for index in (0, 1))
        if not march.subtracts_maps and a == b:
            return because(Code.NO_OPERATOR, march=march.name, op_type="Sub")
        return refused_broadcast(node, march)

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_constant(node, march)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        lower_elementwise(chain[0], lowering, "HzSElementwiseSub", with_e_shift=False)
