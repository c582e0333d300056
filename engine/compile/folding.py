"""What passes through DDR on bayes and bayes-e where the pixels of a map become channels, and channels pixels.

SpaceToDepth, the slices of every second row and column that a Concat joins (Focus of YOLOv5 and YOLOX) and DepthToSpace
store parts of their map and load them again. ``docs/evidence/latency.md`` has what was asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.chips.latency.through_ddr import FoldedMap, Folding, Unfolding
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.compile.records import Shape
from engine.compile.sizes import IMAGE_CHANNELS, activation_bytes
from engine.ops.core.costs import CostKind

_PARTS = 4
_MAP_RANK = 4
_SMALL_BLOCK = 2
"""Rows and columns of a block of pixels that goes through DDR as it is."""


def folded_bytes(layers: Sequence[Layer], folding: Folding) -> dict[str, int]:
    """Bytes that layers store and load again to make channels of pixels, by the name of what they compute.

    Args:
        layers: of a subgraph, in running order.
        folding: what the march moves.
    """
    sources: dict[str, tuple[str, Shape]] = {}
    found: dict[str, int] = {}
    for layer in layers:
        if layer.kind is CostKind.MOVE and len(layer.inputs) == 1:
            sources[layer.output] = sources.get(layer.inputs[0], (layer.inputs[0], layer.input_shapes[0]))
        elif layer.motion is Motion.FOLDED:
            found[layer.output] = _bytes(layer, layer.input_shapes[0], folding.depth)
        elif layer.kind is CostKind.JOIN and len(set(layer.inputs)) == _PARTS:
            cut = {sources.get(name) for name in layer.inputs}
            whole = cut.pop()
            if whole is not None and not cut and _is_halved(layer, whole[1]):
                found[layer.output] = _bytes(layer, whole[1], folding.slices)
    return found


def unfolded_bytes(layer: Layer, unfolding: Unfolding) -> int:
    """Bytes that a layer stores, and loads again, which makes blocks of pixels of channels; 0 where it does not.

    Blocks of two pixels go through DDR as they are; larger ones in a vector per pixel, once more for every tile of
    what they are made of, and for every row by which they are larger.
    """
    if layer.motion is not Motion.BLOCKS:
        return 0
    _, height, width, channels = layer.output_shape
    depth = round_up(channels, unfolding.channels)
    rows = layer.input_shapes[0][1]
    block = height // rows
    if block <= _SMALL_BLOCK:
        return height * width * depth * (1 if channels <= unfolding.few else unfolding.passes)
    tiles = min(rows // unfolding.tile_rows + 1, unfolding.most_tiles)
    vectors = height * width * depth // unfolding.channels * tiles
    return vectors * unfolding.vector_bytes * (block - _SMALL_BLOCK)


def _is_halved(layer: Layer, whole: Shape) -> bool:
    """Whether each part that ``layer`` joins has half of the rows and columns of ``whole``, and all channels."""
    if len(whole) != _MAP_RANK:
        return False
    batch, height, width, channels = whole
    return all(tuple(shape) == (batch, height // 2, width // 2, channels) for shape in layer.input_shapes)


def _bytes(layer: Layer, shape: Shape, moved: FoldedMap) -> int:
    if len(shape) != _MAP_RANK or shape[-1] > IMAGE_CHANNELS:
        return round(moved.passes * activation_bytes(shape, layer.input_bits))
    batch, height, width, channels = shape
    return batch * height * (moved.pixel_bytes * width + moved.part_bytes * channels * -(-width // moved.part_pixels))
