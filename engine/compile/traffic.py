"""The DDR traffic of a subgraph's layers: weights, parameters, maps that come, go or do not fit on the chip.

``docs/evidence/latency.md`` has the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.chips.latency import Latency
from engine.chips.latency.layout import HalfBlocks, RowPadding, WeightLoad
from engine.compile.large import window_bytes
from engine.compile.layers import CHANNEL_PARAMETER_BYTES, Layer, Overlap
from engine.compile.memory import in_strips, operands, strip_columns
from engine.compile.motion import Motion
from engine.compile.overheads import is_copied, is_plain, small_table_elements
from engine.compile.packing import round_up
from engine.compile.passes import Passes
from engine.compile.rowwise import besides, told_by_rows
from engine.compile.schedule import InputTensor, Schedule
from engine.compile.sizes import IMAGE_CHANNELS, activation_bytes, as_map, ddr_bytes, nv12_bytes, row_width
from engine.compile.unfused import UnfusedCost, unfused_costs
from engine.ops.core.costs import OF_WEIGHTS, CostKind

_NARROW_BITS, _WIDE_BITS, _ACCUMULATOR_BITS = 8, 16, 32
_MAP_RANK = 4
_WHOLE_TAPS = 8
"""Windows of so many taps or fewer keep whole blocks of channels, and in steps of one pixel those of one more."""
_WINDOW = 3
"""Rows and columns of the smallest window whose channels go by halves of blocks."""
_FEW_PIXELS = 128
"""Of a map whose channels a window of 3 x 3 computes in whole blocks."""
_PLANAR_CHANNELS = 8
_PLANE_CHANNELS = 16
"""Channels that a constant for each pixel of a map of one channel is padded to."""
_PAIR = 2
_VECTOR_BYTES = 128
"""Of the vector that an element takes which is moved by itself."""

_ON_CHIP_ROWS = RowPadding(block=8, minimum=8)
"""Spilled maps keep their on-chip rows, padded to 8 pixels."""


@dataclass(frozen=True)
class Traffic:
    """Bytes over the DDR interface per frame, and in how many transfers more than one per tensor.

    Attributes:
        loaded: bytes that are loaded.
        stored: bytes that are stored.
        loads: maps of batches beyond the first of each, which are loaded by themselves, ...
        stores: ... or stored.
    """

    loaded: int = 0
    stored: int = 0
    loads: int = 0
    stores: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.loaded + other.loaded,
            self.stored + other.stored,
            self.loads + other.loads,
            self.stores + other.stores,
        )

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.loaded - other.loaded,
            self.stored - other.stored,
            self.loads - other.loads,
            self.stores - other.stores,
        )


_NOTHING = Traffic()

LayerTraffic = tuple[Traffic, Traffic]
"""What a layer moves straight from and to the outside, and by which maps pass through DDR within the subgraph."""

Columns = Sequence[tuple[int, int]]
"""First column and end of each strip of a map."""


def layer_traffic(schedule: Schedule, latency: Latency) -> list[LayerTraffic]:
    """Traffic of each layer: weights, inputs that it is the first to read and outputs; spilled and rearranged maps."""
    if schedule.is_told_by_layer and latency.unfused_layers and not latency.unfused_computes:
        return list(_unfused_traffic(schedule, latency))
    inputs = {tensor.name: tensor for tensor in schedule.inputs}
    outputs, spilled = set(schedule.outputs), set(schedule.spilled)
    producers = {layer.output: layer for layer in schedule.layers}
    group_of = {position: group for group in schedule.groups for position in group}
    home = {layer.output: group_of.get(position) for position, layer in enumerate(schedule.layers)}
    loaded: set[tuple[str, tuple[int, ...] | None]] = set()
    at_hand: set[str] = set()
    copied = _copied(schedule, latency)
    before = ""
    read = {name for layer in schedule.layers for name in layer.inputs}
    by_rows = latency.alone_by_rows if schedule.is_told_by_layer else None
    wide_results = any(layer.output_bits == _ACCUMULATOR_BITS for layer in schedule.layers if layer.output in outputs)
    result = []
    for position, layer in enumerate(schedule.layers):
        group = group_of.get(position)
        columns = _strips_of(schedule, group or (position,), latency)
        straight, detour = Traffic(), Traffic()
        constants = _constant_bytes(
            layer, latency, of_mean=_reads_mean(layer, producers), fused=schedule.overlap is not Overlap.NONE
        )
        straight += Traffic(copies(schedule, layer) * constants)
        for name, shape in zip(layer.inputs, layer.input_shapes, strict=True):
            if name in inputs and (name, None) not in loaded:
                size = _input_bytes(inputs[name], layer, columns.get(name), latency, wide_results)
                straight += Traffic(loaded=size, loads=_further_maps(inputs[name].shape))
                detour += _round_trip(schedule, name)
                loaded.add((name, None))
            elif name in at_hand and home[name] == group and not _is_table(layer, latency):
                at_hand.discard(name)  # its first reader takes it row by row
            elif name in copied and name == before:
                pass  # it is still on the chip
            elif name in spilled and (name, group) not in loaded:
                size = _spilled_bytes(producers[name], shape, columns.get(name), latency)
                moved = Traffic(loaded=size, loads=_further_maps(shape))
                straight, detour = (straight + moved, detour) if name in copied else (straight, detour + moved)
                loaded.add((name, group))
        if layer.output in outputs:
            straight += _leaving(layer, latency) + Traffic(stores=_further_maps(layer.output_shape))
        elif layer.output in spilled:
            size = ddr_bytes(layer.output_shape, layer.output_bits, _ON_CHIP_ROWS)
            moved = Traffic(stored=size, stores=_further_maps(layer.output_shape))
            straight, detour = (straight + moved, detour) if layer.output in copied else (straight, detour + moved)
        for part in layer.parts_alone():
            if part.leaves:
                straight += _leaving(part, latency) + Traffic(stores=_further_maps(part.output_shape))
        detour += _round_trip(schedule, layer.output)
        straight += _in_passes(layer, latency) + _constant_plane(layer, latency)
        if not schedule.is_told_by_layer:
            straight += _slopes(layer, latency.weight_load)
        if schedule.overlap is Overlap.GROUPS:
            folded = window_bytes(layer, latency)
            detour += Traffic(folded, folded)
        if by_rows is None:
            straight += _in_phases(layer, latency) + _by_taps(layer, latency)
        else:
            more = besides(layer, producers, inputs, read, by_rows)
            straight += Traffic(more.loaded, more.stored)
        straight += _in_vectors(layer, schedule, latency)
        at_hand.add(layer.output)
        before = layer.output
        result.append((straight, detour))
    if schedule.is_told_by_layer and latency.unfused_layers:
        return list(_at_least_told(schedule, latency, result))
    return result


def _further_maps(shape: Sequence[int]) -> int:
    """Maps of a batch (NHWC) beyond the first; single pixels are those of one map."""
    return as_map(shape)[0] - 1 if len(shape) == _MAP_RANK else 0


def _unfused_traffic(schedule: Schedule, latency: Latency) -> Iterator[LayerTraffic]:
    """That of layers of which each loads and stores all that it reads and computes, half of it each."""
    for layer, cost in zip(schedule.layers, unfused_costs(schedule.layers, latency, schedule.input_names), strict=True):
        constants = Traffic(_constant_bytes(layer, latency))
        yield constants, told_traffic(layer, cost, latency) - constants


def _at_least_told(schedule: Schedule, latency: Latency, found: Sequence[LayerTraffic]) -> Iterator[LayerTraffic]:
    """``found``, or what kinds of layers tell where that is more: of those without weights, which pass more often."""
    for layer, cost, (straight, detour) in zip(
        schedule.layers, unfused_costs(schedule.layers, latency, schedule.input_names), found, strict=True
    ):
        told = told_traffic(layer, cost, latency)
        moved = straight + detour
        more = (
            not (layer.kind in OF_WEIGHTS or told_by_rows(layer))
            and told.loaded + told.stored > moved.loaded + moved.stored
        )
        yield (straight, told - straight) if more else (straight, detour)


def told_traffic(layer: Layer, cost: UnfusedCost, latency: Latency) -> Traffic:
    """What a layer moves at O0 by its kind, and its weights and parameters."""
    half, passes = round(cost.moved / 2), cost.passes or Passes()
    return Traffic(_constant_bytes(layer, latency) + half + round(passes.loaded), half + round(passes.stored))


def _copied(schedule: Schedule, latency: Latency) -> set[str]:
    """Operands that go through DDR though they fit on the chip (O1): the layer after them takes them from the chip."""
    if schedule.overlap is not Overlap.BORDERS:
        return set()
    sizes = {layer.output: activation_bytes(layer.output_shape, layer.output_bits) for layer in schedule.layers}
    found = operands(schedule.layers).intersection(schedule.spilled)
    return {name for name in found if sizes[name] <= latency.unfused_bytes}


def _strips_of(schedule: Schedule, group: Sequence[int], latency: Latency) -> Mapping[str, Columns]:
    """Columns of each map that the strips of a group read; empty where the group runs whole rows."""
    layers = [schedule.layers[position] for position in group]
    if latency.strips is None or not in_strips(layers[-1], latency.strips):
        return {}
    found: dict[str, list[tuple[int, int]]] = {}
    for needed in strip_columns(layers, latency.strips):
        for name, columns in needed.items():
            found.setdefault(name, []).append(columns)
    return found


def _constant_bytes(layer: Layer, latency: Latency, *, of_mean: bool = False, fused: bool = False) -> int:
    """Weights and parameters of a layer as they are loaded.

    Args:
        layer: of a subgraph.
        latency: of the march.
        of_mean: whether it reads a mean over channels.
        fused: whether layers run together.
    """
    load = latency.weight_load
    weights, parameters = layer.weight_bytes, layer.parameter_bytes
    if _in_passes(layer, latency).loaded:
        return 0
    if layer.motion is Motion.PLANES and layer.kind is CostKind.TRANSPOSE:
        depth = shuffling_depth(layer, load)
        return layer.output_shape[-1] * (depth + CHANNEL_PARAMETER_BYTES * (depth > 0))
    if joining_depth(layer, latency):
        return _joining_bytes(layer, latency)
    if small_table_elements(layer, latency.small_tables):
        return latency.small_tables.loaded_bytes if latency.small_tables else 0
    if _is_table(layer, latency):
        return 0
    if not layer.macs:
        parameters = _elementwise_bytes(layer, load, of_mean)
    elif layer.kind is CostKind.MATMUL and len(layer.inputs) > 1:
        parameters = _turning_bytes(layer, latency, fused=fused)
    else:
        parameters = round_up(parameters, CHANNEL_PARAMETER_BYTES * load.parameter_channels)
        if len(layer.inputs) > 1:
            parameters += load.joined_channel_bytes * layer.output_shape[-1]
        if layer.input_bits > 8:
            besides = load.int16_channel_bytes * layer.output_shape[-1] + load.int16_fixed_bytes
            parameters += round_up(besides, load.int16_align)
    if is_dense(layer, latency):
        channels = round_up(layer.output_shape[-1], latency.weight_block.out_channels)
        weights = channels * _depth_of_one_tap(layer, latency, load.wide_depthwise_lanes * math.prod(layer.kernel))
    elif weights and layer.kind is CostKind.CONV and layer.kernel == (1, 1) and load.wide_depth > 1:
        depth = round_up(layer.input_shapes[0][-1], latency.weight_block.in_channels)
        weights = round_up(layer.output_shape[-1], latency.weight_block.out_channels)
        weights *= _depth_of_one_tap(layer, latency, depth)
    if _is_deep(layer, latency):
        channels = round_up(layer.output_shape[-1], latency.weight_block.out_channels)
        weights = weights // channels * round_up(channels, load.deep_out_channels)
    if layer.kind is CostKind.CONV and _taps(layer, latency) > math.prod(layer.kernel):
        weights = weights // math.prod(layer.kernel) * _taps(layer, latency)
    if _is_window_of_few(layer, load) or goes_by_halves(layer, latency):
        weights = filter_count(layer, latency) * filter_depth(layer, latency)
    return weights + parameters


def _depth_of_one_tap(layer: Layer, latency: Latency, depth: int) -> int:
    """``depth`` weights of a filter as they are loaded: those of one tap may be padded to larger blocks."""
    if layer.kernel != (1, 1) or len(layer.output_shape) != _MAP_RANK:
        return depth
    if math.prod(layer.input_shapes[0][:-1]) == 1:
        return round_up(depth, latency.weight_load.pixel_depth)
    return round_up(depth, latency.weight_load.wide_depth) if layer.output_bits == _ACCUMULATOR_BITS else depth


def filter_depth(layer: Layer, latency: Latency) -> int:
    """Weights of each filter of a convolution with their padding.

    Channels are padded to whole blocks; those of windows to smaller ones, and their taps with them, where that is less.
    """
    load = latency.weight_load
    if load.halves is not None and goes_by_halves(layer, latency):
        return _depth_by_halves(layer, load, load.halves)
    return whole_depth(layer, latency)


def whole_depth(layer: Layer, latency: Latency) -> int:
    """:func:`filter_depth` of filters in whole blocks of output channels."""
    load, taps = latency.weight_load, _taps(layer, latency)
    channels = layer.input_shapes[0][-1] // layer.group
    whole = taps * round_up(channels, latency.weight_block.in_channels)
    if not _is_window_of_few(layer, load):
        return whole
    return min(whole, round_up(channels, load.few_channels) * round_up(taps, load.few_taps))


def _depth_by_halves(layer: Layer, load: WeightLoad, halves: HalfBlocks) -> int:
    return round_up(layer.input_shapes[0][-1], load.few_channels) * round_up(math.prod(layer.kernel), halves.taps)


def filter_count(layer: Layer, latency: Latency) -> int:
    """Filters of a convolution with their padding."""
    halves, channels = latency.weight_load.halves, layer.output_shape[-1]
    if halves is not None and goes_by_halves(layer, latency):
        return round_up(channels, halves.channels)
    return round_up(channels, latency.weight_block.out_channels)


def goes_by_halves(layer: Layer, latency: Latency) -> bool:
    """Whether the output channels of a window are padded to half a block of weights: that must be less to compute.

    Windows of 3 x 3 do not if they leave int32 results, read one whole block of channels, or compute few pixels or
    more channels than half a block.
    """
    load, alignment, shape = latency.weight_load, latency.alignment, layer.output_shape
    halves = load.halves
    if halves is None or layer.kind is not CostKind.CONV or layer.group > 1 or len(shape) != _MAP_RANK:
        return False
    taps, channels = math.prod(layer.kernel), shape[-1]
    if layer.strides != (1, 1) or layer.spread != (1, 1) or layer.input_bits > _NARROW_BITS:
        return False
    if taps <= halves.above:
        return False
    if taps <= _WHOLE_TAPS + 1:
        read = layer.input_shapes[0][-1]
        one_block = load.few_channels < read <= latency.weight_block.in_channels
        few = math.prod(shape[:-1]) <= _FEW_PIXELS
        many = channels > halves.channels
        if min(layer.kernel) < _WINDOW or one_block or few or many or layer.output_bits > _NARROW_BITS:
            return False
    halved = round_up(channels, halves.channels) * _depth_by_halves(layer, load, halves)
    whole = round_up(channels, latency.weight_block.out_channels) * whole_depth(layer, latency)
    return round_up(shape[-2], halves.pixels) * halved < round_up(shape[-2], alignment.width) * whole


def _taps(layer: Layer, latency: Latency) -> int:
    """Taps of a convolution's window as it is computed."""
    more = latency.alignment.odd_windows and max(layer.kernel) > 1
    return math.prod(side + (more and side % 2 == 0) for side in layer.kernel)


