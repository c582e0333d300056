"""Smaller shapes at which a faulty model of one node still differs from the right one.

Batch, rows, columns and channels of the inputs are halved as long as the fault remains. Nothing is assumed about the
operator: a crop that makes no sense for it (its constants no longer fit, or both models agree) is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from engine.errors import PtqlabError
from engine.floats.float_model import FloatSession, Kernels
from engine.frontend.shapes import infer_shapes
from engine.ir import constant_of
from engine.simulate.float_simulator import standard_model
from engine.simulate.reference import ReferenceSimulator
from engine.simulate.session import is_quantized

Array = NDArray[Any]

GROUPS = frozenset({"group", "channel_group"})
"""Counts of groups of channels."""
GEOMETRY = frozenset({"kernel_shape", "pads", "strides", "dilations", "output_padding", "output_shape", "perm", "axes"})
"""Lists in attributes that never hold a value per channel."""

_MISFITS = (PtqlabError, ValueError, LookupError, ort_errors.Fail, ort_errors.InvalidArgument)
"""What the simulator, numpy and ONNX Runtime raise for shapes and constants that do not fit together."""


@dataclass(frozen=True)
class FaultyCase:
    """A model at fault on one sample.

    Attributes:
        model: at fault.
        right: what it should compute, with the same inputs; None where the result has the shape of the only input and
            should be ``expected`` element by element.
        inputs: by name.
        expected: what should come out.
        actual: what comes out.
    """

    model: ir.Model
    right: ir.Model | None
    inputs: Mapping[str, Array]
    expected: Array
    actual: Array


Shows = Callable[[FaultyCase], bool]
"""Whether a case shows the fault."""


def shrink(case: FaultyCase, shows: Shows) -> FaultyCase:
    """``case`` with all shapes as small as halving makes them; as it is if it does not show the fault."""
    if not shows(case):
        return case
    for _ in range(2):  # what the channels allow may let rows and columns shrink further
        axes = max((array.ndim for array in case.inputs.values()), default=0)
        for axis in range(axes):
            case = _shrink_axis(case, axis, shows)
        case = _shrink_outputs(case, shows)
    return case


@dataclass(frozen=True)
class _Crop:
    """What is kept of one extent.

    Attributes:
        extent: before.
        start, stop: of what is kept.
        axis: of the inputs that have the extent; None: of no input but those that are added to the result.
        weight_axis: of the second input of the node, its weight; None: the weight is left.
        per_channel: whether lists of that length, and constants of that many rows, are cropped too.
    """

    extent: int
    start: int
    stop: int
    axis: int | None
    weight_axis: int | None = None
    per_channel: bool = False


def _shrink_axis(case: FaultyCase, axis: int, shows: Shows) -> FaultyCase:
    first = next(iter(case.inputs.values()))
    if axis >= first.ndim or first.shape[axis] < 2:
        return case
    extent = first.shape[axis]
    kinds = [_Crop(extent, 0, extent, axis), _Crop(extent, 0, extent, axis, per_channel=True)]
    kinds += [_Crop(extent, 0, extent, axis, weight_axis=k) for k in _weight_axes(case.model, extent)]
    return next((found for kind in kinds if (found := _narrow(case, kind, shows)) is not case), case)


def _shrink_outputs(case: FaultyCase, shows: Shows) -> FaultyCase:
    """Fewer channels of the result, for nodes with a weight."""
    for extent in sorted(set(case.actual.shape[1:]) - {1}, reverse=True):
        for axis in _weight_axes(case.model, extent):
            kind = _Crop(extent, 0, extent, None, weight_axis=axis, per_channel=True)
            found = _narrow(case, kind, shows)
            if found is not case:
                return found
    return case


def _weight_axes(model: ir.Model, extent: int) -> list[int]:
    """Axes of the node's weight with that many values."""
    nodes = list(model.graph)
    weight = constant_of(nodes[0].inputs[1]) if len(nodes) == 1 and len(nodes[0].inputs) > 1 else None
    return [] if weight is None else [axis for axis, size in enumerate(weight.shape) if size == extent]


def _narrow(case: FaultyCase, crop: _Crop, shows: Shows) -> FaultyCase:
    """Cut from both sides in steps that are halved, as long as the fault remains."""
    best, step = case, crop.extent // 2
    while step:
        for start, stop in ((crop.start, crop.stop - step), (crop.start + step, crop.stop)):
            found = _try(case, replace(crop, start=start, stop=stop), shows) if start < stop else None
            if found is not None:
                best, crop = found, replace(crop, start=start, stop=stop)
                break
        else:
            step //= 2
    return best


