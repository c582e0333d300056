"""What layers take where nothing is fused (O0): each loads and stores its maps by itself.

A layer waits, and moves amounts: bytes of its maps, padded to whole blocks; rows and elements where it moves data, each
in vectors of its own; and rows of every channel where the layout changes in front of it. A march's data say how many
bytes each amount stands for (:class:`~engine.chips.latency.UnfusedLayer`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

from engine.chips.latency import Latency
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.ops.core.costs import OF_WEIGHTS, CostKind

MAPS, ENTERING, LEAVING, WIDE = "maps", "entering", "leaving", "wide"
"""Bytes of what a layer reads and computes, but for int32 results of layers of weights; of what of it comes from
outside; of such results; and of all but these once more where inputs are int16.
"""
STEPPED = "stepped"
"""Bytes of results of which steps, or the parts of large windows, keep few."""
ROWS, PLANES, ELEMENTS, ITEMS = "rows", "planes", "elements", "items"
"""Rows of the last dimension, rows of each channel, elements, and rows that are cut into more than three dimensions."""

_ROWS, _BLOCK, _FEWEST = 2, 8, 2
"""Rows, pixels and channels of a block; a map of one or two channels has two."""
COMPUTED = OF_WEIGHTS | {CostKind.POOL}
"""Kinds of layers whose work is computed from their windows; others work as long as a part of their transfers."""
_MAP_RANK = 4
_LARGEST_WINDOW = 9
"""Rows or columns of a window that is computed at once."""
_WIDE_BITS, _ACCUMULATOR_BITS = 16, 32
_MOVING = frozenset({CostKind.RESHAPE, CostKind.TRANSPOSE})

Amounts = Mapping[str, float]
"""What a layer, or a layout change, moves."""


@dataclass(frozen=True)
class UnfusedCost:
    """What a layer takes besides its weights and its work in the array.

    Attributes:
        wait_us: for which it waits.
        moved: bytes that it loads and stores.
        worked: those of them beside whose transfers it works as long.
    """

    wait_us: float = 0.0
    moved: float = 0.0
    worked: float = 0.0

    def __add__(self, other: UnfusedCost) -> UnfusedCost:
        return UnfusedCost(self.wait_us + other.wait_us, self.moved + other.moved, self.worked + other.worked)


def unfused_costs(layers: Sequence[Layer], latency: Latency) -> Iterator[UnfusedCost]:
    """The costs of each layer of a subgraph.

    Args:
        layers: in running order.
        latency: of the march.
    """
    for parts in unfused_parts(layers, latency.input_row.block):
        yield sum((_cost(kind, amounts, latency) for kind, amounts in parts), UnfusedCost())


def _cost(kind: str, amounts: Amounts, latency: Latency) -> UnfusedCost:
    found = latency.unfused_layers.get(kind)
    if found is None:
        return UnfusedCost()
    moved = sum(found.bytes.get(name, 0.0) * amount for name, amount in amounts.items())
    return UnfusedCost(found.us + found.item_us * amounts.get(ITEMS, 0), moved, found.work * moved)


def unfused_parts(layers: Sequence[Layer], block: int) -> Iterator[list[tuple[str, Amounts]]]:
    """The kinds and amounts of each layer: its own last, layout changes first, one for all readers, and that of what
    leaves in two layouts.

    Args:
        layers: of a subgraph, in running order.
        block: pixels of a vector.
    """
    makers = {layer.output: layer for layer in layers}
    changed: set[tuple[str, str]] = set()
    for layer in layers:
        parts: list[tuple[str, Amounts]] = []
        for position in layer.converted:
            kind, rows = _conversion(layer, position, block)
            if (layer.inputs[position], kind) not in changed:
                changed.add((layer.inputs[position], kind))
                parts.append((kind, {ROWS: rows}))
        if layer.copied:
            parts.append(("to_pixels", {ROWS: _planes(layer.output_shape) * -(-layer.output_shape[-2] // block)}))
        own = _kind(layer, makers)
        if own:
            parts.append((own, dict(_amounts(layer, makers))))
        yield parts


def _conversion(layer: Layer, position: int, block: int) -> tuple[str, float]:
    """The kind of a layout change in front of a layer, and the vectors of rows of each channel that it moves."""
    shape = _as_map(layer.input_shapes[position])
    if layer.kind in _MOVING or layer.kind is CostKind.MATMUL:
        kind = "to_planes" if layer.kind in _MOVING else "to_matrix"
        return kind, math.prod(shape[:3]) * -(-shape[3] // block)
    return "to_pixels", _planes(shape) * -(-shape[2] // block)


def _kind(layer: Layer, makers: Mapping[str, Layer]) -> str:
    """What a layer's constants are called; empty where nothing is moved."""
    match layer.kind:
        case CostKind.RESHAPE | CostKind.TRANSPOSE:
            return _movement(layer, makers)
        case CostKind.REDUCE if not _is_whole(layer):
            return "reduce_rows"
        case CostKind.JOIN | CostKind.MOVE if _is_uneven(layer):
            return f"{layer.kind.value}_uneven"
        case CostKind.CONV if layer.dilations != (1, 1) and layer.kernel != (1, 1):
            return "conv_dilated"
        case CostKind.CONV if max(layer.kernel) > _LARGEST_WINDOW:
            return "conv_large"
        case CostKind.CONV if layer.stepped_shape != layer.output_shape:
            return "conv_stepped"
        case CostKind.MATMUL if len(layer.inputs) == 1:
            return CostKind.CONV.value
        case _:
            return layer.kind.value


