"""Which feature maps of a subgraph stay on the chip, and what that costs in DDR traffic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.compile.layers import Layer, LayerKind
from engine.compile.packing import round_up
from engine.march.latency import RowPadding, Strips

_NEVER = 1 << 60
UNLIMITED = 1 << 60
"""Bytes that every map fits."""

_ROWS = 8
"""Rows of every map that layers fused row by row hold at a time; cancels out against the fitted ``group_bytes``."""

_ACCUMULATOR_BITS = 32
_BATCH_PIXELS = 64

IMAGE_CHANNELS = 4
"""Maps with at most so many channels are images, whose channels are not padded in DDR."""


class Overlap(StrEnum):
    """Which loads and stores go on while layers compute."""

    NONE = "none"
    BORDERS = "borders"
    """Inputs, weights and outputs; not what passes through DDR within the subgraph."""
    ALL = "all"


@dataclass(frozen=True)
class Memory:
    """On-chip memory as the compiler may use it.

    Attributes:
        group_bytes: bytes for the rows that fused layers work on; 0: every layer is a group of its own.
        map_bytes: bytes for whole feature maps that one group leaves to a later one; 0: they go through DDR.
        relay_inputs: whether inputs are rearranged over DDR before they are used.
        relay_outputs: row multiples of the passes over DDR that rearrange outputs larger than ``relay_above`` bytes.
        relay_above: see ``relay_outputs``.
        overlap: what of the traffic goes on while layers compute.
        strips: column strips of layers with wide int32 results; none: rows of any width run whole.
        tables_through_ddr: whether what a table is applied to passes through DDR.
        pools_through_ddr: whether results of pools whose windows overlap without padding pass through DDR.
        skips_whole: whether a map that bypasses windows of other layers is held whole rather than row by row.
    """

    group_bytes: int
    map_bytes: int
    relay_inputs: bool = False
    relay_outputs: tuple[int, ...] = ()
    relay_above: int = 0
    overlap: Overlap = Overlap.ALL
    strips: Strips | None = None
    tables_through_ddr: bool = False
    pools_through_ddr: bool = False
    skips_whole: bool = False


def fused_groups(layers: Sequence[Layer], memory: Memory) -> tuple[tuple[int, ...], ...]:
    """Consecutive layers that run row by row together, as positions; each group is as long as its rows fit.

    Layers that run in column strips are joined by those before them as far as the rows of a strip fit too. What is
    broadcast over a map depends on all rows of others: it is ready before the first row of its reader.
    """
    groups: list[tuple[int, ...]] = []
    rows: dict[str, int] = {}
    for position, layer in enumerate(layers):
        own = _row_bytes(layer)
        joined = rows | own
        ended = bool(groups) and (in_strips(layers[groups[-1][-1]], memory.strips) or _broadcasts(layer))
        if groups and not ended and sum(joined.values()) <= memory.group_bytes:
            groups[-1] = (*groups[-1], position)
            rows = joined
        else:
            groups.append((position,))
            rows = own
    return tuple(part for group in groups for part in _cut_before_strips(layers, group, memory.strips))


def fits_together(layers: Sequence[Layer], memory: Memory) -> bool:
    """Whether ``layers`` can be one group: the rules of :func:`fused_groups`, wherever the group begins."""
    rows: dict[str, int] = {}
    for layer in layers:
        rows |= _row_bytes(layer)
    if sum(rows.values()) > memory.group_bytes or any(_broadcasts(layer) for layer in layers[1:]):
        return False
    if any(in_strips(layer, memory.strips) for layer in layers[:-1]):
        return False
    return len(_cut_before_strips(layers, tuple(range(len(layers))), memory.strips)) == 1


def in_strips(layer: Layer, strips: Strips | None) -> bool:
    """Whether ``layer`` runs in column strips: its results are int32 and wider than the accumulators."""
    wide = layer.output_bits == _ACCUMULATOR_BITS and len(layer.output_shape) == 4
    return strips is not None and wide and layer.output_shape[2] > strips.above


def strip_columns(layers: Sequence[Layer], strips: Strips) -> Iterator[dict[str, tuple[int, int]]]:
    """Columns, first and end, of every map of a group that each strip of its last layer needs; they may exceed the map.

    Windows are taken to be padded evenly.
    """
    for start in range(0, layers[-1].output_shape[2], strips.columns):
        needed = {layers[-1].output: (start, start + strips.columns)}
        for layer in reversed(layers):
            first, end = needed.get(layer.output, (0, 0))
            stride, halo = layer.strides[1], layer.kernel[1] // 2
            for name in layer.inputs:
                own = (first * stride - halo, (end - 1) * stride + layer.kernel[1] - halo)
                other = needed.get(name, own)
                needed[name] = (min(own[0], other[0]), max(own[1], other[1]))
        yield needed


def _cut_before_strips(
    layers: Sequence[Layer], group: tuple[int, ...], strips: Strips | None
) -> tuple[tuple[int, ...], ...]:
    """The group in one piece, or without and with the layers whose rows fit a strip."""
    if strips is None or not in_strips(layers[group[-1]], strips):
        return (group,)
    cut = len(group) - 1
    while cut and (
        _is_image(layers[group[cut - 1]])
        or _strip_row_bytes([layers[at] for at in group[cut - 1 :]], strips) <= strips.row_bytes
    ):
        cut -= 1
    return (group[:cut], group[cut:]) if cut else (group,)


def _is_image(layer: Layer) -> bool:
    return layer.output_shape[-1] <= IMAGE_CHANNELS


def _broadcasts(layer: Layer) -> bool:
    """Whether the layer reads maps of different heights."""
    return len({shape[1] for shape in layer.input_shapes if len(shape) == 4}) > 1


def _strip_row_bytes(layers: Sequence[Layer], strips: Strips) -> int:
    """Bytes of the rows of all maps of a group within one strip, as many rows as the largest window has."""
    depths = {name: shape[-1] for layer in layers for name, shape in zip(layer.inputs, layer.input_shapes, strict=True)}
    depths |= {layer.output: layer.output_shape[-1] * layer.output_bits // 8 for layer in layers}
    needed = next(strip_columns(layers, strips))
    rows = max(layer.kernel[0] for layer in layers)
    return rows * sum((end - first) * depths[name] for name, (first, end) in needed.items())


def spilled_tensors(
    layers: Sequence[Layer], outputs: Sequence[str], groups: Sequence[Sequence[int]], memory: Memory
) -> tuple[str, ...]:
    """Feature maps that one group leaves to another and that do not fit on the chip; they go through DDR.

    A map takes its bytes from the layer that computes it until the last one that reads it, which may write over it.
    Where the maps alive together exceed ``memory.map_bytes`` those whose next use is farthest go out (Belady's rule).
    What column strips or tables read from DDR goes out in any case.

    Args:
        layers: in running order.
        outputs: tensors that leave the subgraph; they are streamed out while they are computed.
        groups: the fused groups.
        memory: what fits.
    """
    group_of = {position: index for index, group in enumerate(groups) for position in group}
    uses = _uses(layers)
    alive: dict[str, int] = {}
    spilled: dict[str, None] = {}
    for position, layer in enumerate(layers):
        readers = uses.get(layer.output, ())
        leaves_group = any(group_of[use] != group_of[position] for use in readers)
        leaves_group |= memory.skips_whole and _is_skip(layers, uses, position)
        if _must_leave(layers, groups, group_of, position, readers, memory):
            spilled[layer.output] = None
        elif leaves_group and not (memory.map_bytes and _is_view(layer)):
            alive[layer.output] = activation_bytes(layer.output_shape, layer.output_bits)
        alive = {name: size for name, size in alive.items() if _next_use(uses[name], position) < _NEVER}
        while sum(alive.values()) > memory.map_bytes:
            victim = max(alive, key=lambda name: (_next_use(uses[name], position), alive[name], name))
            del alive[victim]
            spilled[victim] = None
    leaving = set(outputs)
    return tuple(name for name in spilled if name not in leaving)


def _is_skip(layers: Sequence[Layer], uses: Mapping[str, Sequence[int]], position: int) -> bool:
    """Whether a reader of the layer's output also depends on it by way of a layer with a window of several rows."""
    readers = uses.get(layers[position].output, ())
    if len(readers) < 2:
        return False
    through: set[str] = set()
    for at in range(readers[0], readers[-1] + 1):
        layer = layers[at]
        if through.intersection(layer.inputs):
            if at in readers:
                return True
            through.add(layer.output)
        elif at in readers and layer.kernel[0] > 1:
            through.add(layer.output)
    return False


def _must_leave(
    layers: Sequence[Layer],
    groups: Sequence[Sequence[int]],
    group_of: Mapping[int, int],
    position: int,
    readers: Sequence[int],
    memory: Memory,
) -> bool:
    """Whether the layer's output goes through DDR in any case: from some pools, to tables and to column strips."""
    if memory.tables_through_ddr and any(layers[reader].kind is LayerKind.LUT for reader in readers):
        return True
    if memory.pools_through_ddr and is_unpadded_pool(layers[position]) and readers:
        return True
    others = {group_of[reader] for reader in readers} - {group_of[position]}
    return any(in_strips(layers[groups[other][-1]], memory.strips) for other in others)


def is_unpadded_pool(layer: Layer) -> bool:
    """Whether windows of a pool overlap, stride and need no padding."""
    if layer.kind is not LayerKind.POOL or layer.kernel[0] <= layer.strides[0]:
        return False
    fitting = (layer.input_shapes[0][1] - layer.kernel[0]) // layer.strides[0] + 1
    return layer.strides[0] > 1 and layer.output_shape[1] == fitting


def relaid_bytes(
    layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str], memory: Memory
) -> dict[str, int]:
    """Bytes by which inputs and outputs of a subgraph, by name, pass through DDR once more to be rearranged."""
    relaid: dict[str, int] = {}
    for layer in layers:
        for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
            if memory.relay_inputs and name in inputs:
                relaid[name] = activation_bytes(shape, layer.input_bits)
        if layer.output in outputs:
            sizes = [activation_bytes(layer.output_shape, layer.output_bits, rows) for rows in memory.relay_outputs]
            if sum(sizes[:1]) > memory.relay_above:
                relaid[layer.output] = sum(sizes)
    return relaid