def _is_window_of_few(layer: Layer, load: WeightLoad) -> bool:
    """Whether the channels of a filter may be padded to a smaller block."""
    most = _WHOLE_TAPS + (layer.strides == (1, 1))
    return load.few_channels > 0 and layer.kind is CostKind.CONV and math.prod(layer.kernel) > most


def _slopes(layer: Layer, load: WeightLoad) -> Traffic:
    """What a layer of slopes loads besides its parameters."""
    return Traffic(load.slope_channel_bytes * layer.output_shape[-1] * (layer.kind is CostKind.SLOPE))


def _constant_plane(layer: Layer, latency: Latency) -> Traffic:
    """What a sum loads besides the elements of a constant for each pixel of a map of one channel: whole blocks."""
    shape = layer.output_shape
    plane = layer.kind is CostKind.ADD and len(shape) == _MAP_RANK and shape[-1] == 1 < math.prod(shape)
    if not plane or len(layer.inputs) > 1 or layer.parameter_bytes < math.prod(shape) or not latency.alone:
        return _NOTHING
    pixels = math.prod(shape[:-2]) * row_width(shape[-2], latency.input_row)
    return Traffic(pixels * _PLANE_CHANNELS - math.prod(shape))


def _reads_mean(layer: Layer, producers: Mapping[str, Layer]) -> bool:
    """Whether a layer reads a mean over the channels of a map."""
    means = (producers[name] for name in layer.inputs if name in producers)
    return any(mean.kind is CostKind.REDUCE and mean.output_shape[-1] == 1 for mean in means)


