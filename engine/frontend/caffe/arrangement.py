"""Layers that move data: joining, splitting, cropping, reshaping, resizing; and ``ArgMax``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import onnx_ir as ir

from engine.errors import ModelError, UnsupportedError
from engine.frontend.caffe.graph import (
    Graph,
    canonical_axis,
    check_bottoms,
    dims,
    given,
    image_shape,
    only_input,
    parameters,
)
from engine.frontend.caffe.reader import CaffeLayer, Shape, checked_shape


def identity(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Dropout`` at test time and ``Split``: every top is the bottom."""
    value = only_input(layer, inputs)
    return [graph.op("Identity", [value], dims(value), layer.name) for _ in layer.tops]


def concat(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Concat`` along ``axis`` (older: ``concat_dim``)."""
    check_bottoms(layer, inputs, 1, None)
    options, shapes = parameters(layer, "concat_param"), [dims(value) for value in inputs]
    axis = canonical_axis(layer, _axis_of(options, "concat_dim"), len(shapes[0]))
    if any(_with(shape, axis, 0) != _with(shapes[0], axis, 0) for shape in shapes):
        raise ModelError(f"{layer}: its bottoms {shapes} may differ in axis {axis} only")
    shape = _with(shapes[0], axis, sum(shape[axis] for shape in shapes))
    return [graph.op("Concat", inputs, shape, layer.name, axis=axis)]


def slice_(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Slice``: cut at ``slice_point``, or into equal parts."""
    value, options = only_input(layer, inputs), parameters(layer, "slice_param")
    shape = dims(value)
    axis = canonical_axis(layer, _axis_of(options, "slice_dim"), len(shape))
    points = [0, *options.slice_point, shape[axis]]
    if not options.slice_point:
        if shape[axis] % len(layer.tops):
            raise ModelError(f"{layer}: {shape[axis]} elements of axis {axis} do not split into {len(layer.tops)} tops")
        points = [part * shape[axis] // len(layer.tops) for part in range(len(layer.tops) + 1)]
    lengths = [end - start for start, end in pairwise(points)]
    if len(lengths) != len(layer.tops) or min(lengths) < 1:
        raise ModelError(f"{layer}: slice_point {list(options.slice_point)} do not cut {shape} into {len(layer.tops)}")
    sizes = graph.integers(lengths, f"{layer.name}_split")
    shapes = [_with(shape, axis, length) for length in lengths]
    return graph.ops("Split", [value, sizes], shapes, layer.name, axis=axis)


def _axis_of(options: Any, old: str) -> int:
    """``axis``, or the field of older files where only that is given."""
    return int(getattr(options, old if given(options, old) is not None else "axis"))


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def crop(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Crop``: the first bottom cut to the size of the second, from ``axis`` on."""
    check_bottoms(layer, inputs, 2, 2)
    options, shape, wanted = parameters(layer, "crop_param"), dims(inputs[0]), dims(inputs[1])
    axis = canonical_axis(layer, options.axis, len(shape))
    offsets = list(options.offset) or [0]
    axes = range(axis, len(shape))
    if len(offsets) == 1:
        offsets *= len(axes)
    if len(wanted) != len(shape) or len(offsets) != len(axes):
        raise ModelError(f"{layer}: {shape} cannot be cropped to {wanted} with offsets {list(options.offset)}")
    ends = [offset + wanted[index] for offset, index in zip(offsets, axes, strict=True)]
    if any(end > shape[index] for end, index in zip(ends, axes, strict=True)):
        raise ModelError(f"{layer}: {shape} is too small for a crop of {wanted} at offsets {offsets}")
    return [_sliced(graph, layer.name, inputs[0], axis, offsets, ends)]


def _sliced(
    graph: Graph, name: str, value: ir.Value, axis: int, starts: Sequence[int], ends: Sequence[int]
) -> ir.Value:
    """Cut the axes from ``axis`` on."""
    axes = range(axis, axis + len(starts))
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    shape = (*dims(value)[:axis], *sizes, *dims(value)[axis + len(sizes) :])
    limits = [
        graph.integers(list(items), f"{name}_{part}")
        for part, items in (("starts", starts), ("ends", ends), ("axes", axes))
    ]
    return graph.op("Slice", [value, *limits], shape, name)


def flatten(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Flatten``: the axes ``axis`` to ``end_axis`` become one."""
    value, options = only_input(layer, inputs), parameters(layer, "flatten_param")
    shape = dims(value)
    first = canonical_axis(layer, options.axis, len(shape))
    last = canonical_axis(layer, options.end_axis, len(shape))
    if first > last:
        raise ModelError(f"{layer}: axis {options.axis} is behind end_axis {options.end_axis}")
    result = (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])
    if first == 1 and last == len(shape) - 1:
        return [graph.op("Flatten", [value], result, layer.name, axis=1)]
    return [_reshaped(graph, layer, value, result)]


def reshape(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Reshape``: 0 copies a dimension, -1 takes what is left; ``axis`` and ``num_axes`` bound what is replaced."""
    value, options = only_input(layer, inputs), parameters(layer, "reshape_param")
    shape, wanted = dims(value), list(options.shape.dim)
    # Caffe counts a negative axis from behind the last one: -1 appends dimensions.
    start = options.axis if options.axis >= 0 else len(shape) + options.axis + 1
    end = len(shape) if options.num_axes == -1 else start + options.num_axes
    if not 0 <= start <= end <= len(shape):
        raise ModelError(f"{layer}: axis {options.axis} and num_axes {options.num_axes} do not fit {shape}")
    if wanted.count(-1) > 1 or any(dim < -1 for dim in wanted):
        raise ModelError(f"{layer}: shape {wanted} may have one -1 and no other negative dimension")
    try:
        middle = [shape[start + index] if dim == 0 else dim for index, dim in enumerate(wanted)]
    except IndexError:
        raise ModelError(f"{layer}: shape {wanted} copies more dimensions than {shape} has") from None
    result = [*shape[:start], *middle, *shape[end:]]
    known = prod(dim for dim in result if dim != -1)
    result = [prod(shape) // known if dim == -1 else dim for dim in result]
    if prod(result) != prod(shape):
        raise ModelError(f"{layer}: {shape} cannot become {wanted}: the numbers of elements differ")
    return [_reshaped(graph, layer, value, checked_shape(result, str(layer)))]


def _reshaped(graph: Graph, layer: CaffeLayer, value: ir.Value, shape: Shape) -> ir.Value:
    return graph.op("Reshape", [value, graph.integers(shape, f"{layer.name}_shape")], shape, layer.name)


def permute(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Permute``: axes in ``order``, those not named behind them."""
    value = only_input(layer, inputs)
    shape, order = dims(value), list(parameters(layer, "permute_param").order)
    if len(set(order)) != len(order) or any(axis >= len(shape) for axis in order):
        raise ModelError(f"{layer}: order {order} must name different axes below {len(shape)}")
    order += [axis for axis in range(len(shape)) if axis not in order]
    return [graph.op("Transpose", [value], [shape[axis] for axis in order], layer.name, perm=order)]


def interp(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Interp``: bilinear, corners aligned; the size from a factor, from numbers, or from the second bottom."""
    check_bottoms(layer, inputs, 1, 2)
    options, value = parameters(layer, "interp_param"), inputs[0]
    count, channels, *sides = image_shape(layer, value)
    begin, end = -options.pad_beg, -options.pad_end
    if begin < 0 or end < 0:
        raise ModelError(f"{layer}: pad_beg {options.pad_beg} and pad_end {options.pad_end} must not be positive")
    if begin or end:
        value = _sliced(graph, f"{layer.name}_cropped", value, 2, [begin] * 2, [side - end for side in sides])
        sides = list(dims(value)[2:])
    sizes = list(image_shape(layer, inputs[1])[2:]) if len(inputs) == 2 else _interp_sides(layer, sides)
    return [_resized(graph, layer, value, (count, channels, *sizes), "linear", "align_corners")]


def _interp_sides(layer: CaffeLayer, sides: Sequence[int]) -> list[int]:
    options = parameters(layer, "interp_param")
    shrink, zoom = given(options, "shrink_factor"), given(options, "zoom_factor")
    if shrink is None and zoom is None:
        if options.height < 1 or options.width < 1:
            raise ModelError(f"{layer}: it needs height and width, zoom_factor, shrink_factor or a second bottom")
        return [options.height, options.width]
    if min(value for value in (shrink, zoom) if value is not None) < 1:
        raise ModelError(f"{layer}: zoom_factor and shrink_factor must be positive")
    shrunk = [(side - 1) // (shrink or 1) + 1 for side in sides]
    return [side + (side - 1) * ((zoom or 1) - 1) for side in shrunk]


def upsample(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Upsample`` of one bottom: every pixel repeated ``scale`` times in both directions."""
    if len(inputs) == 2:
        raise UnsupportedError(f"{layer}: a mask as second bottom is not supported")
    value, options = only_input(layer, inputs), parameters(layer, "upsample_param")
    count, channels, height, width = image_shape(layer, value)
    if options.pad_out_h or options.pad_out_w or options.HasField("upsample_h") or options.HasField("upsample_w"):
        raise UnsupportedError(f"{layer}: only scale, or scale_h and scale_w, are supported")
    vertical, horizontal = (given(options, name) or options.scale for name in ("scale_h", "scale_w"))
    shape = (count, channels, height * vertical, width * horizontal)
    return [_resized(graph, layer, value, checked_shape(shape, str(layer)), "nearest", "asymmetric")]


def _resized(graph: Graph, layer: CaffeLayer, value: ir.Value, shape: Sequence[int], mode: str, rule: str) -> ir.Value:
    """``Resize`` to ``shape``; by factors where they are whole, which is what most operators are placed by."""
    none = graph.floats([], f"{layer.name}_roi")
    attributes: dict[str, str] = {"mode": mode, "coordinate_transformation_mode": rule}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
        factors = [new // old for new, old in zip(shape, dims(value), strict=True)]
        return graph.op(
            "Resize", [value, none, graph.floats(factors, f"{layer.name}_scales")], shape, layer.name, **attributes
        )
    scales = graph.floats([], f"{layer.name}_scales")
    sizes = graph.integers(list(shape), f"{layer.name}_sizes")
    return graph.op("Resize", [value, none, scales, sizes], shape, layer.name, **attributes)


def arg_max(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``ArgMax``: indices (as floats), or values, of the ``top_k`` largest elements of an axis or of each sample.

    Of equal elements the last has precedence, as in Caffe; where ``top_k`` is above 1, the first.
    """
    value, options = only_input(layer, inputs), parameters(layer, "argmax_param")
    shape, axis = dims(value), given(options, "axis")
    whole = axis is None
    if whole:
        # All axes but the first become one; the result has an axis between, over indices and values.
        value = _reshaped(graph, layer, value, (shape[0], 1, prod(shape[1:])))
        shape, axis = dims(value), 2
    axis = canonical_axis(layer, axis, len(shape))
    if not 1 <= options.top_k <= shape[axis]:
        raise ModelError(f"{layer}: top_k {options.top_k} must be 1..{shape[axis]}")
    indices, values = _largest(graph, layer, value, axis, options.top_k)
    if not options.out_max_val:
        return [indices]
    if not whole:
        return [values]
    return [graph.op("Concat", [indices, values], (shape[0], 2, options.top_k), f"{layer.name}_pairs", axis=1)]


def _largest(graph: Graph, layer: CaffeLayer, value: ir.Value, axis: int, count: int) -> tuple[ir.Value, ir.Value]:
    """Indices as floats, and values."""
    shape, name = _with(dims(value), axis, count), layer.name
    if count == 1:
        found = graph.op("ArgMax", [value], shape, name, axis=axis, keepdims=1, select_last_index=1)
        values = graph.op("ReduceMax", [value], shape, f"{name}_values", axes=[axis], keepdims=1)
    else:
        values, found = graph.ops(
            "TopK", [value, graph.integers([count], f"{name}_k")], [shape, shape], name, axis=axis
        )
    found.type = ir.TensorType(ir.DataType.INT64)
    return graph.op("Cast", [found], shape, f"{name}_indices", to=int(ir.DataType.FLOAT)), values