def _row_bytes(layer: Layer) -> dict[str, int]:
    """Bytes of the rows of each map that a layer reads or computes."""
    maps = [*zip(layer.inputs, layer.input_shapes, strict=True), (layer.output, layer.output_shape)]
    return {name: activation_bytes(_first_rows(shape), 8) for name, shape in maps}


def _first_rows(shape: Sequence[int]) -> tuple[int, ...]:
    laid = as_map(shape)
    return (*laid[:1], min(laid[1], _ROWS), *laid[2:]) if len(laid) == 4 else laid


def as_map(shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` (NHWC) as it is laid out: the single pixels of a batch are those of one map, up to 64 in a row."""
    if len(shape) != 4 or shape[0] == 1 or shape[1:3] != (1, 1):
        return tuple(shape)
    width = next(width for width in range(min(shape[0], _BATCH_PIXELS), 0, -1) if shape[0] % width == 0)
    return 1, shape[0] // width, width, shape[3]


def activation_bytes(shape: Sequence[int], bits: int, row: int = 8) -> int:
    """Bytes of a feature map on the chip: rows padded to multiples of ``row`` pixels, channels to 8 (NHWC)."""
    if len(shape) != 4:
        return math.prod(shape) * bits // 8
    batch, height, width, channels = as_map(shape)
    return batch * height * round_up(width, row) * round_up(channels, 8) * bits // 8


def ddr_bytes(shape: Sequence[int], bits: int, padding: RowPadding) -> int:
    """Bytes of a tensor in DDR: rows padded to blocks of pixels (NHWC)."""
    if len(shape) != 4:
        return math.prod(shape) * bits // 8
    batch, height, width, channels = as_map(shape)
    padded = round_up(channels, padding.channels) if channels > IMAGE_CHANNELS else channels
    return batch * height * row_width(width, padding) * padded * bits // 8


def row_width(width: int, padding: RowPadding) -> int:
    """Pixels of a row in DDR: whole blocks, and a rest that is padded to a power of two."""
    blocks, rest = divmod(width, padding.block)
    tail = max(padding.minimum, 1 << (rest - 1).bit_length()) if rest else 0
    return blocks * padding.block + min(tail, max(padding.block, padding.minimum))


def _uses(layers: Sequence[Layer]) -> dict[str, list[int]]:
    uses: dict[str, list[int]] = {}
    for position, layer in enumerate(layers):
        for name in layer.inputs:
            uses.setdefault(name, []).append(position)
    return uses


def _next_use(uses: Sequence[int], position: int) -> int:
    return next((use for use in uses if use > position), _NEVER)


def _is_view(layer: Layer) -> bool:
    """Whether the layer's output is its inputs at another address (Concat, Slice, Reshape): nothing new is held."""
    return layer.kind is LayerKind.MOVE
