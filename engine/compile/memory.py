"""Which feature maps of a subgraph stay on the chip, and what that costs in DDR traffic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.chips.latency.layout import Strips
from engine.chips.latency.through_ddr import Columns, Folding, SmallTables, Unfolding
from engine.compile.columns import column_bytes
from engine.compile.folding import folded_bytes, unfolded_bytes
from engine.compile.layers import Layer, Overlap
from engine.compile.overheads import small_table_elements, vector_traffic
from engine.compile.packing import round_up
from engine.compile.sizes import IMAGE_CHANNELS, activation_bytes, as_map
from engine.ops.core.costs import MOVEMENTS, CostKind

Uses = Mapping[str, Sequence[int]]
"""Positions of the layers that read a tensor, ascending."""

_NEVER = 1 << 60
_ROWS = 8
"""Rows of every map that layers fused row by row hold at a time; cancels out against the fitted ``group_bytes``."""
_LEAST_ROWS = 6
"""Rows that they make do with where whole maps need the memory: the array's four, and those that a window adds."""

_LEAST_PIXELS, _PIXELS, _CHANNELS = 16, 4, 8
"""Pixels of a row of an input that is rearranged over DDR, at least, their multiple and that of its channels."""
_MAP_RANK = 4
_ACCUMULATOR_BITS = 32


@dataclass(frozen=True)
class Memory:
    """On-chip memory as the compiler may use it.

    Attributes:
        group_bytes: bytes for the rows that fused layers work on; 0: every layer is a group of its own.
        map_bytes: bytes for whole feature maps that one group leaves to a later one; 0: they go through DDR.
        relay_inputs: whether inputs are rearranged over DDR before they are used.
        relay_outputs: row multiples of the passes over DDR that rearrange outputs larger than ``relay_above`` bytes.
        relay_above: see ``relay_outputs``.
        relay_results: whether results of resizes and transposed convolutions are rearranged over DDR where they go
            there.
        overlap: what of the traffic goes on while layers compute.
        by_layer: whether times of transfers are those of kinds of layers.
        strips: column strips of layers with wide int32 results; none: rows of any width run whole.
        tables_through_ddr: whether what a table is applied to passes through DDR.
        small_tables: those that it does not pass to.
        skips_whole: whether a map that bypasses windows of other layers is held whole rather than row by row.
        joins_apart: whether a layer that reads a map from DDR beside others begins a group.
        operands_leave: whether sums and products take the operand that was not computed right before them from DDR.
        vector_bytes: of the vector that each element takes where elements are moved one at a time; 0: it counts for
            nothing.
        vectors_above: bytes of such vectors that fit on the chip; more pass through DDR.
        unfolding: what passes through DDR where channels become pixels; none: nothing.
        folding: what passes through DDR where pixels become channels; none: nothing.
        weights_on_chip: whether weights take of ``group_bytes`` while a group runs and of ``map_bytes`` while a layer
            does.
        columns: what passes through DDR of columns of pixels whose channels are no whole blocks; none: nothing.
    """

    group_bytes: int
    map_bytes: int
    relay_inputs: bool = False
    relay_outputs: tuple[int, ...] = ()
    relay_above: int = 0
    relay_results: bool = False
    overlap: Overlap = Overlap.ALL
    by_layer: bool = False
    strips: Strips | None = None
    tables_through_ddr: bool = False
    small_tables: SmallTables | None = None
    skips_whole: bool = False
    joins_apart: bool = False
    operands_leave: bool = False
    vector_bytes: int = 0
    vectors_above: float = 0
    weights_on_chip: bool = False
    unfolding: Unfolding | None = None
    folding: Folding | None = None
    columns: Columns | None = None


def planned(
    layers: Sequence[Layer], outputs: Sequence[str], memory: Memory
) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """The fused groups of a subgraph and the feature maps that go through DDR.

    With ``memory.joins_apart`` groups are formed anew as long as a layer that reads such a map beside others is inside
    one.
    """
    apart: frozenset[int] = frozenset()
    while True:
        groups = fused_groups(layers, memory, apart)
        spilled = spilled_tensors(layers, outputs, groups, memory)
        joins = _joins(layers, groups, spilled) if memory.joins_apart else apart
        if joins <= apart:
            return groups, spilled
        apart |= joins