def _movement(layer: Layer, makers: Mapping[str, Layer]) -> str:
    before = makers.get(layer.inputs[0])
    windows = before is not None and before.kind is CostKind.TRANSPOSE and before.motion is Motion.PIXELS
    same_rows = layer.input_shapes[0][-1] == layer.output_shape[-1]
    if layer.kind is CostKind.RESHAPE:
        if windows:
            return Motion.PIXELS.value
        if layer.motion is Motion.HEADS or same_rows:
            return ""
    elif layer.motion is Motion.VIEW:
        return ""
    if layer.motion in {Motion.ROWS, Motion.BLOCKS, Motion.FOLDED}:
        return "rows_moved" if same_rows else "rows_turned"
    if _cuts_deep(layer):
        return "elements_deep"
    return "" if layer.motion in (Motion.NONE, Motion.LAID) else layer.motion.value


def _amounts(layer: Layer, makers: Mapping[str, Layer]) -> Iterator[tuple[str, float]]:
    if layer.kind in _MOVING:
        yield ELEMENTS, math.prod(layer.output_shape)
        if _cuts_deep(layer):
            yield ITEMS, math.prod(layer.input_shapes[0][:-1])
            return
        yield ROWS, max(math.prod(shape[:-1]) for shape in (layer.input_shapes[0], layer.output_shape))
        yield PLANES, _planes(layer.input_shapes[0])
        yield MAPS, _padded(layer.output_shape) * layer.output_bits / 8
        return
    sizes = [_padded(shape) * layer.input_bits / 8 for shape in layer.input_shapes]
    read = sum(sizes)
    written = _padded(layer.output_shape) * layer.output_bits / 8
    leaves = layer.output_bits >= _ACCUMULATOR_BITS
    leaves &= layer.kind in OF_WEIGHTS
    yield MAPS, read + written * (not leaves)
    if layer.stepped_shape != layer.output_shape or max(layer.kernel) > _LARGEST_WINDOW:
        yield STEPPED, _padded(layer.stepped_shape) * layer.output_bits / 8
    if leaves:
        yield LEAVING, written
    if layer.kind in OF_WEIGHTS:
        yield ENTERING, sum(compress(sizes, [_enters(name, makers) for name in layer.inputs]))
    if layer.input_bits >= _WIDE_BITS:
        yield WIDE, read + written * (not leaves)
    yield PLANES, max(map(_planes, (*layer.input_shapes, layer.output_shape)))


def _cuts_deep(layer: Layer) -> bool:
    """Whether a reshape cuts rows into more than three dimensions, element by element: of maps, only some."""
    tokens = 1 in _as_map(layer.input_shapes[0])[1:3]
    single = layer.motion is Motion.ELEMENTS or (layer.motion is Motion.TURNED and tokens)
    return layer.kind is CostKind.RESHAPE and single and len(layer.output_shape) > _MAP_RANK


def _enters(name: str, makers: Mapping[str, Layer]) -> bool:
    """Whether a tensor comes from outside, perhaps in another shape."""
    maker = makers.get(name)
    while maker is not None and maker.kind is CostKind.RESHAPE and maker.motion in (Motion.VIEW, Motion.NONE):
        maker = makers.get(maker.inputs[0])
    return maker is None


def _is_whole(layer: Layer) -> bool:
    """Whether a reduction leaves one pixel, or one channel of each."""
    before, after = _as_map(layer.input_shapes[0]), _as_map(layer.output_shape)
    return after[1:3] == (1, 1) or before[1:3] == after[1:3]


def _is_uneven(layer: Layer) -> bool:
    """Whether a part of a concatenation, or a slice, begins or ends within a block of channels."""
    depths = {shape[-1] for shape in (*layer.input_shapes, layer.output_shape)}
    return len(depths) > 1 and any(depth % _BLOCK for depth in depths)


def _planes(shape: Sequence[int]) -> int:
    """Rows of pixels of each channel (NHWC)."""
    batch, height, _, channels = _as_map(shape)
    return batch * height * channels


def _padded(shape: Sequence[int]) -> int:
    """Elements of a map with its padding to whole blocks."""
    batch, height, width, channels = _as_map(shape)
    depth = round_up(channels, _BLOCK) if channels > _FEWEST else _FEWEST
    return batch * round_up(height, _ROWS) * round_up(width, _BLOCK) * depth


def _as_map(shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` in four dimensions."""
    return (*(1,) * (4 - len(shape)), *shape) if len(shape) <= 4 else (math.prod(shape[:-3]), *shape[-3:])
