"""HzPad: padding with a constant or with the border."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir

from engine.errors import UnsupportedError
from engine.ir import attribute, before_calibration, constant_of, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, Quantized, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, exact
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import NHWC_AXIS, given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip

MODES = ("constant", "edge")


class Pad(QuantizedOperator):
    """ONNX Pad on integers; plain data movement, the scale and width are the input's."""

    op_type = "HzPad"
    float_types: ClassVar[tuple[str, ...]] = ("Pad",)
    cost = CostKind.MOVE
    rows = WHOLE_MAP
    instructions = Instructions.PAD
    attributes: ClassVar[Schema] = {
        "pads": Attribute("ints", doc="begin of every axis, then end of every axis, in the tensor's own layout"),
        "mode": Attribute("str", "constant", "constant or edge"),
        "value": Attribute("int", 0, "integer that a constant pad holds where there is no second input"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16, and the integer that a constant pad holds, of one element, which may be omitted.

        Raises:
            UnsupportedError: a mode that the BPU does not have.
        """
        whole = np.asarray(inputs[0])
        begins, ends = attributes["pads"][: whole.ndim], attributes["pads"][whole.ndim :]
        # A negative width cuts off.
        sides = zip(whole.shape, begins, ends, strict=True)
        x = whole[tuple(slice(max(0, -begin), size + min(0, end)) for size, begin, end in sides)]
        width = [(max(0, begin), max(0, end)) for begin, end in zip(begins, ends, strict=True)]
        if check_mode(attributes) == "edge":
            return (np.pad(x, width, mode="edge"),)
        return (np.pad(x, width, constant_values=pad_integer(inputs, attributes)),)

    def error_bound(self, case: Case) -> Bound:
        """What is moved is exact; the border is rounded to an integer."""
        if case.attributes["mode"] != "constant":
            return exact(case)
        scale, qmax = float(case.scale[0]), case.qmax
        wanted = np.clip(pad_value(case.chain[0]), -(qmax + 1) * scale, qmax * scale)
        integer = pad_integer([constant_of(value) for value in case.node.inputs], case.attributes)
        return np.asarray(np.maximum(exact(case), abs(integer * scale - wanted)))

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """In float32, for int16 has no kernel.

        Raises:
            UnsupportedError: a mode that the BPU does not have.
        """
        x, mode = call.input(0), check_mode(call.attributes)
        given = [None, *(call.constant(index) for index in range(1, len(call.inputs)))]
        value = np.float32(pad_integer(given, call.attributes)) if mode == "constant" else None
        inputs = [emit.cast(x.value, np.float32), call.attributes["pads"], *([] if value is None else [value])]
        return (emit.cast(emit.op("Pad", *inputs, mode=mode), x.dtype),)


def zero_padding(
    name: str, form: Quantized, pads: Sequence[int], lowering: Lowering
) -> tuple[list[ir.Value], Mapping[str, Any], tuple[int, ...]]:
    """Inputs, attributes and shape of an ``HzPad`` that puts integers around ``form`` that stand for zero.

    Args:
        name: the node's.
        form: NHWC.
        pads: of rows and columns, begins in front of ends.
        lowering: holds the constant.
    """
    top, left, bottom, right = pads
    integer = np.array([-form.offset], np.int8 if form.bits == 8 else np.int16)
    batch, height, width, channels = shape_of(form.value)
    attributes = {"pads": [0, top, left, 0, 0, bottom, right, 0], "mode": "constant", "data_format": "NHWC"}
    shape = (batch, height + top + bottom, width + left + right, channels)
    return [form.value, lowering.initializer(f"{name}_pad", integer)], attributes, shape


def check_mode(attributes: Attributes) -> str:
    """The node's mode.

    Raises:
        UnsupportedError: the BPU does not have it.
    """
    mode = str(attributes["mode"])
    if mode not in MODES:
        raise UnsupportedError(f"HzPad: mode is {mode!r}; allowed: {', '.join(MODES)}")
    return mode


def pad_integer(inputs: Sequence[Array | None], attributes: Attributes) -> int:
    """What a constant pad holds: the second input, as the original writes it, else the attribute."""
    given_value = inputs[1] if len(inputs) > 1 else None
    return int(attributes["value"] if given_value is None else np.asarray(given_value).item())


class PadRule(FloatRule):
    """Pad with a constant or with the border, on a rank-4 tensor; negative widths of a constant Pad cut off.

    The original runs Pads on channels and negative ones on the BPU; that the latter are an HzPad is provisional.
    """

    op_types = ("Pad",)
    passive = True

    def tie(self, node: ir.Node) -> Tie:
        return Tie.ONE_FOR_BOTH

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        if len(shape_of(given(node, 0))) != 4:
            return because(Code.RANK_4, done="padded")
        widths = pad_widths(node)
        if not march.pads_all_axes and widths is not None and any(widths[axis] for axis in (0, 1, 4, 5)):
            return because(Code.PADDED_AXES, march=march.name)
        cuts = widths is not None and min(widths) < 0 and str(attribute(node, "mode", "constant")) != "constant"
        return because(Code.PADS) if widths is None or cuts else None

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        """The image before a reflecting Pad is int8 all the same (``style``; provisional, 1 network)."""
        mode = str(attribute(node, "mode", "constant"))
        return None if mode in ("constant", "edge") else because(Code.PAD_MODE, mode=mode)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        widths = pad_widths(node) or ()
        order = sorted(range(4), key=NHWC_AXIS.__getitem__)
        info = np.iinfo(np.int8 if x.bits == 8 else np.int16)
        integer = np.clip(np.rint(pad_value(node) / x.scale[0]), info.min, info.max)
        # also where the border is repeated, as in a conversion on bayes-e and what was made of its ship folder
        inputs = [x.value, lowering.initializer(f"{node.name}_pad", np.array([integer], info.dtype))]
        attributes = {
            "pads": [widths[axis] for axis in order] + [widths[4 + axis] for axis in order],
            "mode": str(attribute(node, "mode", "constant")),
            "data_format": "NHWC",
        }
        lowering.emit("HzPad", node, inputs, attributes, node.outputs[0], bits=x.bits, scale=x.scale)


def pad_widths(node: ir.Node) -> list[int] | None:
    """Begin of every axis, then end of every axis; attribute before opset 11, input since; ``None`` if not constant."""
    stated = attribute(node, "pads")
    if stated is not None:
        return [int(width) for width in stated]
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        return None
    array = constant_of(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if array is None else [int(width) for width in array]


def pad_value(node: ir.Node) -> float:
    """What a constant pad holds."""
    value = node.inputs[2] if len(node.inputs) > 2 else None
    array = None if value is None else constant_of(before_calibration(value))
    return float(attribute(node, "value", 0.0) if array is None or not array.size else array.reshape(-1)[0])