def _try(case: FaultyCase, crop: _Crop, shows: Shows) -> FaultyCase | None:
    """The cropped case if it can be run and shows the fault."""
    kept = slice(crop.start, crop.stop)
    inputs = {name: _along(array, crop, kept, case.actual) for name, array in case.inputs.items()}
    if crop.axis is not None and next(iter(inputs.values())).shape[crop.axis] == crop.extent:
        return None
    try:
        model, actual = _run(_cropped(case.model, crop), inputs)
        if case.right is None:
            (name,) = inputs
            expected = case.expected[_place(case.inputs[name], crop, kept)]
            right = None
        else:
            right, expected = _run(_cropped(case.right, crop), inputs)
    except _MISFITS:
        return None  # the node does not allow this crop
    found = FaultyCase(model, right, inputs, expected, actual)
    return found if actual.shape == expected.shape and actual.size and shows(found) else None


def _along(array: Array, crop: _Crop, kept: slice, actual: Array) -> Array:
    if crop.axis is not None:
        fits = crop.axis < array.ndim and array.shape[crop.axis] == crop.extent
        return np.ascontiguousarray(array[_place(array, crop, kept)]) if fits else array
    if array.shape == actual.shape:  # added to the result
        axis = array.shape.index(crop.extent)
        return np.ascontiguousarray(np.take(array, range(crop.start, crop.stop), axis))
    return array


def _place(array: Array, crop: _Crop, kept: slice) -> tuple[slice, ...]:
    return tuple(kept if axis == crop.axis else slice(None) for axis in range(array.ndim))


def _cropped(model: ir.Model, crop: _Crop) -> ir.Model:
    """A copy whose constants are cropped.

    Raises:
        ValueError: it has several nodes, and constants are to be cropped.
    """
    model = model.clone()
    if crop.weight_axis is None and not crop.per_channel:
        return model
    (node,) = model.graph
    for index, value in enumerate(node.inputs):
        array = constant_of(value)
        if array is None:
            continue
        axis = 0 if crop.per_channel else None
        if index == 1 and crop.weight_axis is not None:
            axis = crop.weight_axis
        if axis is not None and array.ndim > axis and array.shape[axis] == crop.extent:
            _set_constant(model, node, index, np.take(array, range(crop.start, crop.stop), axis))
    if crop.per_channel:
        for attribute in _per_channel(node, crop):
            node.attributes.add(attribute)
    return model


def _per_channel(node: ir.Node, crop: _Crop) -> Iterator[ir.Attr]:
    """The attributes of ``node`` that hold a value per channel, cropped."""
    for name, attribute in tuple(node.attributes.items()):
        values = attribute.value
        if isinstance(values, int) and name in GROUPS and values == crop.extent:
            yield ir.AttrInt64(name, crop.stop - crop.start)
        elif isinstance(values, list | tuple) and len(values) == crop.extent and name not in GEOMETRY:
            yield ir.Attr(name, attribute.type, values[crop.start : crop.stop])


def _set_constant(model: ir.Model, node: ir.Node, index: int, array: Array) -> None:
    """Give ``node`` a constant in place of input ``index``, under the same name if nothing else reads it."""
    old = node.inputs[index]
    name = f"{old.name if old is not None else node.name}_part"
    model.graph.initializers.pop(name, None)
    tensor = ir.tensor(np.ascontiguousarray(array), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    model.graph.register_initializer(value)
    node.replace_input_with(index, value)
    if old is not None and not old.uses():
        model.graph.initializers.pop(str(old.name), None)


def _run(model: ir.Model, inputs: Mapping[str, Array]) -> tuple[ir.Model, Array]:
    """``model`` with the shapes that ``inputs`` give it, and its first output."""
    for value in model.graph.inputs:
        value.shape = ir.Shape(inputs[str(value.name)].shape)
    if is_quantized(model):
        results = ReferenceSimulator(model).run(inputs)
        for value in model.graph.outputs:
            value.shape = ir.Shape(results[str(value.name)].shape)
        return model, next(iter(results.values()))
    if all(node.domain == "" for node in model.graph):
        for value in (value for node in model.graph for value in node.outputs):
            value.shape = None
        model = infer_shapes(model, Path("minimal"))
    else:  # element by element: HzCalibration, HzPreprocess
        for value in model.graph.outputs:
            value.shape = model.graph.inputs[0].shape
    # Maps that ONNX Runtime rearranges hide that a weight has other channels than its input.
    session = FloatSession(standard_model(model), threads=1, kernels=Kernels.PLAIN)
    return model, next(iter(session.run(inputs).values()))
