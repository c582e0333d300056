"""HzSQuantizedMatmul: product of two activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import shape_of
from engine.ops.add import portable_rescaled
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import ACCUMULATOR_MAX, FLOAT_ROUNDOFF, Bound, Case, coefficient, stage_of
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import requantization, rescale, wrap_int32
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import FLOAT32_EXACT, INT32_LIMIT, Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, OUTPUT_BIT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip


class Matmul(QuantizedOperator):
    """``numpy.matmul`` over the last two axes, in ONNX's own layout."""

    op_type = "HzSQuantizedMatmul"
    float_types: ClassVar[tuple[str, ...]] = ("MatMul",)
    cost = CostKind.MATMUL
    rows = WHOLE_MAP
    instructions = Instructions.MATRIX_PRODUCT
    attributes: ClassVar[Schema] = {
        "output_bit": OUTPUT_BIT,
        "right_shift": Attribute("ints", (0,), "accumulator bits dropped before saturation to 16 bits"),
        "scale": Attribute("ints", (1,), "requantisation multiplier"),
        "out_shift": Attribute("ints", (0,), "rounding shift of the product"),
        "rounding_method": Attribute(
            "str", "FLOOR", "ROUND: the last shift rounds half up; bernoulli2 has none, and floors"
        ),
        "high_precision_output": Attribute("int", 0, "1: the output is the int32 accumulator"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: a and b, int8 or int16 (reference/arithmetic.md 1, HzSQuantizedMatmul)."""
        a, b = (np.asarray(value, np.int64) for value in inputs)
        accumulator = wrap_int32(np.matmul(a, b))
        if attributes["high_precision_output"] or attributes["output_bit"] == 32:
            return (accumulator.astype(np.int32),)
        shifts = attributes["right_shift"], attributes["scale"], attributes["out_shift"]
        return (rescale(accumulator, *shifts, bits=attributes["output_bit"], rounding=attributes["rounding_method"]),)

    def error_bound(self, case: Case) -> Bound:
        attributes, (x, e) = case.attributes, case.operands
        terms = shape_of(x.value)[-1]
        unit, loss = case.scale, np.zeros(1)
        if not (attributes["output_bit"] == 32 or attributes["high_precision_output"]):
            stage = stage_of(attributes, "scale", "right_shift", "out_shift")
            floored = 0.5 if attributes["rounding_method"] == "FLOOR" else 0.0
            unit, loss = stage.unit * case.scale, (stage.loss(case.qmax) + floored) * case.scale
        wanted, largest = x.scale * e.scale, x.largest * e.largest * terms
        error = coefficient(1.0, unit, wanted, largest) + (terms + 2) * FLOAT_ROUNDOFF * wanted * largest
        return np.where(largest <= ACCUMULATOR_MAX, error + loss, np.inf)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """In float32 where no sum can leave +-2**24, else in float64."""
        a, b, attributes = call.input(0), call.input(1), call.attributes
        largest = a.magnitude * b.magnitude * a.shape[-1]
        carrier = np.float32 if largest <= FLOAT32_EXACT else np.float64
        product = emit.op("MatMul", emit.cast(a.value, carrier), emit.cast(b.value, carrier))
        accumulator = emit.cast(product, np.float64)
        if largest >= INT32_LIMIT:
            accumulator = emit.call("WrapInt32", accumulator)
        if attributes["high_precision_output"] or attributes["output_bit"] == 32:
            return (emit.cast(accumulator, np.int32),)
        names = {"right_shift": "accu_right_shift", "scale": "output_scale", "out_shift": "output_right_shift"}
        renamed = {names.get(name, name): value for name, value in attributes.items()}
        return (portable_rescaled(accumulator, renamed, emit),)


_MATRIX_RANK = 2


class MatmulRule(FloatRule):
    """MatMul of two int8 activations, in ONNX's own layout; the output may be int16.

    Of any number of dimensions: 25 of 25 asked of five, six and seven, of two tensors and of one and a constant matrix,
    on bayes-e and bayes each.
    """

    op_types = ("MatMul",)
    int16_inputs = False
    int32_output = True

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        return (0, 1)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        if len(shape_of(node.outputs[0])) < _MATRIX_RANK:
            return because(Code.RANK_OF_MATRICES)
        return None

    def layout(self, node: ir.Node) -> str:
        return "NCHW"

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result = node.outputs[0]
        a, b = (lowering.integer(given(node, index), layout=self.layout(node)) for index in (0, 1))
        output = None if lowering.is_tail(result) else lowering.calibration(result)
        product = np.float64(a.scale[0] * b.scale[0])  # rounded to float32
        if output is None:
            bits, scale = 32, np.array([product], np.float32)
            attributes: dict[str, Any] = {"output_bit": 32}
        else:
            bits, scale = output.bits, output.scales
            split = requantization(product / np.float64(scale[0]), bits)
            attributes = {
                "output_bit": bits,
                "right_shift": split.right_shift.tolist(),
                "scale": split.scale.tolist(),
                "out_shift": split.out_shift.tolist(),
            }
            if not lowering.march.floor_in_sum:
                attributes["rounding_method"] = "ROUND"
        inputs = [a.value, b.value]
        lowering.emit("HzSQuantizedMatmul", node, inputs, attributes, result, bits=bits, scale=scale, layout="NCHW")
