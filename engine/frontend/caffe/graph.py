"""What the converters of layers build with: an ONNX graph in the making, and checks on their layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError, UnsupportedError
from engine.frontend.caffe.reader import CaffeLayer, Shape, tensor_shape


class Graph:
    """Nodes and initializers in order, of unique names.

    Attributes:
        nodes: the nodes so far.
        initializers: the constants so far.
    """

    def __init__(self, reserved: Sequence[str]) -> None:
        """Start empty; ``reserved`` names of tensors are not used for intermediate ones."""
        self.nodes: list[ir.Node] = []
        self.initializers: list[ir.Value] = []
        self._tensor_names = set(reserved)
        self._node_names: set[str] = set()

    def op(self, kind: str, inputs: Sequence[ir.Value], shape: Sequence[int], name: str, **attributes: Any) -> ir.Value:
        """Append a node of one float32 output.

        Args:
            kind: ONNX operator.
            inputs: what it reads.
            shape: shape of the output, computed by Caffe's rules.
            name: of the node and of its output, made unique.
            attributes: of the node.
        """
        return self.ops(kind, inputs, [shape], name, **attributes)[0]

    def ops(
        self, kind: str, inputs: Sequence[ir.Value], shapes: Sequence[Sequence[int]], name: str, **attributes: Any
    ) -> list[ir.Value]:
        """As :meth:`op`, with an output for each of ``shapes``."""
        outputs = [
            ir.Value(
                name=self.unique(name),
                type=ir.TensorType(ir.DataType.FLOAT),
                shape=ir.Shape(tensor_shape(shape, f"{name}: output")),
            )
            for shape in shapes
        ]
        self.nodes.append(
            ir.node(kind, inputs, attributes, outputs=outputs, name=_free(name or kind, self._node_names))
        )
        return outputs

    def constant(self, array: NDArray[Any], name: str) -> ir.Value:
        """Add an initializer."""
        name = self.unique(name)
        tensor = ir.tensor(np.asarray(array, order="C"), name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        self.initializers.append(value)
        return value

    def floats(self, values: Any, name: str) -> ir.Value:
        """A float32 constant."""
        return self.constant(np.asarray(values, np.float32), name)

    def integers(self, values: Sequence[int], name: str) -> ir.Value:
        """An int64 constant, shape (len(values),)."""
        return self.constant(np.asarray(values, np.int64), name)

    def unique(self, name: str) -> str:
        """A name for a tensor that no other has."""
        return _free(name, self._tensor_names)


def _free(name: str, used: set[str]) -> str:
    candidate, number = name or "unnamed", 0
    while candidate in used:
        number += 1
        candidate = f"{name or 'unnamed'}_{number}"
    used.add(candidate)
    return candidate


def dims(value: ir.Value) -> Shape:
    """Shape of a tensor of a graph in the making, always known."""
    return tuple(int(dim) for dim in value.shape or () if isinstance(dim, int))


def parameters(layer: CaffeLayer, name: str) -> Any:
    """The ``…_param`` message ``name`` of a layer, with defaults where the file does not have it."""
    return getattr(layer.parameters, name)


def canonical_axis(layer: CaffeLayer, axis: int, rank: int) -> int:
    """``axis`` counted from the front.

    Raises:
        ModelError: there is no such axis.
    """
    if not -rank <= axis < rank:
        raise ModelError(f"{layer}: axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def only_input(layer: CaffeLayer, inputs: Sequence[ir.Value]) -> ir.Value:
    """The one bottom of a layer that takes one.

    Raises:
        ModelError: there is another number.
    """
    check_bottoms(layer, inputs, 1, 1)
    return inputs[0]


def check_bottoms(layer: CaffeLayer, inputs: Sequence[ir.Value], least: int, most: int | None) -> None:
    """Refuse another number of bottoms.

    Raises:
        ModelError: there is another number.
    """
    if len(inputs) < least or (most is not None and len(inputs) > most):
        allowed = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        raise ModelError(f"{layer}: {len(inputs)} bottoms, needed are {allowed}")


def image_shape(layer: CaffeLayer, value: ir.Value) -> tuple[int, int, int, int]:
    """Shape (N, C, H, W) of the bottom of a layer that works on images.

    Raises:
        UnsupportedError: it has another rank.
    """
    shape = dims(value)
    if len(shape) != 4:
        raise UnsupportedError(f"{layer}: only bottoms of 4 dimensions (N, C, H, W) are supported, it has {shape}")
    return shape[0], shape[1], shape[2], shape[3]


def blob(layer: CaffeLayer, index: int, shape: Sequence[int]) -> NDArray[np.float32]:
    """Weight ``index`` of a layer as ``shape``; leading ones may differ, as in files of older Caffe.

    Raises:
        ModelError: it is missing or has another shape.
    """
    if index >= len(layer.blobs):
        raise ModelError(f"{layer}: the caffemodel has {len(layer.blobs)} blobs for it, blob {index} is missing")
    found = layer.blobs[index]
    if _without_leading_ones(found.shape) != _without_leading_ones(shape):
        raise ModelError(f"{layer}: blob {index} has shape {found.shape}, expected is {tuple(shape)}")
    return found.reshape(tuple(shape))


def broadcastable(array: NDArray[np.float32], axis: int, rank: int) -> NDArray[np.float32]:
    """``array`` over the axes from ``axis`` on, of ``rank`` dimensions, so that it broadcasts."""
    return array.reshape((1,) * axis + array.shape + (1,) * (rank - axis - array.ndim))


def _without_leading_ones(shape: Sequence[int]) -> Shape:
    rest = list(shape)
    while rest and rest[0] == 1:
        rest.pop(0)
    return tuple(rest)


def per_side(
    layer: CaffeLayer, values: Sequence[int], pair: tuple[int | None, int | None], default: int
) -> tuple[int, int]:
    """Height and width of a setting that may be given once, twice, or as ``…_h`` and ``…_w``.

    Args:
        layer: for messages.
        values: the repeated field.
        pair: the fields for height and width, ``None`` where the file does not have them.
        default: what holds where nothing is given.

    Raises:
        ModelError: both forms, or more than two values.
    """
    if pair != (None, None):
        if values:
            raise ModelError(f"{layer}: a size is given both for all sides and for single ones")
        height, width = pair
        return default if height is None else height, default if width is None else width
    if len(values) > 2:
        raise ModelError(f"{layer}: {list(values)}: one value or two (height, width) are needed")
    return (values[0], values[-1]) if values else (default, default)


def given(message: Any, field: str) -> Any:
    """Value of ``field`` where the file has it, else ``None``."""
    return getattr(message, field) if message.HasField(field) else None
