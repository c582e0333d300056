"""What it takes to work on a column of pixels, a map of as many rows of one pixel each (separable attention), to add up
rows, to take means over the rows or columns of a map, and to read or turn a map of one channel by rows.

Layers compute a column as any other map, but each pixel is moved by itself where a map becomes a column, or a column a
map, and where one comes from another subgraph or leaves as bytes; and what a reader takes channel by channel is laid so
before. Rows are added up pixel by pixel. ``docs/evidence/latency.md`` has what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from engine.chips.latency.layout import RowPadding
from engine.chips.latency.overhead import Overhead
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.compile.sizes import row_width
from engine.ops.core.costs import CostKind

Amount = tuple[Overhead, float]
"""An overhead and how often it occurs, as :mod:`engine.compile.overheads` has them."""

_MAP_RANK = 4
_BLOCK = 8
"""Channels of a block; parts that begin within one, or end there, are cut channel by channel."""
_BACK = 0.2
"""Time of a pixel of a column that becomes one of a map, of one that is laid by itself."""
_VECTOR_BYTES = 128
_VECTORS = RowPadding(block=_VECTOR_BYTES, minimum=16)
_SUM, _MEAN = "ReduceSum", "ReduceMean"
_NARROW_BITS = 8


def column_amounts(layers: Sequence[Layer], handed: Collection[str] = ()) -> Iterator[tuple[Amount, ...]]:
    """Per layer, in running order, what columns take besides its own work.

    Args:
        layers: of a subgraph.
        handed: names of the inputs that another subgraph computes.
    """
    readers: dict[str, list[Layer]] = {}
    for layer in layers:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer)
    return (tuple(_amounts(layer, readers.get(layer.output, ()), handed)) for layer in layers)


def _amounts(layer: Layer, readers: Sequence[Layer], handed: Collection[str]) -> Iterator[Amount]:
    shape = layer.output_shape
    pixels = sum(
        input_shape[1] / 1e3
        for name, input_shape in zip(layer.inputs, layer.input_shapes, strict=True)
        if name in handed and is_column(input_shape)
    )
    if is_column(shape):
        leaves = layer.leaves and layer.output_bits == _NARROW_BITS and not becomes_column(layer)
        pixels += shape[1] / 1e3 * (leaves + any(map(_leaves_column, readers)))
        if any(map(takes_channels, readers)):
            yield Overhead.COLUMN_TURNED, shape[1] * round_up(shape[-1], _BLOCK) / 1e3
        if becomes_column(layer):
            yield Overhead.STACKED_PIXEL, shape[1] / 1e3
        if layer.kind is CostKind.MUL and any(other == (*shape[:-1], 1) for other in layer.input_shapes):
            yield Overhead.COLUMN_ROW, shape[1] / 1e3
            yield Overhead.COLUMN_ELEMENT, math.prod(shape) / 1e3
    if _leaves_column(layer):
        pixels += _BACK * layer.input_shapes[0][1] / 1e3
    if takes_channels(layer):
        cut = math.prod(shape) + sum(math.prod(part.output_shape) for part in layer.parts)
        taken = cut if layer.kind is CostKind.MOVE else math.prod(layer.input_shapes[0])
        yield Overhead.COLUMN_ADDED, taken / 1e3
    if adds_rows(layer):
        yield Overhead.ROW_ADDED, _row_pixels(layer.input_shapes[0]) / 1e3
    if layer.kind is not CostKind.RESHAPE and any(_wants_turned(reader, layer) for reader in readers):
        yield Overhead.ROW_TURNED, math.prod(shape[:-1]) / 1e3
    yield from _means(layer)
    if layer.kind is CostKind.LUT and len(shape) == _MAP_RANK and shape[-1] == 1:
        yield Overhead.SINGLE_TABLE_ROW, math.prod(shape[:2]) / 1e3
    if pixels:
        yield Overhead.COLUMN_PIXEL, pixels


def column_bytes(layer: Layer) -> int:
    """Bytes that a column takes whose channels are no whole blocks: each element of each pixel lies in a vector."""
    uneven = becomes_column(layer) and layer.output_shape[-1] % _BLOCK > 0
    return math.prod(layer.output_shape) * _VECTOR_BYTES if uneven else 0


def is_column(shape: Sequence[int]) -> bool:
    """Whether ``shape`` is that of one column of pixels of several channels."""
    return len(shape) == _MAP_RANK and shape[0] == 1 == shape[2] < min(shape[1], shape[-1])


def becomes_column(layer: Layer) -> bool:
    """Whether the pixels of a map become a column of as many rows, with all their channels."""
    if layer.kind is not CostKind.RESHAPE or not is_column(layer.output_shape):
        return False
    before = layer.input_shapes[0]
    moved = layer.motion is Motion.VIEW and len(before) == _MAP_RANK
    return moved and before[-1] == layer.output_shape[-1] and min(before[1:3]) > 1


def _leaves_column(layer: Layer) -> bool:
    """Whether the pixels of a column become a map of several rows and columns."""
    before, after = layer.input_shapes[0], layer.output_shape
    reshaped = layer.kind is CostKind.RESHAPE and is_column(before)
    return reshaped and len(after) == _MAP_RANK and before[-1] == after[-1] and min(after[1:3]) > 1


def takes_channels(layer: Layer) -> bool:
    """Whether a layer takes a column channel by channel: it adds up its pixels or cuts it within a block."""
    before, after = layer.input_shapes[0], layer.output_shape
    return is_column(before) and (adds_column(layer) or (layer.kind is CostKind.MOVE and _cuts_unevenly(before, after)))


def adds_column(layer: Layer) -> bool:
    """Whether the pixels of a column are added up, channel by channel."""
    before, after = layer.input_shapes[0], layer.output_shape
    column = len(before) == len(after) == _MAP_RANK and before[2] == 1 < before[1] and after[1:3] == (1, 1)
    return column and before[-1] == after[-1] and layer.op_type.endswith(_SUM)


def adds_rows(layer: Layer) -> bool:
    """Whether the pixels of each row of a map are added up, channel by channel."""
    before, after = layer.input_shapes[0], layer.output_shape
    rows = len(before) == len(after) == _MAP_RANK and before[:2] == after[:2] and before[2] > after[2] == 1 < before[1]
    return rows and before[-1] == after[-1] and layer.op_type.endswith(_SUM)


def _wants_turned(reader: Layer, layer: Layer) -> bool:
    """Whether a layer takes the pixels of each row by themselves: it adds them up, unless they are whole vectors, or
    makes rows of the elements of a map of one channel.
    """
    if adds_rows(reader):
        return row_width(layer.output_shape[2], _VECTORS) % _VECTOR_BYTES > 0
    single = len(layer.output_shape) == _MAP_RANK and layer.output_shape[-1] == 1
    return single and reader.kind is CostKind.RESHAPE and reader.motion is Motion.ELEMENTS


def _means(layer: Layer) -> Iterator[Amount]:
    """Means over the rows or the columns of a map."""
    before, after = layer.input_shapes[0], layer.output_shape
    if (
        layer.kind is not CostKind.REDUCE
        or not layer.op_type.endswith(_MEAN)
        or not len(before) == len(after) == _MAP_RANK
    ):
        return
    if before[1] > after[1] == 1 < after[2] and before[2:] == after[2:]:
        yield Overhead.REDUCE, 1
        yield Overhead.MEAN_COLUMN, math.prod(after) / 1e3
    elif before[2] > after[2] == 1 < after[1] and before[-1] == after[-1]:
        yield Overhead.MEAN_ROW, math.prod(after[:2]) / 1e3


def _row_pixels(shape: Sequence[int]) -> int:
    """Pixels of all rows; those of whole vectors are taken with their padding."""
    batch, height, width, _ = shape
    padded = row_width(width, _VECTORS)
    return batch * height * (width if padded % _VECTOR_BYTES else padded)


def _cuts_unevenly(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether channels of a column are cut out that are no whole blocks."""
    return tuple(before[:-1]) == tuple(after[:-1]) and after[-1] < before[-1] and before[-1] % _BLOCK > 0
