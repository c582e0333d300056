"""Inputs of a quantised graph that are pixels: their type and layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as ir

from engine.chips import Chip
from engine.frontend.preprocess import saved_inputs
from engine.ir import attribute, is_calibration, shape_of
from engine.ops.core.float_nodes import TO_NHWC
from engine.quantize.writer import transposed
from engine.terms import InputType


class PixelInput(NamedTuple):
    """An image input and the layout that its integers count as (NHWC or NCHW)."""

    value: ir.Value
    layout: str


def pixel_input(value: ir.Value, source: ir.Model, march: Chip) -> PixelInput | None:
    """The int8 input of the quantised graph where a preprocessing node reads ``value``, an input of ``source``."""
    readers = [before for usage in value.uses() for before in _readers(usage.node)]
    if not any(node.op_type == "HzPreprocess" for node in readers):
        return None
    layout = _layout(value, readers, source, march)
    shape = shape_of(value)
    shape = transposed(shape, TO_NHWC) if layout == "NHWC" != data_format(readers) else shape
    return PixelInput(ir.Value(name=value.name, type=ir.TensorType(ir.DataType.INT8), shape=ir.Shape(shape)), layout)


def data_format(nodes: Sequence[ir.Node]) -> str:
    """Layout that the preprocessing node among ``nodes`` works in."""
    return next((attribute(n, "data_format", "NCHW") for n in nodes if n.op_type == "HzPreprocess"), "NCHW")


def _layout(value: ir.Value, readers: Sequence[ir.Node], source: ir.Model, march: Chip) -> str:
    """Layout of an image input: NHWC for nv12, one channel, and bernoulli2, else the float model's.

    Source: reference/calibration.md 5; bernoulli2 by 12 of 12 networks with rgb or bgr inputs.
    """
    if data_format(readers) == "NHWC" or shape_of(value)[1] == 1 or march.layout_outside:
        return "NHWC"
    specs = {spec.name: spec for spec in saved_inputs(source)}
    spec = specs.get(str(value.name))
    return "NHWC" if spec is not None and spec.type_rt is InputType.NV12 else "NCHW"


def _readers(node: ir.Node) -> list[ir.Node]:
    """``node``, or who reads it where it is a calibration."""
    return [usage.node for usage in node.outputs[0].uses()] if is_calibration(node) else [node]