def _joins(layers: Sequence[Layer], groups: Sequence[Sequence[int]], spilled: Sequence[str]) -> frozenset[int]:
    """Positions of layers that read several maps, one of them from DDR, where another group left it."""
    left = {layers[position].output: index for index, group in enumerate(groups) for position in group}
    left = {name: index for name, index in left.items() if name in set(spilled)}
    return frozenset(
        position
        for index, group in enumerate(groups)
        for position in group
        if len(layers[position].inputs) > 1 and any(left.get(name, index) != index for name in layers[position].inputs)
    )


def fused_groups(
    layers: Sequence[Layer], memory: Memory, apart: frozenset[int] = frozenset()
) -> tuple[tuple[int, ...], ...]:
    """Consecutive layers that run row by row together, as positions.

    A group takes layers in as long as its rows fit. Then it ends where it leaves the fewest bytes to later groups that
    do not fit on the chip, in its second half: as late as possible among equals. Layers that run in column strips are
    joined by those before them as far as the rows of a strip fit too. What is broadcast over a map depends on all rows
    of others: it is ready before the first row of its reader.

    Args:
        layers: in running order.
        memory: what fits.
        apart: positions of layers that begin a group in any case.
    """
    uses = _uses(layers)
    groups: list[tuple[int, ...]] = []
    start = 0
    while start < len(layers):
        end, full = _longest_group(layers, start, memory, apart)
        if full:
            crossing = _crossing_bytes(layers, uses, start, end)
            spilled = {cut: size if size > memory.map_bytes else 0 for cut, size in crossing.items()}
            end = min(range(max(start + 1, (start + end) // 2), end + 1), key=lambda cut: (spilled[cut], -cut))
        groups.append(tuple(range(start, end)))
        start = end
    return tuple(part for group in groups for part in _cut_before_strips(layers, uses, group, memory.strips))


def _longest_group(layers: Sequence[Layer], start: int, memory: Memory, apart: frozenset[int]) -> tuple[int, bool]:
    """Where a group from ``start`` on ends at the latest, and whether that is for want of memory for rows."""
    rows, weights = _group_rows(layers[start : start + 1], memory), _weights_on_chip(layers[start], memory)
    for position in range(start + 1, len(layers)):
        layer = layers[position]
        if position in apart or in_strips(layers[position - 1], memory.strips) or _broadcasts(layer):
            return position, False
        _hold(rows, layer, memory)
        weights += _weights_on_chip(layer, memory)
        if sum(rows.values()) + weights > memory.group_bytes:
            return position, True
    return len(layers), False


def _group_rows(layers: Sequence[Layer], memory: Memory, count: int = _ROWS) -> dict[str, int]:
    """Bytes of ``count`` rows of each map that layers hold while they run together."""
    rows: dict[str, int] = {}
    for layer in layers:
        _hold(rows, layer, memory, count)
    return rows


def _hold(rows: dict[str, int], layer: Layer, memory: Memory, count: int = _ROWS) -> None:
    """Add the rows of a layer's maps to those of the group that it joins.

    Slices and concatenations are rows that are there already.
    """
    for name, size in _row_bytes(layer, count).items():
        rows.setdefault(name, size)
    if memory.weights_on_chip and layer.kind in _VIEWS:
        rows[layer.output] = 0


_VIEWS = frozenset({CostKind.JOIN, CostKind.MOVE})


def _crossing_bytes(layers: Sequence[Layer], uses: Uses, start: int, end: int) -> dict[int, int]:
    """Bytes of the maps that layers from ``start`` on leave to those behind a cut, by the position of the cut."""
    changes = dict.fromkeys(range(start, end + 2), 0)
    for position in range(start, end):
        last = min(max(uses.get(layers[position].output, (position,))), end)
        if last > position:
            size = activation_bytes(layers[position].output_shape, layers[position].output_bits)
            changes[position + 1] += size
            changes[last + 1] -= size
    return dict(zip(changes, accumulate(changes.values()), strict=True))


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
    layers: Sequence[Layer], uses: Uses, group: tuple[int, ...], strips: Strips | None
) -> tuple[tuple[int, ...], ...]:
    """The group in one piece, or without and with layers whose rows fit a strip: what is cheapest to leave to them."""
    if strips is None or not in_strips(layers[group[-1]], strips):
        return (group,)
    cut = len(group) - 1
    while cut and (
        _is_image(layers[group[cut - 1]])
        or _strip_row_bytes([layers[at] for at in group[cut - 1 :]], strips) <= strips.row_bytes
    ):
        cut -= 1
    if not cut:
        return (group,)
    costs = _crossing_bytes(layers, uses, group[0], group[-1])
    cut = min(range(cut, len(group)), key=lambda at: (costs[group[at]], at))
    return group[:cut], group[cut:]


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
    With ``memory.weights_on_chip`` they share the memory with what the running group takes: its weights, and the rows
    of the maps that are not there whole.
    What column strips or tables read from DDR goes out in any case, and what is read behind such a table.

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
    leaving_operands = operands(layers) if memory.operands_leave else set()
    taken = [_taken([layers[position] for position in group], memory) for group in groups]
    for position, layer in enumerate(layers):
        readers = uses.get(layer.output, ())
        leaves_group = any(group_of[use] != group_of[position] for use in readers)
        leaves_group |= memory.skips_whole and _is_skip(layers, uses, position)
        if layer.output in leaving_operands or _must_leave(layers, groups, group_of, position, readers, memory):
            spilled[layer.output] = None
        elif leaves_group and not (memory.map_bytes and _is_view(layer)):
            alive[layer.output] = activation_bytes(layer.output_shape, layer.output_bits)
        alive = {name: size for name, size in alive.items() if _next_use(uses[name], position) < _NEVER}
        rows, weights = taken[group_of[position]]
        while alive and sum({**rows, **alive}.values()) + weights > memory.map_bytes:
            victim = max(alive, key=lambda name: (_next_use(uses[name], position), alive[name], name))
            del alive[victim]
            spilled[victim] = None
    leaving = set(outputs)
    return tuple(name for name in spilled if name not in leaving)


def _taken(group: Sequence[Layer], memory: Memory) -> tuple[Mapping[str, int], int]:
    """What a running group takes of the memory of maps: bytes of the rows of each map, and of weights.

    A layer alone makes do with as many rows as are left.
    """
    if not memory.weights_on_chip:
        return {}, 0
    rows = _group_rows(group, memory, _LEAST_ROWS) if len(group) > 1 else {}
    return rows, sum(_weights_on_chip(layer, memory) for layer in group)


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
    """Whether the layer's output goes through DDR in any case: to tables or past them, and to column strips."""
    if memory.tables_through_ddr and readers:
        behind = layers[position + 1 : readers[-1] + 1]
        if any(_passes_through_ddr(layer, memory) for layer in behind):
            return True
    others = {group_of[reader] for reader in readers} - {group_of[position]}
    return any(in_strips(layers[groups[other][-1]], memory.strips) for other in others)


def _passes_through_ddr(table: Layer, memory: Memory) -> bool:
    """Whether what a layer reads is stored before and loaded again: it is a table and not small."""
    return table.kind is CostKind.LUT and not small_table_elements(table, memory.small_tables)


def operands(layers: Sequence[Layer]) -> set[str]:
    """Maps that a sum or a product takes, be it part of a convolution, and that were not computed right before it."""
    sums = ((layers[at - 1].output, layers[at]) for at in range(1, len(layers)) if layers[at].kind in _SUMS)
    return {name for before, layer in sums if len(layer.inputs) > 1 for name in layer.inputs if name != before}


_SUMS = frozenset({CostKind.CONV, CostKind.DEPTHWISE, CostKind.GROUPED, CostKind.ADD, CostKind.MUL})
"""Kinds of layers that may add up or multiply maps."""


def relaid_bytes(
    layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str], spilled: Sequence[str], memory: Memory
) -> dict[str, int]:
    """Bytes by which inputs, outputs and spilled maps, by name, pass through DDR again to be rearranged."""
    relaid: dict[str, int] = {}
    for layer in layers:
        for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
            if memory.relay_inputs and name in inputs:
                relaid[name] = _rearranged_bytes(shape, layer.input_bits)
        if layer.output in outputs:
            multiples = memory.relay_outputs[: _most_passes(layer)]
            sizes = [activation_bytes(layer.output_shape, layer.output_bits, rows) for rows in multiples]
            if sum(sizes[:1]) > memory.relay_above:
                relaid[layer.output] = sum(sizes)
        elif layer.output in spilled:
            passes = _PASSES.get(layer.kind, 0) if memory.relay_results else 0
            if passes:
                relaid[layer.output] = passes * activation_bytes(layer.output_shape, layer.output_bits)
        vectors = vector_traffic(layer, memory.vector_bytes, memory.vectors_above) if memory.vector_bytes else 0
        vectors += unfolded_bytes(layer, memory.unfolding) if memory.unfolding else 0
        if memory.columns is not None and column_bytes(layer) > memory.columns.above:
            vectors += round(memory.columns.passes * column_bytes(layer))
        if vectors:
            relaid[layer.output] = relaid.get(layer.output, 0) + vectors
    for name, moved in (folded_bytes(layers, memory.folding) if memory.folding else {}).items():
        relaid[name] = relaid.get(name, 0) + moved
    return relaid


def _most_passes(layer: Layer) -> int | None:
    """How often results pass through DDR again that leave as they lie, not channel by channel: those of bytes do not,
    nor does a single pixel; None: as often as others, as products of two maps do and what is moved.
    """
    product = layer.kind is CostKind.MATMUL and len(layer.inputs) > 1
    if layer.planar or product or layer.kind in MOVEMENTS:
        return None
    return int(layer.output_bits == _ACCUMULATOR_BITS and math.prod(layer.output_shape[:-1]) > 1)


def _rearranged_bytes(shape: Sequence[int], bits: int) -> int:
    """Bytes by which an input passes through DDR again (O0): an image or a single pixel does not, other rows have at
    least 16 pixels.
    """
    if shape[-1] <= IMAGE_CHANNELS or math.prod(shape[:-1]) == 1:
        return 0
    laid = as_map(shape)
    if len(laid) != _MAP_RANK:
        return math.prod(laid) * bits // 8
    batch, height, width, channels = laid
    pixels = max(_LEAST_PIXELS, round_up(width, _PIXELS))
    return batch * height * pixels * round_up(channels, _CHANNELS) * bits // 8


_PASSES = {CostKind.RESIZE: 1, CostKind.TRANSPOSED: 2}
"""Passes over DDR that rearrange the result of a layer."""


def _row_bytes(layer: Layer, count: int = _ROWS) -> dict[str, int]:
    """Bytes of ``count`` rows of each map that a layer reads or computes."""
    rows = {
        name: activation_bytes(_first_rows(shape, count), 8)
        for name, shape in zip(layer.inputs, layer.input_shapes, strict=True)
    }
    rows[layer.output] = activation_bytes(_first_rows(layer.output_shape, count), layer.output_bits)
    return rows


def _weights_on_chip(layer: Layer, memory: Memory) -> int:
    """Bytes of a layer's weights that are taken from the memory of the maps."""
    return layer.weight_bytes + layer.parameter_bytes if memory.weights_on_chip else 0


def _first_rows(shape: Sequence[int], count: int) -> tuple[int, ...]:
    laid = as_map(shape)
    return (*laid[:1], min(laid[1], count), *laid[2:]) if len(laid) == 4 else laid


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
    return layer.kind in MOVEMENTS
