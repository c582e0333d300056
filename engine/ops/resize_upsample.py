"""HzQuantizedResizeUpsample: nearest-neighbour enlargement by whole factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, exact
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, pick
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, Schema
from engine.ops.roi_resize import linear_attributes, refused_coordinates, refused_linear

if TYPE_CHECKING:
    from engine.chips import Chip


class ResizeUpsample(QuantizedOperator):
    """Repeats every pixel ``scale`` times; the scale and width are the input's."""

    op_type = "HzQuantizedResizeUpsample"
    float_types: ClassVar[tuple[str, ...]] = ("Resize", "Upsample")
    cost = CostKind.RESIZE
    rows = WHOLE_MAP
    instructions = Instructions.REPEAT
    attributes: ClassVar[Schema] = {
        "scale": Attribute("ints", doc="vertical and horizontal factor"),
        "mode": Attribute("str", "nearest", "always nearest"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC (reference/arithmetic.md 1, HzQuantizedResizeUpsample)."""
        vertical, horizontal = attributes["scale"]
        return (np.asarray(inputs[0]).repeat(vertical, axis=1).repeat(horizontal, axis=2),)

    def error_bound(self, case: Case) -> Bound:
        return exact(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Rows and columns gathered several times."""
        x = call.input(0)
        vertical, horizontal = (int(scale) for scale in call.attributes["scale"])
        rows, columns = np.arange(x.shape[1]).repeat(vertical), np.arange(x.shape[2]).repeat(horizontal)
        return (pick(pick(x.value, rows, 1, emit), columns, 2, emit),)


class ResizeRule(FloatRule):
    """Resize: nearest by whole factors here, linear as :class:`~engine.ops.roi_resize.RoiResize`."""

    op_types = ("Resize", "Upsample")
    passive = True
    int16_inputs = False
    int16_outputs = False
    requantized_to_int16 = True
    requantized_from_int16 = True

    def tie(self, node: ir.Node) -> Tie:
        """Resized values cannot be rescaled, so the producer saturates."""
        return Tie.ONE_FOR_BOTH

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        before, after = shape_of(given(node, 0)), shape_of(node.outputs[0])
        if len(before) != 4 or before[:2] != after[:2]:
            return because(Code.RANK_4_SIZES)
        return refused_linear(node, march) if attribute(node, "mode") == "linear" else None

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        if is_nearest(node):
            whole = all(out % size == 0 for size, out in spatial_sizes(node))
            if not whole:
                return because(Code.NEAREST_NOT_WHOLE)
            sizes = spatial_sizes(node)
            factors = refused_factors([before for before, _ in sizes], [after for _, after in sizes], march)
            if factors is not None:
                return factors
            return None if march.repeats_rows_alone or not _repeats_rows_alone(node) else because(Code.NEAREST_ROWS)
        if attribute(node, "mode") != "linear":
            return because(Code.RESIZE_MODE, mode=str(attribute(node, "mode")))
        return refused_coordinates(node)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result = node.outputs[0]
        output, own = lowering.calibration(result), lowering.calibration(given(node, 0))
        # A result in int16 is int8 first (``yolov8_nhwc``; provisional, 1 network). One in int8 that ``mix`` gave
        # another scale than its input's is requantised behind the operator (2 networks, 2 marches).
        wanted = None if output is None else output.narrowed
        keeps_type = wanted is not None and own is not None and own.qtype == wanted.qtype
        x = lowering.integer(given(node, 0), like=None if keeps_type else wanted)
        if is_nearest(node):
            factors = [after // before for before, after in spatial_sizes(node)]
            op_type = "HzQuantizedResizeUpsample"
            attributes: dict[str, Any] = {"mode": "nearest", "scale": factors, "data_format": "NHWC"}
        else:
            op_type, attributes = "HzQuantizedRoiResize", linear_attributes(node, lowering.march)
        lowering.emit(op_type, node, [x.value], attributes, result, bits=x.bits, scale=x.scale)


def is_nearest(node: ir.Node) -> bool:
    """Whether pixels are repeated rather than interpolated."""
    return str(attribute(node, "mode", "nearest")) == "nearest"


def _repeats_rows_alone(node: ir.Node) -> bool:
    """Whether ``node`` is higher than what it reads, and no wider: it leaves bernoulli2 late (3 of 3 asked)."""
    (height, higher), (width, wider) = spatial_sizes(node)
    return higher > height and wider == width


def spatial_sizes(node: ir.Node) -> list[tuple[int, int]]:
    """Size before and after, for height and width."""
    return list(zip(shape_of(given(node, 0))[2:], shape_of(node.outputs[0])[2:], strict=True))


def refused_factors(before: Sequence[int], after: Sequence[int], march: Chip) -> Reason | None:
    """Why nearest resizing runs on the CPU: a factor that is not among the march's."""
    allowed = march.limits.nearest_scales
    if any(out % size or out // size not in allowed for size, out in zip(before, after, strict=True)):
        return because(Code.NEAREST_SCALES, allowed=str(sorted(allowed)))
    return None
