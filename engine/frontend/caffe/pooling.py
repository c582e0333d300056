"""``Pooling``: Caffe rounds up by default, and then lets windows overhang the far edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from engine.errors import ModelError, UnsupportedError
from engine.frontend.caffe.graph import Graph, dims, given, image_shape, only_input, parameters, per_side
from engine.frontend.caffe.reader import Layer

_MAX, _AVE, _STOCHASTIC = 0, 1, 2
_CEIL = 0


def pooling(graph: Graph, layer: Layer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """Maximum or average over windows, or over the whole map.

    Caffe's average counts the padding of ``pad``, not what overhangs beyond it.
    """
    value, options = only_input(layer, inputs), parameters(layer, "pooling_param")
    if options.pool == _STOCHASTIC or len(layer.tops) > 1:
        raise UnsupportedError(f"{layer}: stochastic pooling and a mask as second top are not supported")
    count, channels, *sides = image_shape(layer, value)
    if options.global_pooling:
        kind = "GlobalMaxPool" if options.pool == _MAX else "GlobalAveragePool"
        return [graph.op(kind, [value], (count, channels, 1, 1), layer.name)]
    kernel, stride, pad = (_setting(layer, options, name) for name in ("kernel", "stride", "pad"))
    if min(*kernel, *stride) < 1 or any(p >= k for p, k in zip(pad, kernel, strict=True)):
        raise ModelError(f"{layer}: kernel {kernel} and stride {stride} must be positive, pad {pad} less than kernel")
    sizes = _output_sides(layer, sides, kernel, stride, pad, options.round_mode == _CEIL)
    overhang = [
        max(0, (size - 1) * s + k - (side + 2 * p))
        for size, side, k, s, p in zip(sizes, sides, kernel, stride, pad, strict=True)
    ]
    shape = (count, channels, *sizes)
    settings: dict[str, Any] = {"kernel_shape": list(kernel), "strides": list(stride)}
    far = [p + extra for p, extra in zip(pad, overhang, strict=True)]
    if options.pool == _MAX:
        return [graph.op("MaxPool", [value], shape, layer.name, **settings, pads=[*pad, *far])]
    if any(overhang) and any(pad):
        value, pad, far = _padded(graph, layer, value, pad), (0, 0), overhang
    settings["count_include_pad"] = int(not any(overhang))
    return [graph.op("AveragePool", [value], shape, layer.name, **settings, pads=[*pad, *far])]


def _setting(layer: Layer, options: Any, name: str) -> tuple[int, int]:
    field = "kernel_size" if name == "kernel" else name
    values = [getattr(options, field)] if options.HasField(field) else []
    pair = (given(options, f"{name}_h"), given(options, f"{name}_w"))
    return per_side(layer, values, pair, 1 if name == "stride" else 0)


def _output_sides(
    layer: Layer,
    sides: Sequence[int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    ceil: bool,
) -> list[int]:
    """Height and width of the result; with padding, a last window that would begin beyond the map is dropped."""
    sizes = []
    for side, k, s, p in zip(sides, kernel, stride, pad, strict=True):
        span = side + 2 * p - k
        size = (-(-span // s) if ceil else span // s) + 1
        if any(pad) and (size - 1) * s >= side + p:
            size -= 1
        if size < 1 or (size - 1) * s >= side + p:
            raise UnsupportedError(f"{layer}: a window lies outside the map of {sides[0]}x{sides[1]}")
        sizes.append(size)
    return sizes


def _padded(graph: Graph, layer: Layer, value: ir.Value, pad: tuple[int, int]) -> ir.Value:
    """``value`` with zeros around it, which then count as data."""
    count, channels, height, width = dims(value)
    pads = graph.integers([0, 0, *pad, 0, 0, *pad], f"{layer.name}_pads")
    shape = (count, channels, height + 2 * pad[0], width + 2 * pad[1])
    return graph.op("Pad", [value, pads], shape, f"{layer.name}_padded")
