"""``Pooling``: Caffe rounds up by default, and then lets windows overhang the far edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from engine.errors import ModelError, UnsupportedError
from engine.frontend.caffe.graph import Graph, dims, given, image_shape, only_input, parameters, per_side
from engine.frontend.caffe.reader import CaffeLayer

_MAX, _AVE, _STOCHASTIC = 0, 1, 2
_CEIL = 0


def pooling(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """Maximum or average over windows, or over the whole map.

    Caffe's average counts the padding of ``pad``, not what overhangs beyond it.
    """
    value, options = only_input(layer, inputs), parameters(layer, "pooling_param")
    if options.pool == _STOCHASTIC or len(layer.tops) > 1:
        raise UnsupportedError(f"{layer}: stochastic pooling and a mask as second top are not supported")
    count, channels, *_ = image_shape(layer, value)
    if options.global_pooling:
        kind = "GlobalMaxPool" if options.pool == _MAX else "GlobalAveragePool"
        return [graph.op(kind, [value], (count, channels, 1, 1), layer.name)]
    kernel, stride, pad = (_setting(layer, options, name) for name in ("kernel", "stride", "pad"))
    if min(*kernel, *stride) < 1 or any(p >= k for p, k in zip(pad, kernel, strict=True)):
        raise ModelError(f"{layer}: kernel {kernel} and stride {stride} must be positive, pad {pad} less than kernel")
    windows = _Windows(kernel, stride, pad, options.round_mode == _CEIL)
    return [_pooled(graph, layer, value, options.pool == _MAX, windows, layer.name)]


def spatial_pyramid(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``SPP``: the map pooled to 1, 2 x 2, 4 x 4, ... values per channel, each flattened, one behind the other."""
    value, options = only_input(layer, inputs), parameters(layer, "spp_param")
    if options.pool == _STOCHASTIC or options.pyramid_height < 1:
        raise UnsupportedError(f"{layer}: stochastic pooling and a pyramid_height below 1 are not supported")
    count, channels, *sides = image_shape(layer, value)
    parts = []
    for level in range(options.pyramid_height):
        bins = 2**level
        kernel = tuple(-(-side // bins) for side in sides)
        pad = tuple((k * bins - side + 1) // 2 for k, side in zip(kernel, sides, strict=True))
        if any(p >= k for p, k in zip(pad, kernel, strict=True)):
            raise UnsupportedError(f"{layer}: a map of {sides[0]}x{sides[1]} is too small for {bins}x{bins} bins")
        windows = _Windows((kernel[0], kernel[1]), (kernel[0], kernel[1]), (pad[0], pad[1]), ceil=True)
        map_ = _pooled(graph, layer, value, options.pool == _MAX, windows, f"{layer.name}_{bins}")
        length = channels * dims(map_)[2] * dims(map_)[3]
        target = graph.integers((count, length), f"{layer.name}_{bins}_shape")
        parts.append(graph.op("Reshape", [map_, target], (count, length), f"{layer.name}_{bins}_flat"))
    total = sum(dims(part)[1] for part in parts)
    return [graph.op("Concat", parts, (count, total), layer.name, axis=1)]


@dataclass(frozen=True)
class _Windows:
    """Height and width of windows, their steps and padding, and how Caffe rounds their number."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    ceil: bool


def _pooled(graph: Graph, layer: CaffeLayer, value: ir.Value, maximum: bool, windows: _Windows, name: str) -> ir.Value:
    """Maximum or average of each window."""
    count, channels, *sides = image_shape(layer, value)
    kernel, stride, pad = windows.kernel, windows.stride, windows.pad
    sizes = _output_sides(layer, sides, kernel, stride, pad, windows.ceil)
    overhang = [
        max(0, (size - 1) * s + k - (side + 2 * p))
        for size, side, k, s, p in zip(sizes, sides, kernel, stride, pad, strict=True)
    ]
    shape = (count, channels, *sizes)
    settings: dict[str, Any] = {"kernel_shape": list(kernel), "strides": list(stride)}
    far = [p + extra for p, extra in zip(pad, overhang, strict=True)]
    if maximum:
        return graph.op("MaxPool", [value], shape, name, **settings, pads=[*pad, *far])
    if any(overhang) and any(pad):
        value, pad, far = _padded(graph, layer, value, pad), (0, 0), overhang
    settings["count_include_pad"] = int(not any(overhang))
    return graph.op("AveragePool", [value], shape, name, **settings, pads=[*pad, *far])


def _setting(layer: CaffeLayer, options: Any, name: str) -> tuple[int, int]:
    field = "kernel_size" if name == "kernel" else name
    values = [getattr(options, field)] if options.HasField(field) else []
    pair = (given(options, f"{name}_h"), given(options, f"{name}_w"))
    return per_side(layer, values, pair, 1 if name == "stride" else 0)


def _output_sides(
    layer: CaffeLayer,
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


def _padded(graph: Graph, layer: CaffeLayer, value: ir.Value, pad: tuple[int, int]) -> ir.Value:
    """``value`` with zeros around it, which then count as data."""
    count, channels, height, width = dims(value)
    pads = graph.integers([0, 0, *pad, 0, 0, *pad], f"{layer.name}_pads")
    shape = (count, channels, height + 2 * pad[0], width + 2 * pad[1])
    return graph.op("Pad", [value, pads], shape, f"{layer.name}_padded")
