"""HzQuantizedRoiResize: bilinear resizing in fixed point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import attribute, is_declined, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, Unbounded
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, factor, pick
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip


class RoiResize(QuantizedOperator):
    """Bilinear interpolation with 8-bit fractions; indices are clamped to the image."""

    op_type = "HzQuantizedRoiResize"
    float_types: ClassVar[tuple[str, ...]] = ("Resize", "Upsample")
    cost = CostKind.RESIZE
    rows = WHOLE_MAP
    instructions = Instructions.BILINEAR
    attributes: ClassVar[Schema] = {
        "align_mode": Attribute("str", "center", "center (half pixel), origin (asymmetric) or given_step"),
        "sizes": Attribute("ints", doc="output height and width"),
        "step": Attribute("ints", (0, 0), "given_step: input step per output pixel, step_decimal_bit fraction bits"),
        "step_decimal_bit": Attribute("int", 16, "fraction bits of coordinates: 16, or 8 on bernoulli2"),
        "is_interpolate_twice": Attribute("int", 0, "1 (bernoulli2): x first, then y, floored each time"),
        "pad_mode": Attribute("str", "boundary", "always boundary: clamp"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC (reference/arithmetic.md 1, HzQuantizedRoiResize)."""
        x = np.asarray(inputs[0])
        top, bottom, fy = sample_positions(x.shape[1], 0, attributes)
        left, right, fx = sample_positions(x.shape[2], 1, attributes)
        fy, fx = fy[:, None, None], fx[:, None]
        wide = x.astype(np.int64)
        upper, lower = wide[:, top], wide[:, bottom]
        row0 = (256 - fx) * upper[:, :, left] + fx * upper[:, :, right]
        row1 = (256 - fx) * lower[:, :, left] + fx * lower[:, :, right]
        if attributes["is_interpolate_twice"]:
            y = ((256 - fy) * (row0 >> 8) + fy * (row1 >> 8)) >> 8
        else:
            y = ((256 - fy) * row0 + fy * row1 + (1 << 15)) >> 16
        return (y.astype(x.dtype),)

    def error_bound(self, case: Case) -> Bound:
        return Unbounded("its positions are rounded, so that other pixels are mixed than in the float node")

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Four neighbours gathered and mixed with 8-bit fractions."""
        x, attributes = call.input(0), call.attributes
        top, bottom, fy = sample_positions(x.shape[1], 0, attributes)
        left, right, fx = sample_positions(x.shape[2], 1, attributes)
        wide = emit.wide(x)
        upper, lower = (
            mixed(pick(row, left, 2, emit), pick(row, right, 2, emit), fx[:, None], emit)
            for row in (pick(wide, top, 1, emit), pick(wide, bottom, 1, emit))
        )
        if attributes["is_interpolate_twice"]:
            upper, lower = (emit.call("ShiftFloor", row, factor(8)) for row in (upper, lower))
            y = emit.call("ShiftFloor", mixed(upper, lower, fy[:, None, None], emit), factor(8))
        else:
            y = emit.call("ShiftRound", mixed(upper, lower, fy[:, None, None], emit), factor(16))
        return (emit.cast(y, x.dtype),)


def sample_positions(size: int, axis: int, attributes: Attributes) -> tuple[NDArray[np.int64], ...]:
    """Where each output pixel reads along one axis.

    Args:
        size: of the input along the axis, in pixels.
        axis: 0 for height, 1 for width.
        attributes: ``sizes``, ``step``, ``step_decimal_bit`` and ``align_mode`` of the node.

    Returns:
        Lower index, upper index (both within the map) and 8-bit weight of the upper one, each of shape (outputs,);
        positions are floored to 8 fraction bits.
    """
    bits, out = attributes["step_decimal_bit"], int(attributes["sizes"][axis])
    i = np.arange(out, dtype=np.int64)
    step = int(attributes["step"][axis]) if attributes["align_mode"] == "given_step" else (size << bits) // out
    position = (step * (2 * i + 1) - (1 << bits)) >> 1 if attributes["align_mode"] == "center" else step * i
    lower, fraction = position >> bits, (position & ((1 << bits) - 1)) >> (bits - 8)
    return np.clip(lower, 0, size - 1), np.clip(lower + 1, 0, size - 1), fraction


def mixed(low: ir.Value, high: ir.Value, fraction: NDArray[np.int64], emit: Emitter) -> ir.Value:
    """``(256 - fraction) * low + fraction * high``."""
    weights = fraction.astype(np.float64)
    return emit.op("Add", emit.op("Mul", low, 256.0 - weights), emit.op("Mul", high, weights))


DEFAULT_COORDINATES = "arithmetic.default-coordinates"
"""Id of the rule that says what a linear Resize that names no coordinates becomes."""

ALIGN_MODES: Mapping[str, str] = MappingProxyType(
    {
        "half_pixel": "center",
        "pytorch_half_pixel": "center",
        "asymmetric": "origin",
        "align_corners": "given_step",
    }
)
"""``align_mode`` by ONNX coordinate transformation."""


def coordinate_mode(node: ir.Node) -> str:
    """Coordinate transformation of a float Resize; before opset 11 there was one."""
    default = (
        "half_pixel" if len(node.inputs) > 2 or "coordinate_transformation_mode" in node.attributes else "asymmetric"
    )
    return str(attribute(node, "coordinate_transformation_mode", default))


def leaves_coordinates(node: ir.Node) -> bool:
    """Whether a float Resize leaves the coordinate transformation to its default, half a pixel since opset 11."""
    return "coordinate_transformation_mode" not in node.attributes and coordinate_mode(node) == "half_pixel"


def _mode_of_integers(node: ir.Node) -> str:
    left = leaves_coordinates(node) and not is_declined(node, DEFAULT_COORDINATES)
    return "asymmetric" if left else coordinate_mode(node)


def refused_linear(node: ir.Node, march: Chip) -> Reason | None:
    """Why a linear Resize runs on the CPU."""
    before, after = shape_of(given(node, 0))[2:], shape_of(node.outputs[0])[2:]
    if attribute(node, "antialias", 0):
        return because(Code.ANTIALIAS)
    factors = [max(out / size, size / out) for size, out in zip(before, after, strict=True)]
    if max(factors) > march.limits.linear_scale:
        return because(Code.SCALE, limit=march.limits.linear_scale)
    return None


def refused_coordinates(node: ir.Node) -> Reason | None:
    """Why the coordinates of a linear Resize are not the BPU's."""
    mode = coordinate_mode(node)
    return None if mode in ALIGN_MODES else because(Code.COORDINATES, mode=mode)


def linear_attributes(node: ir.Node, march: Chip) -> dict[str, Any]:
    """Attributes of the fixed-point resize that a linear float Resize becomes."""
    before, after = shape_of(given(node, 0))[2:], shape_of(node.outputs[0])[2:]
    mode, bits = ALIGN_MODES[_mode_of_integers(node)], march.resize_decimal_bits
    steps = [((size - 1) << bits) // max(out - 1, 1) for size, out in zip(before, after, strict=True)]
    return {
        "align_mode": mode,
        **({"step": steps} if mode == "given_step" else {}),
        "sizes": list(after),
        "pad_mode": "boundary",
        "step_decimal_bit": bits,
        "is_interpolate_twice": int(march.interpolate_twice),
        "data_format": "NHWC",
    }
