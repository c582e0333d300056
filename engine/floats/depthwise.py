"""Depthwise convolutions of float passes: ONNX Runtime's own bits, three times as fast.

In the layout of the graph, ONNX Runtime computes a depthwise convolution as one product of a row and a matrix per
channel, in which a small network spends half its time. :func:`extract_depthwise` marks those that
:mod:`engine.floats.depthwise_loops` computes in its place, in the same order of float32 sums: products in
groups of
four, ``((p0 + p1) + p2) + p3``, without fused multiply-add; groups one after the other; then the bias. That order
belongs to the machine's kernels, therefore it is tried on every geometry before it is relied on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.floats.compiled import DEPTHWISE
from engine.ir import attribute, constant_of, shape_of, static_shape, to_bytes
from engine.optimize.base import add_initializer, clip_bounds

Array = NDArray[Any]

DOMAIN = "ptqlab.float"
OP = "DepthwiseConv"
"""A ``Conv`` with the attributes ``low`` and ``high``: what results are clipped to, if they are there."""

WORTHWHILE = 1 << 18
"""Products of one sample from which on leaving ONNX Runtime for one node pays."""


Pair = tuple[int, int]
"""One number for rows and one for columns."""


@dataclass(frozen=True)
class DepthwiseGeometry:
    """Shape of a depthwise convolution of one sample, but for its channels.

    Attributes:
        source: height and width of the input; so ``result``.
        kernel: taps.
        strides, dilations: as ONNX has them.
        begins, ends: padding.
    """

    source: Pair
    result: Pair
    kernel: Pair
    strides: Pair
    dilations: Pair
    begins: Pair
    ends: Pair


class DepthwiseNode:
    """A node of type :data:`OP`, ready to be computed."""

    def __init__(self, node: ir.Node) -> None:
        weight, *biases = (np.asarray(constant_of(value), np.float32) for value in node.inputs[1:] if value is not None)
        self._weight = np.ascontiguousarray(weight[:, 0])
        self._bias = np.ascontiguousarray(biases[0]) if biases else np.zeros(len(weight), np.float32)
        self._geometry = _geometry(node)
        bounds = [attribute(node, name, bound) for name, bound in (("low", -math.inf), ("high", math.inf))]
        self._bounds = np.array(bounds, np.float32)

    def __call__(self, source: Array, result: Array) -> None:
        """Compute ``source``, float32, shape (samples, channels, height, width), into ``result``."""
        convolve(source, self._weight, self._bias, self._geometry, self._bounds, result)


def convolve(
    source: Array, weight: Array, bias: Array, geometry: DepthwiseGeometry, bounds: Array, result: Array
) -> None:
    """Convolve every channel with its own kernel, add the bias, clip; float32, C-contiguous.

    Args:
        source: shape (samples, channels, height, width).
        weight: shape (channels, kernel height, kernel width); 8 n + 1 taps.
        bias: shape (channels,).
        geometry: of a sample.
        bounds: what results are clipped to, shape (2,).
        result: shape (samples, channels, rows, columns), changed.
    """
    strides, dilations = geometry.strides, geometry.dilations
    rows, columns = (
        size + (taps - 1) * dilation // stride
        for size, taps, dilation, stride in zip(result.shape[2:], geometry.kernel, dilations, strides, strict=True)
    )
    steps = np.array([*strides, *dilations, *geometry.begins, *geometry.kernel])
    planes = np.zeros(math.prod(strides) * rows * columns, np.float32)
    offsets, taps = np.empty(math.prod(geometry.kernel), np.int64), weight.reshape(len(weight), -1)
    sums = np.empty((result.shape[2] - 1) * columns + result.shape[3], np.float32)
    for sample, out in zip(source, result, strict=True):
        DEPTHWISE(sample, taps, bias, steps, bounds, planes, offsets, sums, out)


def is_depthwise(node: ir.Node) -> bool:
    """Whether ``node`` is what :func:`extract_depthwise` made of a convolution."""
    return node.domain == DOMAIN and node.op_type == OP


def extract_depthwise(model: ir.Model) -> bool:
    """Turn the depthwise convolutions of ``model`` that pay into nodes of type :data:`OP`; whether there are any.

    A Clip or Relu that alone reads the result becomes part of the node.

    Args:
        model: standard operators, static shapes; changed in place.
    """
    chosen = [node for node in model.graph if node.op_type == "Conv" and _is_worthwhile(node)]
    chosen = [node for node in chosen if _is_reproduced(_geometry(node))]
    for node in chosen:
        _convert(model.graph, node)
    if chosen:
        model.graph.opset_imports[DOMAIN] = 1
    return bool(chosen)


def widen_windows(model: ir.Model) -> None:
    """Give a column of zeros to windows for which ONNX Runtime has a kernel that orders sums in its own way.

    Those of 7 x 7 at stride 2, padded by 3, of which each channel has two (FastViT, MobileCLIP): the only ones of 216
    grouped geometries (multiples 2 to 4, windows of 3 to 9, strides 1 and 2) whose sums are not one multiply-add after
    the other, as the original's are. What a zero adds changes no sum.

    Args:
        model: standard operators; changed in place.
    """
    for node in model.graph:
        weight = constant_of(node.inputs[1]) if node.op_type == "Conv" else None
        if weight is None or weight.shape != (2 * attribute(node, "group", 1), 1, *_OWN_KERNEL.window):
            continue
        steps = (_pair(attribute(node, name, (1, 1))) for name in ("strides", "dilations"))
        if (*steps, tuple(attribute(node, "pads", ()))) != _OWN_KERNEL[1:]:
            continue
        top, left, bottom, right = _OWN_KERNEL.pads
        wide = np.pad(np.asarray(weight), ((0, 0), (0, 0), (0, 0), (0, 1)))
        node.replace_input_with(1, add_initializer(model.graph, f"{node.name}_widened", wide))
        node.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", wide.shape[2:])
        node.attributes["pads"] = ir.AttrInt64s("pads", (top, left, bottom, right + 1))


class _Windows(NamedTuple):
    window: Pair
    strides: Pair
    dilations: Pair
    pads: tuple[int, int, int, int]


_OWN_KERNEL = _Windows((7, 7), (2, 2), (1, 1), (3, 3, 3, 3))


def _is_worthwhile(node: ir.Node) -> bool:
    source, weight, *biases = node.inputs
    kernel = constant_of(weight)
    if source is None or kernel is None or kernel.ndim != 4 or any(constant_of(bias) is None for bias in biases):
        return False
    if any(static_shape(value) is None for value in (source, node.outputs[0])):
        return False
    result, taps = shape_of(node.outputs[0]), math.prod(kernel.shape[2:])
    return (
        attribute(node, "auto_pad", "NOTSET") == "NOTSET"
        and kernel.shape[:2] == (result[1], 1)
        and attribute(node, "group", 1) == shape_of(source)[1] == result[1]
        and taps > 1
        and taps % 8 == 1
        and math.prod(result[1:]) * taps >= WORTHWHILE
    )


def _geometry(node: ir.Node) -> DepthwiseGeometry:
    source, weight, *_ = node.inputs
    if source is None or weight is None:
        raise ModelError(f"node {node.name!r}: a convolution reads a tensor and a weight")
    pads = attribute(node, "pads", (0, 0, 0, 0))
    return DepthwiseGeometry(
        _pair(shape_of(source)[2:]),
        _pair(shape_of(node.outputs[0])[2:]),
        _pair(shape_of(weight)[2:]),
        _pair(attribute(node, "strides", (1, 1))),
        _pair(attribute(node, "dilations", (1, 1))),
        _pair(pads[:2]),
        _pair(pads[2:]),
    )


def _pair(values: Sequence[int]) -> Pair:
    rows, columns = values
    return rows, columns


@cache
def _is_reproduced(geometry: DepthwiseGeometry) -> bool:
    """Whether ONNX Runtime computes this geometry in the order of sums of the compiled loops, on this machine."""
    from engine.floats.runtime import open_session

    rng, channels = np.random.default_rng(0), 2
    source, result = (
        ir.val(name, ir.DataType.FLOAT, (1, channels, *size))
        for name, size in (("source", geometry.source), ("result", geometry.result))
    )
    weight = rng.standard_normal((channels, 1, *geometry.kernel), np.float32)
    bias = rng.standard_normal(channels, np.float32)
    constants = [ir.val(name, const_value=ir.tensor(array)) for name, array in (("weight", weight), ("bias", bias))]
    node = ir.node("Conv", [source, *constants], outputs=[result], name="depthwise")
    node.attributes["group"] = ir.AttrInt64("group", channels)
    for name, values in (
        ("strides", geometry.strides),
        ("dilations", geometry.dilations),
        ("pads", (*geometry.begins, *geometry.ends)),
    ):
        node.attributes[name] = ir.AttrInt64s(name, values)
    graph = ir.Graph([source], [result], nodes=[node], initializers=constants, opset_imports={"": 11}, name="depthwise")
    session = open_session(to_bytes(ir.Model(graph, ir_version=8)), threads=1, blocked_layouts=False)
    feed = rng.standard_normal((1, channels, *geometry.source), np.float32)
    found = np.empty((1, channels, *geometry.result), np.float32)
    DepthwiseNode(node)(feed, found)
    return np.array_equal(session.run(None, {"source": feed})[0], found)


def _convert(graph: ir.Graph, node: ir.Node) -> None:
    """Make the convolution ``node`` one of type :data:`OP`, the activation behind it included."""
    node.domain, node.op_type = DOMAIN, OP
    result = node.outputs[0]
    readers = [usage.node for usage in result.uses()]
    bounds = _bounds(readers[0]) if len(readers) == 1 and not result.is_graph_output() else None
    if bounds is None:
        return
    activation, name = readers[0], readers[0].outputs[0].name
    activation.outputs[0].replace_all_uses_with(result, replace_graph_outputs=True)
    graph.remove(activation, safe=True)
    result.name = name
    node.attributes["low"], node.attributes["high"] = (
        ir.AttrFloat32(key, bound) for key, bound in zip(("low", "high"), bounds, strict=True)
    )


def _bounds(node: ir.Node) -> tuple[float, float] | None:
    """What ``node`` clips to; None where it does something else, or its bounds are not known."""
    if node.op_type == "Relu":
        return 0.0, math.inf
    return clip_bounds(node) if node.op_type == "Clip" else None
