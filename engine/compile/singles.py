"""What it takes to make rows of single channels of the channels of a map, and a map of such rows again, as attention in
linear time does.

Queries, keys and values of a map, joined in its channels, become one row of single channels for each of its pixels,
which is cut, multiplied and turned back into a map. ``docs/evidence/latency.md`` has what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from engine.chips.latency.overhead import Overhead
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.ops.core.costs import CostKind

Amount = tuple[Overhead, float]
"""An overhead and how often it occurs, as :mod:`engine.compile.overheads` has them."""

_MAP_RANK = 4
_ROW_PIXELS = 4
"""Pixels that rows of a map are padded to where each pixel becomes a row of single channels."""


def singles_amounts(layers: Sequence[Layer]) -> Iterator[tuple[Amount, ...]]:
    """Per layer of a subgraph, in running order, what such rows take besides its own work."""
    makers = {layer.output: layer for layer in layers}
    readers: dict[str, list[Layer]] = {}
    for layer in layers:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer)
    return (tuple(_amounts(layer, makers, readers.get(layer.output, ()))) for layer in layers)


def _amounts(layer: Layer, makers: Mapping[str, Layer], readers: Sequence[Layer]) -> Iterator[Amount]:
    elements = math.prod(layer.output_shape) / 1e3
    if becomes_rows(layer):
        maker = makers.get(layer.inputs[0])
        *_, height, width = layer.input_shapes[0] if maker is None else maker.input_shapes[0]
        if lies_joined(layer, readers):
            yield Overhead.SINGLES_ROW, layer.output_shape[2] * height / 1e3
            yield Overhead.ARRANGED, 1
            yield Overhead.ARRANGED_PIXELS, elements
            yield Overhead.ARRANGED_ROWS, layer.output_shape[1] / 1e3
        else:
            yield Overhead.SINGLES_SPREAD, elements * round_up(width, _ROW_PIXELS) / width
    elif joins_rows_of(layer, makers):
        yield Overhead.SINGLES_JOINED, elements
    elif scales_rows(layer, makers):
        yield Overhead.SINGLES_SCALED, elements


def becomes_rows(layer: Layer) -> bool:
    """Whether the channels of each pixel of a map become a row of single channels."""
    before, after = layer.input_shapes[0], layer.output_shape
    moved = layer.kind is CostKind.TRANSPOSE and layer.motion is Motion.ELEMENTS
    return moved and _is_matrix(after) and tuple(before) == (1, 1, after[2], after[1])


def lies_joined(layer: Layer, readers: Sequence[Layer]) -> bool:
    """Whether such rows are what a change of layout makes of the joined rows of each channel: where several layers cut
    them (Slices; a Split alone gets them element by element).
    """
    return becomes_rows(layer) and len(readers) > 1


def joins_rows_of(layer: Layer, makers: Mapping[str, Layer]) -> bool:
    """Whether rows of single channels become the channels of a map again."""
    maker = makers.get(layer.inputs[0])
    if maker is None or maker.kind is not CostKind.TRANSPOSE or layer.kind is not CostKind.RESHAPE:
        return False
    before, after = maker.input_shapes[0], layer.output_shape
    turned = _is_matrix(before) and tuple(maker.output_shape) == (1, 1, before[2], before[1])
    return turned and len(after) == _MAP_RANK and tuple(after[:2]) == (1, before[2]) and min(after[2:]) > 1


def scales_rows(layer: Layer, makers: Mapping[str, Layer]) -> bool:
    """Whether each row of single channels that a product gave is multiplied with a number of its own."""
    after = layer.output_shape
    if layer.kind is not CostKind.MUL or not _is_matrix(after):
        return False
    given = {makers[name].kind for name in layer.inputs if name in makers}
    return CostKind.MATMUL in given and any(tuple(shape) == (1, after[1], 1, 1) for shape in layer.input_shapes)


def _is_matrix(shape: Sequence[int]) -> bool:
    """Whether ``shape`` (NHWC) is that of rows of single channels."""
    return len(shape) == _MAP_RANK and shape[0] == shape[-1] == 1 and min(shape[1:3]) > 1
