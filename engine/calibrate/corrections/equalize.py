"""Cross-layer equalisation (Nagel et al., 2019): channels of like range, without a change of the function.

Where nothing but a Relu or LeakyRelu stands between two convolutions, a channel can be divided by any positive number
in the first if it is multiplied by it in the second. The original has no such option.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.graph import sole_reader
from engine.ir import attribute, constant_of, set_constant

Array = NDArray[np.float32]

_HOMOGENEOUS = ("Relu", "LeakyRelu")
_ROUNDS = 4
"""A convolution between two others belongs to two pairs: several rounds bring them together."""
_LIMIT = 32.0
"""A channel is never scaled by more in all: what is almost empty would need it."""


def equalize(optimized: ir.Model) -> tuple[ir.Model, int]:
    """A copy of ``optimized`` with channels equalised between pairs of convolutions, and the number of pairs.

    Channel c of a pair is divided by ``sqrt(r1 / r2)``: r1 the largest weight that gives it, r2 that reads it.
    """
    model = optimized.clone()
    pairs = list(_pairs(model))
    scaled = [np.ones(len(_weight(first)), np.float32) for first, _ in pairs]
    for _ in range(_ROUNDS):
        for (first, second), so_far in zip(pairs, scaled, strict=True):
            divisor = np.clip(so_far * _divisor(first, second), 1 / _LIMIT, _LIMIT) / so_far
            _divide(model.graph, first, second, divisor)
            so_far *= divisor
    return model, len(pairs)


def _pairs(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Node]]:
    for node in model.graph:
        if not _is_scalable(node):
            continue
        reader = _sole_data_reader(node.outputs[0])
        if reader is not None and reader.op_type in _HOMOGENEOUS and reader.domain == "":
            reader = _sole_data_reader(reader.outputs[0])
        if (
            reader is not None
            and _is_scalable(reader)
            and attribute(reader, "group", 1) in (1, _weight(reader).shape[0])
        ):
            yield node, reader


def _is_scalable(node: ir.Node) -> bool:
    if node.op_type != "Conv" or node.domain:
        return False
    return all(constant_of(value) is not None for value in node.inputs[1:] if value is not None)


def _sole_data_reader(value: ir.Value) -> ir.Node | None:
    """The node of which ``value`` is the first input and that of no other."""
    reader = sole_reader(value, once=True)
    return reader if reader is not None and reader.inputs[0] is value else None


def _weight(node: ir.Node) -> Array:
    return np.asarray(constant_of(node.inputs[1]), np.float32)


def _divisor(first: ir.Node, second: ir.Node) -> Array:
    """What would make the largest weights on both sides of every channel the same; 1 where one side is all but empty.

    A channel with next to no weights lives by its bias, which would grow with them.
    """
    given, read = _weight(first), _by_channel(second)
    ranges = [np.abs(array).reshape(len(array), -1).max(axis=1) for array in (given, read)]
    usable = np.all([array > array.max() / _LIMIT**2 for array in ranges], axis=0)
    ratio = np.divide(ranges[0], ranges[1], out=np.ones_like(ranges[0]), where=usable)
    return np.asarray(np.sqrt(ratio), np.float32)


def _bias(node: ir.Node) -> Array | None:
    found = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
    return None if found is None else np.asarray(found, np.float32)


def _by_channel(second: ir.Node) -> Array:
    """The weights that read channel c, at index c."""
    read = _weight(second)
    return read if attribute(second, "group", 1) > 1 else read.swapaxes(0, 1)


def _divide(graph: ir.Graph, first: ir.Node, second: ir.Node, divisor: Array) -> None:
    """Divide the channels between ``first`` and ``second`` by ``divisor``, and let ``second`` multiply them by it."""
    given, read, bias = _weight(first), _by_channel(second), _bias(first)
    columns = divisor.reshape(-1, *(1,) * (given.ndim - 1))
    set_constant(graph, first, 1, given / columns)
    if bias is not None:
        set_constant(graph, first, 2, bias / divisor)
    factors = read * columns
    set_constant(graph, second, 1, factors if attribute(second, "group", 1) > 1 else factors.swapaxes(0, 1))