def _broadcast_bytes(layer: Layer, load: WeightLoad, of_mean: bool) -> int:
    """What a sum or a product loads besides where it broadcasts a map of one channel."""
    channels, extra = layer.output_shape[-1], load.broadcast
    if layer.input_bits != _NARROW_BITS or channels == 1 or all(shape[-1] > 1 for shape in layer.input_shapes):
        return 0
    each = extra.few_bytes if channels <= extra.few else extra.channel_bytes
    return each * of_mean * channels + (extra.product_bytes if layer.kind is CostKind.MUL else extra.sum_bytes)


def _elementwise_bytes(layer: Layer, load: WeightLoad, of_mean: bool) -> int:
    """Parameters of a layer without multiply-accumulates."""
    channels = layer.output_shape[-1]
    match layer.kind:
        case CostKind.LUT if load.table_bytes:
            return load.table_bytes
        case CostKind.ADD | CostKind.MUL if load.constant_rows and _has_token_constant(layer):
            return _token_constant_bytes(layer, load)
        case CostKind.MUL:
            single = any(math.prod(shape[:-1]) == 1 for shape in layer.input_shapes)
            each = load.gate_channel_bytes if single else load.product_channel_bytes
            return layer.parameter_bytes + each * channels + _broadcast_bytes(layer, load, of_mean)
        case CostKind.ADD if layer.rescales:
            return layer.parameter_bytes + load.scale_channel_bytes * channels
        case CostKind.ADD:
            own = layer.parameter_bytes + load.sum_channel_bytes * channels
            return own + _broadcast_bytes(layer, load, of_mean)
        case CostKind.RESHAPE | CostKind.TRANSPOSE | CostKind.MOVE | CostKind.JOIN:
            return 0
        case CostKind.REDUCE if layer.output_bits == _NARROW_BITS and layer.output_shape[1:-1] == (1, 1):
            return layer.parameter_bytes + load.average_bytes
        case _:
            return layer.parameter_bytes


def _has_token_constant(layer: Layer) -> bool:
    """Whether a sum or a product of int8 takes tokens and a constant, or a map and a constant of up to one row."""
    shape, constant = layer.output_shape, layer.parameter_bytes
    tokens = len(shape) < _MAP_RANK or shape[:2] == (1, 1) != shape[1:3]
    narrow = len(layer.inputs) == 1 and layer.input_bits == _NARROW_BITS
    of_channels = constant == 1 or constant % shape[-1] == 0
    return narrow and constant > 0 and of_channels and (tokens or constant <= shape[-1])


def _token_constant_bytes(layer: Layer, load: WeightLoad) -> int:
    """What such a layer loads: its constant as int16 in whole blocks of rows, and parameters of its channels."""
    channels, constant = layer.output_shape[-1], layer.parameter_bytes
    rows = round_up(constant // channels, load.constant_rows)
    own = load.constant_bytes if constant == 1 else _PAIR * rows * channels
    if layer.kind is CostKind.MUL:
        return own + load.product_channel_bytes * channels
    return own + load.constant_channel_bytes * channels + load.constant_bytes * (constant > 1)


def _turning_bytes(layer: Layer, latency: Latency, *, fused: bool) -> int:
    """What a product of two maps loads to turn its second operand: a filter of ones, and parameters of its rows for
    each map of a batch; and parameters of its columns. A wide one is turned without a filter, but at O0.
    """
    load, columns = latency.weight_load, layer.output_shape[-1]
    if not load.turning_bytes:
        return layer.parameter_bytes
    padded = round_up(columns, load.turning_channels)
    parameters = CHANNEL_PARAMETER_BYTES * padded
    if fused and columns > load.turning_columns:
        return parameters
    rows = round_up(layer.input_shapes[0][-1], load.turning_channels) * math.prod(layer.output_shape[:-3])
    return load.turning_bytes * padded * padded + parameters + CHANNEL_PARAMETER_BYTES * rows


def copies(schedule: Schedule, layer: Layer) -> int:
    """How many cores load a layer's weights: all, but they share the channels of a single pixel."""
    single = len(layer.output_shape) == 4 and math.prod(as_map(layer.output_shape)[:3]) == 1
    return 1 if single else schedule.cores


def _is_deep(layer: Layer, latency: Latency) -> bool:
    """Whether a layer is a convolution of one tap over so many channels that more output channels are loaded."""
    single = layer.kind is CostKind.CONV and layer.kernel == (1, 1)
    return single and bool(layer.input_shapes) and layer.input_shapes[0][-1] > latency.weight_load.deep_above


def _is_table(layer: Layer, latency: Latency) -> bool:
    """Whether the layer is looked up on the way through DDR."""
    table = latency.tables_through_ddr and layer.kind is CostKind.LUT
    return table and not small_table_elements(layer, latency.small_tables)


def is_dense(layer: Layer, latency: Latency) -> bool:
    """Whether a depthwise layer runs as a dense one, for its results are int32."""
    wide = layer.kind is CostKind.DEPTHWISE and layer.output_bits == _ACCUMULATOR_BITS
    return wide and latency.weight_load.wide_depthwise_lanes > 0


def _in_passes(layer: Layer, latency: Latency) -> Traffic:
    """What a product of two small maps moves, which is computed in passes: each loads the map, a large one is stored
    and loaded between them.
    """
    small = latency.small_tables
    if small is None or layer.kind is not CostKind.MUL or len(layer.inputs) < 2 or layer.input_bits != _NARROW_BITS:
        return _NOTHING
    elements = small.by_rows(layer.output_shape) if len(layer.output_shape) == _MAP_RANK else 0
    single = any(math.prod(shape[:-1]) == 1 for shape in layer.input_shapes)
    if not 0 < elements <= small.elements or single:
        return _NOTHING
    moved = small.product_passes * elements
    stored = moved * (elements >= small.product_elements)
    return Traffic(moved + stored, stored)


def tap_elements(layer: Layer, latency: Latency) -> list[int]:
    """Elements of the map after each tap by which a maximum over overlapping windows grows; none: it is pooled at once.

    The map after a tap has as many rows and columns more as taps are left, and one column besides.
    """
    if not latency.pools_by_taps or not layer.overlaps:
        return []
    batch, height, width, channels = layer.output_shape
    planes = batch * round_up(channels, latency.alignment.in_channels)
    taps = range(layer.kernel[0] - layer.strides[0])
    return [planes * (height + left) * round_up(width + 1 + left, _ON_CHIP_ROWS.block) for left in taps]


def _by_taps(layer: Layer, latency: Latency) -> Traffic:
    """What such a maximum stores and loads: the map after each tap but the first, or the only one."""
    elements = tap_elements(layer, latency)
    moved = sum(elements[: max(len(elements) - 1, 1)])
    return Traffic(moved, moved)


def _in_vectors(layer: Layer, schedule: Schedule, latency: Latency) -> Traffic:
    """What queries, keys and values move where they change places and two heads of them, each element in a vector, do
    not fit the chip.
    """
    shape = layer.output_shape
    turned = layer.kind is CostKind.TRANSPOSE and layer.motion is Motion.ELEMENTS and len(shape) > _MAP_RANK
    if not turned or schedule.overlap is not Overlap.GROUPS:
        return _NOTHING
    if _PAIR * math.prod(shape[-2:]) * _VECTOR_BYTES <= latency.map_bytes:
        return _NOTHING
    moved = math.prod(shape) * _VECTOR_BYTES
    return Traffic(moved, moved)


def _in_phases(layer: Layer, latency: Latency) -> Traffic:
    """What a dilated layer moves whose maps are sorted into phases on the way through DDR, each padded for itself."""
    if not latency.dilated_through_ddr or layer.spread == (1, 1):
        return _NOTHING
    down, right = layer.spread
    read, computed = (
        down * right * ddr_bytes((*shape[:1], -(-shape[1] // down), -(-shape[2] // right), shape[3]), 8, _ON_CHIP_ROWS)
        for shape in (layer.input_shapes[0], layer.output_shape)
    )
    return Traffic(read + computed, computed)


def joining_depth(layer: Layer, latency: Latency) -> int:
    """Channels of the filter that joins maps; 0: they are joined as they lie.

    On chips with such a filter a part, but for the last, takes whole blocks of channels, and where one does not fill
    its last block the channels are moved by a convolution of one tap.
    """
    block = latency.weight_block.in_channels
    if not latency.weight_load.joins_by_filter or layer.kind is not CostKind.JOIN:
        return 0
    depths = [shape[-1] for shape in layer.input_shapes]
    if sum(depths) != layer.output_shape[-1] or all(depth % block == 0 for depth in depths[:-1]):
        return 0
    return sum(round_up(depth, block) for depth in depths)


def _joining_bytes(layer: Layer, latency: Latency) -> int:
    """Weights and parameters of the filter that joins maps; 0: there is none.

    It lies transposed: the bytes of three joins that were asked are those of rows of as many results, in blocks of the
    channels that are read, and of as many rows as all maps have channels, in blocks of those that leave.
    """
    block, depth = latency.weight_block, joining_depth(layer, latency)
    channels = layer.output_shape[-1]
    weights = round_up(channels, block.in_channels) * round_up(depth, block.out_channels)
    whole = channels // block.out_channels * block.out_channels
    return (weights + 2 * CHANNEL_PARAMETER_BYTES * whole) * (depth > 0)


def shuffling_depth(layer: Layer, load: WeightLoad) -> int:
    """Weights of each filter of the convolution that shuffles channels; 0: none does."""
    return round_up(layer.output_shape[-1], load.wide_depth) if load.wide_depth > 1 else 0


def _round_trip(schedule: Schedule, name: str) -> Traffic:
    """What rearranging an input, an output or a spilled map moves."""
    moved = schedule.relaid.get(name, 0)
    return Traffic(moved, moved)


def _input_bytes(
    tensor: InputTensor, reader: Layer, columns: Columns | None, latency: Latency, wide_results: bool
) -> int:
    """Bytes of an input in DDR and of the layer that rearranges it; NV12 planes are dense: 3/2 bytes per pixel."""
    if tensor.nv12:
        return nv12_bytes(tensor.shape)
    extra, bits = latency.input_layer, 8 * _bytes_of(tensor.dtype)
    if tensor.plain and latency.planar_row is None:
        return _plain_bytes(tensor.shape, bits, latency.output_row)
    if extra.channel_bytes and math.prod(tensor.shape[1:3]) == 1:
        wide = wide_results * extra.fixed_bytes
        return round_up(math.prod(tensor.shape) * bits // 8, latency.weight_load.pixel_bytes) + wide
    parameters = extra.channel_bytes * round_up(tensor.shape[-1], extra.channels)
    if tensor.shape[-1] <= IMAGE_CHANNELS or (reader.kind is CostKind.DEPTHWISE and not is_dense(reader, latency)):
        parameters = 0
    if columns is None or tensor.shape[-1] <= IMAGE_CHANNELS:
        shape = tensor.shape
        if len(shape) < _MAP_RANK and latency.weight_load.constant_rows:
            shape = (*shape[:-1], row_width(shape[-1], latency.input_row))
        return ddr_bytes(shape, bits, _input_rows(tensor, latency)) + parameters + extra.fixed_bytes
    pixels = _strip_pixels(columns, tensor.shape[2], extra.align, extra.halo)
    depth = round_up(tensor.shape[-1], latency.input_row.channels)
    return math.prod(tensor.shape[:2]) * pixels * depth * bits // 8 + parameters + extra.fixed_bytes


def _input_rows(tensor: InputTensor, latency: Latency) -> RowPadding:
    """Padding of an input's rows: what another subgraph leaves is as narrow as on the chip, unless loads arrange it.

    A grey image has one channel.
    """
    if not tensor.inner and tensor.shape[-1] == 1:
        return latency.input_row.model_copy(update={"few": 1})
    if not tensor.inner or latency.input_layer.by_load:
        return latency.input_row
    return latency.input_row.model_copy(update={"minimum": _ON_CHIP_ROWS.minimum})


def _leaving(layer: Layer, latency: Latency) -> Traffic:
    """What moves with a result that leaves the subgraph.

    What leaves in two layouts is stored twice.
    With ``planar_row``, tables and products of int8 are stored, and turned into NCHW on another way through DDR.
    """
    if is_copied(layer, latency):
        planes = _planar_bytes(layer, latency)
        return Traffic(stored=_plain_bytes(layer.output_shape, layer.output_bits, latency.output_row) + planes)
    size = _output_bytes(layer, latency)
    if not _is_narrow_planar(layer):
        return Traffic(stored=size)
    turned = latency.planar_row is not None and (_is_table(layer, latency) or layer.kind is CostKind.MUL)
    load, channels = latency.weight_load, layer.output_shape[-1]
    channels = round_up(channels, IMAGE_CHANNELS if channels <= IMAGE_CHANNELS else _PLANAR_CHANNELS)
    return Traffic(load.planar_bytes + load.planar_channel_bytes * channels + size * turned, size + size * turned)


def _output_bytes(layer: Layer, latency: Latency) -> int:
    """Bytes of a result that leaves the subgraph."""
    if is_plain(layer, latency):
        return _plain_bytes(layer.output_shape, layer.output_bits, latency.output_row)
    return _planar_bytes(layer, latency)


def _plain_bytes(shape: Sequence[int], bits: int, row: RowPadding) -> int:
    """Bytes of a map that lies pixel by pixel: the channels of a pixel are padded as a row of int32 is."""
    *pixels, channels = shape
    return math.prod(pixels) * row_width(_words(channels, bits), row) * _ACCUMULATOR_BITS // 8


def _words(count: int, bits: int) -> int:
    """Elements of int32 that hold ``count`` of ``bits``."""
    return -(-count * bits // _ACCUMULATOR_BITS)


def _planar_bytes(layer: Layer, latency: Latency) -> int:
    """Bytes of a result that leaves channel by channel: but on the oldest march, rows are padded as those of int32."""
    shape, bits = layer.output_shape, layer.output_bits
    if latency.planar_row is not None or bits == _ACCUMULATOR_BITS or len(shape) != _MAP_RANK:
        row = latency.planar_row if _is_narrow_planar(layer) else None
        return ddr_bytes(shape, bits, row or latency.output_row)
    batch, height, width, channels = as_map(shape)
    return ddr_bytes((batch, height, _words(width, bits), channels), _ACCUMULATOR_BITS, latency.output_row)


def _is_narrow_planar(layer: Layer) -> bool:
    """Whether a result of int8 leaves the subgraph channel by channel."""
    return layer.planar and layer.output_bits == _NARROW_BITS


def _spilled_bytes(producer: Layer, shape: Sequence[int], columns: Columns | None, latency: Latency) -> int:
    """Bytes of a spilled map that a group reads."""
    if columns is None or latency.strips is None or len(shape) != 4:
        return ddr_bytes(shape, producer.output_bits, _ON_CHIP_ROWS)
    pixels = _strip_pixels(columns, shape[2], latency.strips.align, 0)
    return math.prod(shape[:2]) * pixels * shape[3] * producer.output_bits // 8


def _strip_pixels(columns: Columns, width: int, align: int, halo: int) -> int:
    """Pixels of a row that strips load, columns rounded outwards to ``align``."""
    pixels = 0
    for first, end in columns:
        left = max(first - halo, 0) // align * align
        pixels += round_up(min(end + halo, width), align) - left
    return pixels


def _bytes_of(dtype: str) -> int:
    widths: Mapping[str, int] = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4}
    return widths[dtype]
