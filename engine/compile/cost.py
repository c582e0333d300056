"""The cost model: what a layer and a subgraph take, from shapes and the march's constants.

Engines work on a group of fused layers: load, compute, store. A small group is one tile and passes through them one
after the other; the more data it moves the more tiles it has, and the more of the work hides behind the busiest engine.
Groups follow one another where weights and maps share one memory; elsewhere a subgraph is one group
(reference/latency.md, "Overlap"; ``docs/evidence/latency.md`` has the evidence and the errors).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from engine.chips.latency import Latency
from engine.chips.latency.fitted import Fitted
from engine.chips.latency.layout import Alignment
from engine.chips.latency.overhead import Overhead
from engine.chips.latency.unfused import AloneByRows
from engine.compile.columns import adds_column, column_amounts, column_bytes, is_column
from engine.compile.cores import waits_of
from engine.compile.large import window_us
from engine.compile.layers import Layer, Overlap
from engine.compile.motion import Motion
from engine.compile.overheads import (
    Amount,
    average_us,
    is_averaged_by_pixel,
    is_plain,
    only_summed,
    overhead_us,
    product_columns,
    small_table_elements,
    uneven_pixels,
    uneven_us,
    unfused_wait_us,
    wide_pool_us,
)
from engine.compile.packing import round_up
from engine.compile.rowwise import besides, told_by_rows
from engine.compile.schedule import InputTensor, Schedule
from engine.compile.singles import singles_amounts
from engine.compile.sizes import IMAGE_CHANNELS, as_map, nv12_bytes, row_width
from engine.compile.tokens import cut_tokens
from engine.compile.traffic import (
    LayerTraffic,
    Traffic,
    copies,
    filter_count,
    filter_depth,
    goes_by_halves,
    is_dense,
    joining_depth,
    layer_traffic,
    shuffling_depth,
    tap_elements,
    whole_depth,
)
from engine.compile.unfused import COMPUTED, unfused_costs
from engine.ops.core.costs import OF_WEIGHTS, CostKind

_GROUP_LANES = 16
"""Input channels of a group below which a grouped convolution gets no cheaper (reference/latency.md: "about 16")."""

_WIDE_DEPTH = 32
"""Least depth of products whose second operand is wide, as they are computed."""
_WIDE_BITS, _ACCUMULATOR_BITS = 16, 32
_PAIR = 2
_FIVE_BY_FIVE = 25 / 9
"""Time of a window of 5 x 5 of one of 3 x 3."""
_BLOCK_CHANNELS = 8
_MAP_RANK = 4
_MOVING = frozenset({CostKind.RESHAPE, CostKind.TRANSPOSE})
_OF_CONSTANTS = frozenset({CostKind.ADD, CostKind.MUL})
_LOOKED_UP_EARLY, _LOOKED_UP_MOST = 0.66, 0.85
"""Part of the load of a layer's weights during which a table looks up what it has computed of a single pixel, and the
most of the table's time.
"""
_DRAINED_ALONE = 0.5
"""Part of the time of draining int32 results that they take at O0, where they are stored as they are first."""
_NOTHING = Traffic()


@dataclass(frozen=True)
class Cost:
    """What one layer takes: computing time in microseconds if nothing else happened, and traffic.

    Attributes:
        compute_us: computing time.
        drain_us: time in which int32 results leave the accumulators, beside computing.
        arrange_us: time in which loads bring inputs into the array's layout, besides their traffic.
        entering_us: the part of ``compute_us`` in which inputs are brought into that layout.
        overhead_us: what it takes besides (:mod:`engine.compile.overheads`); nothing hides it.
        traffic: all of it.
        moving_us: time of its transfers where that is not told by ``traffic``.
        detour: the part of ``traffic`` by which maps pass through DDR within the subgraph.
    """

    compute_us: float
    traffic: Traffic
    detour: Traffic = field(default_factory=Traffic)
    drain_us: float = 0.0
    arrange_us: float = 0.0
    overhead_us: float = 0.0
    entering_us: float = 0.0
    moving_us: float | None = None

    @property
    def working_us(self) -> float:
        """Time that the layer takes besides its traffic."""
        return self.compute_us + self.drain_us


def layer_costs(
    schedule: Schedule, latency: Latency, traffic: Sequence[LayerTraffic] | None = None
) -> tuple[Cost, ...]:
    """Costs of the layers of a subgraph, in running order; ``traffic`` is :func:`layer_traffic` where it is at hand."""
    traffic = layer_traffic(schedule, latency) if traffic is None else traffic
    if schedule.is_told_by_layer and latency.unfused_layers:
        return tuple(_unfused_costs(schedule, latency, traffic))
    by_load = latency.input_layer.by_load
    return tuple(
        Cost(
            ((_kernel_ns(layer, latency, arranging) + arranging * (not by_load)) / 1000 + uneven_us(layer, latency))
            / schedule.cores,
            straight + detour,
            detour,
            drain_us(layer, latency) / schedule.cores,
            arranging * by_load / 1000 / schedule.cores,
            latency.fitted.layer_us * (layer.kind in OF_WEIGHTS)
            + beside / schedule.cores
            + _loaded_again_us(layer, schedule, latency)
            + _folding_us(layer, schedule, latency)
            + window_us(layer, latency) * (schedule.overlap is Overlap.GROUPS),
            arranging * (not by_load) / 1000 / schedule.cores,
        )
        for layer, arranging, (straight, detour), beside in zip(
            schedule.layers, _arranging_ns(schedule, latency), traffic, _beside_us(schedule, latency), strict=True
        )
    )


def _beside_us(schedule: Schedule, latency: Latency) -> Iterator[float]:
    """Per layer, its overheads, and those that it has for the sake of the layer, or subgraph, before it."""
    costs = latency.overheads
    summed = only_summed(schedule.layers)
    for layer, found in beside_amounts(schedule):
        before = sum(amount * costs[overhead].us for overhead, amount in found if overhead in costs)
        yield before + overhead_us(layer, schedule.overlap, latency, summed)


def beside_amounts(schedule: Schedule) -> Iterator[tuple[Layer, tuple[Amount, ...]]]:
    """Each layer of a subgraph, in running order, as it runs, and the overheads that it has for the sake of others.

    Those of the layer alone (:func:`engine.compile.overheads.amounts`) are not among them.
    """
    entering = {tensor.name: tensor.shape for tensor in schedule.inputs if tensor.plain and not is_column(tensor.shape)}
    handed = {tensor.name for tensor in schedule.inputs if tensor.inner}
    columns, singles = column_amounts(schedule.layers, handed), singles_amounts(schedule.layers)
    for (layer, found), moved, spread in zip(cut_tokens(schedule.layers), columns, singles, strict=True):
        read = [(Overhead.READ_PIXEL, uneven_pixels(entering.pop(name))) for name in layer.inputs if name in entering]
        if not set(layer.inputs) <= set(schedule.input_names):  # where both enter, that is part of their arrangement
            read.append((Overhead.PRODUCT_COLUMN, product_columns(layer)))
        if 0 < column_bytes(layer) <= schedule.relaid.get(layer.output, 0):
            read.append((Overhead.COLUMN_DETOUR, math.prod(layer.output_shape) / 1e3))
        yield layer, (*found, *moved, *spread, *read)


def _loaded_again_us(layer: Layer, schedule: Schedule, latency: Latency) -> float:
    """Time to load blocks of pixels that pass through DDR: it begins when all of them are stored."""
    unfolding = latency.unfolding
    if layer.motion is not Motion.BLOCKS or schedule.overlap is not Overlap.GROUPS or unfolding is None:
        return 0.0
    passes = 1 if layer.output_shape[-1] <= unfolding.few else unfolding.passes
    least = unfolding.least_us + passes * unfolding.pass_us
    return max(load_us(Traffic(loaded=schedule.relaid.get(layer.output, 0)), latency.fitted), least)


def _folding_us(layer: Layer, schedule: Schedule, latency: Latency) -> float:
    """Work on pixels that become channels, where those were no whole blocks."""
    folds = layer.kind is CostKind.TRANSPOSE and layer.motion is Motion.FOLDED
    if not folds or schedule.overlap is not Overlap.GROUPS or latency.folding is None:
        return 0.0
    shape, work = layer.input_shapes[0], latency.folding
    uneven = shape[-1] % latency.weight_block.in_channels > 0
    return (work.uneven_us + work.uneven_pixel_us * math.prod(shape[:-1]) / 1e3) * uneven


def _unfused_costs(schedule: Schedule, latency: Latency, traffic: Sequence[LayerTraffic]) -> Iterator[Cost]:
    """Those of layers of which each loads, works and stores by itself."""
    found = unfused_costs(schedule.layers, latency, schedule.input_names)
    arranging = _arranging_ns(schedule, latency)
    makers, entering = {layer.output: layer for layer in schedule.layers}, schedule.input_names
    read = {name for layer in schedule.layers for name in layer.inputs}
    sources = (_stacked_source(layer, makers) for layer in schedule.layers)
    cut = {source.output for source in sources if source is not None}
    for layer, cost, arranged, (straight, detour) in zip(schedule.layers, found, arranging, traffic, strict=True):
        half = round(cost.moved * latency.unfused_work / 2)
        computes = layer.kind in COMPUTED or latency.unfused_computes
        work = (
            _kernel_ns(layer, latency, arranged, fused=False) / 1000
            if computes
            else transfer_us(Traffic(half, half), latency.fitted)
        )
        waits, drains = cost.wait_us, drain_us(layer, latency)
        rows = latency.alone_by_rows
        if rows is not None and told_by_rows(layer):
            more = besides(layer, makers, entering, read, rows)
            waits = _rows_wait_us(layer, rows, any(name in entering for name in layer.inputs))
            waits += arranged / 1000 + more.wait_us
            work = work if more.work_us is None else more.work_us
            moving: float | None = transfer_us(straight + detour, latency.fitted)
        elif rows is not None:
            more = besides(layer, makers, entering, read, rows)
            if small_table_elements(layer, latency.small_tables):
                waits = rows.table_us
            waits += overhead_us(layer, Overlap.GROUPS, latency) + arranged / 1000 + more.wait_us
            moving = transfer_us(straight + detour, latency.fitted)
        elif cost.passes is not None and latency.alone is not None:
            work += _kernel_ns(layer, latency, arranged, fused=False) / 1000 * (not computes) + arranged / 1000
            work += average_us(layer, latency) + latency.alone.vector_us * cost.passes.pixels
            if layer.kind is CostKind.TRANSPOSE or (layer.kind is CostKind.REDUCE and _is_of_each_channel(layer)):
                moved = Traffic(round(cost.passes.loaded), round(cost.passes.stored))
                work += latency.unfused_work * transfer_us(moved, latency.fitted)
            beside = latency.alone.step_us * (layer.kind not in OF_WEIGHTS and layer.kind is not CostKind.RESHAPE)
            waits += latency.alone.layer_us + (latency.alone.transfer_us + beside) * cost.passes.transfers
            drains *= _DRAINED_ALONE
            moving = None
        else:
            waits += unfused_wait_us(layer, latency) + wide_pool_us(layer, latency)
            moving = None
        waits += _stacked_us(layer, makers, latency) + _added_us(layer, latency)
        if latency.alone is not None and layer.output in cut:
            waits += latency.alone.stacked_token_us * layer.output_shape[0]
        yield Cost(work, straight + detour, detour, drains, overhead_us=waits, moving_us=moving)


def _stacked_us(layer: Layer, makers: Mapping[str, Layer], latency: Latency) -> float:
    """What it takes besides to turn keys that were cut out of rows of pixels which lie one below the other."""
    if latency.alone is None or _stacked_source(layer, makers) is None:
        return 0.0
    alone, before = latency.alone, layer.input_shapes[0]
    return alone.stacked_us + alone.stacked_row_us * math.prod(before[:-1]) + alone.stacked_column_us * before[-1]


def _stacked_source(layer: Layer, makers: Mapping[str, Layer]) -> Layer | None:
    """The reshape that cut such rows into the keys which a layer turns; None of other layers."""
    if layer.kind is not CostKind.TRANSPOSE or layer.input_shapes[0][-1] == layer.output_shape[-1]:
        return None
    source = makers.get(layer.inputs[0])
    while source is not None and source.kind in _MOVING and source.motion is not Motion.COLUMNS:
        source = makers.get(source.inputs[0])
    return source if source is not None and source.motion is Motion.COLUMNS else None


def _added_us(layer: Layer, latency: Latency) -> float:
    """What it takes besides to add up a column of pixels, which is turned into rows of each channel before."""
    if latency.alone is None or not adds_column(layer):
        return 0.0
    alone, shape = latency.alone, layer.input_shapes[0]
    pixels = shape[1] if is_column(shape) else 0
    return alone.added_us + (alone.added_pixel_ns * pixels + alone.added_element_ns * math.prod(shape)) / 1000


def _is_of_each_channel(layer: Layer) -> bool:
    """Whether a layer leaves as many channels as it reads."""
    return layer.input_shapes[0][-1] == layer.output_shape[-1]


def _rows_wait_us(layer: Layer, rows: AloneByRows, enters: bool) -> float:
    """What such a layer waits for besides its traffic."""
    before, after = (_in_four(shape) for shape in (layer.input_shapes[0], layer.output_shape))
    leaves = layer.output_bits >= _ACCUMULATOR_BITS
    image = enters and before[3] <= IMAGE_CHANNELS
    waits = rows.layer_us + rows.entering_us * enters + rows.leaving_us * leaves
    stepped = rows.stepped_image_us if image else rows.stepped_us
    waits += stepped * before[0] * before[1] * (enters and max(layer.strides) > 1)
    ragged = round_up(after[2], rows.drained) % rows.block > 0
    return waits + rows.plane_us * after[0] * after[1] * after[3] * (leaves and ragged)


def _in_four(shape: Sequence[int]) -> Sequence[int]:
    """``shape`` in four dimensions."""
    return as_map((*(1,) * (4 - len(shape)), *shape))


def subgraph_us(schedule: Schedule, costs: Sequence[Cost], fitted: Fitted) -> float:
    """Latency of a subgraph in microseconds: fixed costs, and its engines as far as they overlap.

    Args:
        schedule: its layers and their groups.
        costs: of the layers, from :func:`layer_costs`.
        fitted: constants of the march, see ``docs/performance_model.md``.
    """
    alone = schedule.is_told_by_layer and fitted.alone_us is not None
    fixed = (fitted.alone_us or 0.0 if alone else fitted.fixed_us) + sum(cost.overhead_us for cost in costs)
    if any(not tensor.inner for tensor in schedule.inputs):
        fixed += fitted.entry_us
    fixed += fitted.sync_us * waits_of(schedule, [cost.detour.loaded > 0 for cost in costs])
    match schedule.overlap:
        case Overlap.NONE:
            apart = sum(cost.working_us + cost.arrange_us + moving_us(cost, fitted) for cost in costs)
            beside = sum(cost.overhead_us for cost in costs)
            return fixed + apart / schedule.cores - beside * (1 - 1 / schedule.cores)
        case Overlap.BORDERS:
            detours = sum((cost.detour for cost in costs), Traffic())
            beginning = sum(_begun_us(schedule, costs, fitted))
            pipelined = _pipelined_us(schedule, costs, range(len(costs)), fitted, detours, -beginning)
            return fixed + pipelined + transfer_us(detours, fitted)
        case Overlap.GROUPS:
            begun = list(_begun_us(schedule, costs, fitted))
            return fixed + sum(
                _pipelined_us(schedule, costs, group, fitted, ahead_us=-sum(begun[position] for position in group))
                for group in schedule.groups
            )
        case Overlap.ALL:
            ahead = list(_ahead_us(schedule, costs, fitted))
            return fixed + sum(
                _pipelined_us(schedule, costs, phase, fitted, ahead_us=sum(ahead[position] for position in phase))
                for phase in _phases_of(schedule)
            )


def _phases_of(schedule: Schedule) -> Iterator[tuple[int, ...]]:
    """Positions of layers among which loads, work and stores overlap: what is loaded again must be stored before."""
    spilled = set(schedule.spilled)
    phase: list[int] = []
    left: set[str] = set()
    for position, layer in enumerate(schedule.layers):
        if layer.kind is CostKind.LUT and left.intersection(layer.inputs):
            yield tuple(phase)
            phase, left = [], set()
        phase.append(position)
        left |= {layer.output} & spilled
    yield tuple(phase)


def _ahead_us(schedule: Schedule, costs: Sequence[Cost], fitted: Fitted) -> Iterator[float]:
    """Per layer, how much of its work and of loading its weights goes on while others work.

    Loads of weights follow one another; one begins when its weights fit beside those of the layers that do not work
    yet, but for a single pixel when the layer before is done. Layers work in turn; tables and maxima that grow tap by
    tap do so among themselves, beside the array, as soon as what they read is there; channels of a single pixel are
    looked up while the weights of others are loaded.
    """
    sizes = [
        min(_weight_bytes(schedule, layer), cost.traffic.loaded)
        for layer, cost in zip(schedule.layers, costs, strict=True)
    ]
    ready: dict[str, float] = {}
    loading: dict[str, float] = {}
    ends: list[float] = []
    free_at = [0.0, 0.0]
    loaded_at = done_at = 0.0
    first = held = 0
    for position, (layer, cost, size) in enumerate(zip(schedule.layers, costs, sizes, strict=True)):
        held += size
        at_once = math.prod(layer.output_shape[:-1]) == 1
        while (at_once or held > fitted.ahead_bytes) and first < position:
            held -= sizes[first]
            first += 1
        whole = load_us(Traffic(loaded=size), fitted)
        loaded_at = max(loaded_at, ends[first - 1] if first else 0.0) + whole + fitted.begin_us * (size > 0)
        beside = layer.kind is CostKind.LUT or layer.overlaps
        work = cost.working_us + cost.overhead_us
        early = 0.0
        if at_once and layer.kind is CostKind.LUT:
            early = min(_LOOKED_UP_EARLY * loading.get(layer.inputs[0], 0.0), _LOOKED_UP_MOST * work)
        read = (ready.get(name, 0.0) - early for name in layer.inputs)
        begins = max([loaded_at * (size > 0) - early, free_at[beside], *read])
        loading[layer.output] = whole
        ready[layer.output] = free_at[beside] = begins + work
        ends.append(max(begins + work, done_at))
        yield whole + work - (ends[-1] - done_at)
        done_at = ends[-1]


def _weight_bytes(schedule: Schedule, layer: Layer) -> int:
    """Bytes of weights and parameters that all cores load."""
    return copies(schedule, layer) * (layer.weight_bytes + layer.parameter_bytes)


def _working_us(costs: Sequence[Cost], fitted: Fitted) -> float:
    """Computing, and the draining of results that does not hide behind it.

    Draining goes on beside the computing of its own layer, and of the layers that run with it, as far as they overlap.
    """
    whole = max(sum(cost.compute_us for cost in costs), sum(cost.drain_us for cost in costs))
    layer_by_layer = sum(max(cost.compute_us, cost.drain_us) for cost in costs)
    shorter = sum(min(cost.compute_us, cost.drain_us) for cost in costs)
    return whole + fitted.drain_apart * (layer_by_layer - whole) + fitted.drain_exposed * shorter


def _pipelined_us(
    schedule: Schedule,
    costs: Sequence[Cost],
    group: Sequence[int],
    fitted: Fitted,
    apart: Traffic = _NOTHING,
    ahead_us: float = 0.0,
) -> float:
    """The busiest engine of layers that run together, and the exposed part of the others.

    Maps are cut into tiles, weights are not: only what maps move makes tiles that overlap (a layer of many channels on
    few pixels loads its weights, then computes). Where groups run apart what is not computed in the multiplier array
    (pools, resizes, sums, tables) is computed beside it. What is ``apart`` of the traffic does not overlap; weights
    have been loaded for ``ahead_us`` before.
    """
    own, layers = [costs[position] for position in group], [schedule.layers[position] for position in group]
    units = [layer.kind in OF_WEIGHTS or schedule.overlap is not Overlap.GROUPS for layer in layers]
    working = [_working_us(list(compress(own, [unit is array for unit in units])), fitted) for array in (True, False)]
    arranging = sum(cost.arrange_us for cost in own)
    weights = sum(_weight_bytes(schedule, layer) for layer in layers)
    traffic = sum((cost.traffic for cost in own), Traffic()) - apart
    stored = store_us(traffic, fitted) - _hidden_us(own, fitted) * (schedule.overlap is Overlap.GROUPS)
    engines = (load_us(traffic, fitted) - ahead_us + arranging, *working, stored)
    maps = max(traffic.loaded + traffic.stored - weights, 0)
    tiles: float = (maps / fitted.pipeline_bytes) ** fitted.pipeline_power
    return max(engines) + (sum(engines) - max(engines)) / (1 + tiles)


def _begun_us(schedule: Schedule, costs: Sequence[Cost], fitted: Fitted) -> Iterator[float]:
    """Per layer, what its load of weights, of a table or of parameters takes besides its traffic.

    Maps from outside have none, and hide behind nothing. Each load takes ``begin_us``, and goes on while what is in
    front of its layer works: the arrangement of an input whole, a layer by ``ahead_share``. Loads of ``ahead_bytes``
    run ahead of the layers that wait for them; that of the filter which turns an operand of a product does not.
    Parameters of a sum or a product of what enters are loaded with it; ``sum_loads_us`` of what other sums and products
    wait for (an overhead) are loads, too.
    """
    most = load_us(Traffic(loaded=round(fitted.ahead_bytes)), fitted)
    entering = set(schedule.input_names)
    working = waiting = 0.0
    for layer, cost in zip(schedule.layers, costs, strict=True):
        working += cost.entering_us
        size = cost.traffic.loaded
        if layer.kind in OF_WEIGHTS:
            size = min(_weight_bytes(schedule, layer), size)
        else:
            size = max(size - _entering_bytes(layer, entering), 0)
        product = layer.kind is CostKind.MATMUL and len(layer.inputs) > 1
        beside = layer.kind in _OF_CONSTANTS and len(layer.inputs) == 1 and layer.inputs[0] in entering
        begin = fitted.begin_us * (size > 0 or (product and cost.traffic.loaded > 0)) * (not beside)
        if layer.kind in OF_WEIGHTS and layer.input_bits >= _WIDE_BITS:
            begin *= fitted.int16_loads
        loads = fitted.sum_loads_us if layer.kind in _OF_CONSTANTS and not layer.rescales else 0.0
        hidden = 0.0
        if size:
            hidden = min(begin + loads + load_us(Traffic(loaded=size), fitted), working + waiting)
            working, waiting = min(working - max(hidden - waiting, 0.0), most), 0.0
        yield begin - hidden
        working += fitted.ahead_share * (cost.working_us - cost.entering_us)
        waiting += fitted.ahead_share * (cost.overhead_us - loads)


def _entering_bytes(layer: Layer, entering: Collection[str]) -> int:
    """Bytes of the maps from outside that a layer reads."""
    shapes = (shape for name, shape in zip(layer.inputs, layer.input_shapes, strict=True) if name in entering)
    return sum(map(math.prod, shapes)) * layer.input_bits // 8


def _hidden_us(costs: Sequence[Cost], fitted: Fitted) -> float:
    """Time to store what layers leave while those behind them work; what drains takes the way that stores take."""
    hidden = behind = 0.0
    for cost in reversed(costs):
        here = min(store_us(cost.traffic, fitted), behind)
        hidden += here
        behind += cost.compute_us + (0.0 if cost.drain_us else cost.overhead_us) - here
    return hidden


def transfer_us(traffic: Traffic, fitted: Fitted) -> float:
    """Time to load and store, one after the other."""
    return load_us(traffic, fitted) + store_us(traffic, fitted)


def moving_us(cost: Cost, fitted: Fitted) -> float:
    """Time of a layer's transfers, one after the other."""
    return transfer_us(cost.traffic, fitted) if cost.moving_us is None else cost.moving_us


def load_us(traffic: Traffic, fitted: Fitted) -> float:
    """Time to load."""
    return traffic.loaded / fitted.load_gbps / 1000 + fitted.map_us * traffic.loads


def store_us(traffic: Traffic, fitted: Fitted) -> float:
    """Time to store."""
    return traffic.stored / fitted.store_gbps / 1000 + fitted.map_us * traffic.stores


def drain_us(layer: Layer, latency: Latency) -> float:
    """Time in which int32 results leave the accumulators; narrower ones leave while they are computed.

    What leaves at a rate of its own is an overhead.
    """
    planes = layer.output_bits == _WIDE_BITS and layer.planar and layer.leaves
    wide = layer.output_bits == _ACCUMULATOR_BITS or planes
    if not wide or (is_plain(layer, latency) and not layer.planar):
        return 0.0
    fitted = latency.fitted
    return (
        _drained(layer.output_shape, latency.alignment) / fitted.wide_rate
        + fitted.wide_row_ns * _rows(layer.output_shape)
    ) / 1000


def _drained(shape: Sequence[int], alignment: Alignment) -> int:
    """Elements of an int32 result that take time to leave; two channels take as long as three."""
    *outer, width, channels = (1, *shape)
    return math.prod(outer) * round_up(width, alignment.drained_width) * (channels + (channels == _PAIR))


def _arranging_ns(schedule: Schedule, latency: Latency) -> Iterator[float]:
    """Per layer, the time to bring the inputs that it reads into the layout of the array.

    A map is brought into it once, for its first reader, but for each of the slices that fold an image; so is a map that
    the CPU leaves, where layers run together, unless its reader moves it itself. What another subgraph leaves is in
    that layout, but where loads arrange maps (``InputLayer.by_load``); these leave one block of channels, and a single
    pixel, as they are.
    """
    by_load, apart = latency.input_layer.by_load, schedule.is_told_by_layer
    entering = {
        tensor.name: tensor
        for tensor in schedule.inputs
        if by_load or not tensor.inner or (tensor.from_cpu and not apart and _has_columns(tensor.shape))
    }
    for layer in schedule.layers:
        names = [
            name
            for name in dict.fromkeys(layer.inputs)
            if name in entering and not (entering[name].from_cpu and layer.kind in _MOVING and not by_load)
        ]
        once = layer.kind is not CostKind.MOVE or layer.motion is not Motion.NONE
        read = [entering.pop(name) if once else entering[name] for name in names]
        besides = _entering_ns(layer, latency) if layer.kind is CostKind.MATMUL and len(read) > 1 else 0.0
        yield besides + sum(_arranged_ns(tensor, latency) for tensor in read)


def _has_columns(shape: Sequence[int]) -> bool:
    """Whether ``shape`` is that of a map of several columns."""
    return len(shape) == _MAP_RANK and shape[-2] > 1


def _arranged_ns(tensor: InputTensor, latency: Latency) -> float:
    fitted, extra = latency.fitted, latency.input_layer
    if extra.nv12_ns and tensor.nv12:
        return extra.nv12_ns * nv12_bytes(tensor.shape)
    if extra.by_load and (tensor.shape[-1] <= extra.channels or math.prod(tensor.shape[:-1]) == 1):
        return 0.0
    shape = (*tensor.shape[:-1], round_up(tensor.shape[-1], extra.channels))
    if extra.by_load and len(shape) == _MAP_RANK:
        shape = (*shape[:-2], row_width(shape[-2], latency.input_row), shape[-1])
    vectors = 1
    if extra.vector and len(shape) == _MAP_RANK and shape[-2] > extra.vector:
        vectors = -(-shape[-2] // extra.vector)
        shape = (*shape[:-2], row_width(shape[-2], latency.input_row), shape[-1])
    return math.prod(shape) / fitted.input_rate + fitted.row_ns * _rows(shape) * vectors


def _rows(shape: Sequence[int]) -> int:
    """Rows of all channels (NHWC)."""
    laid = as_map(shape)
    return laid[0] * laid[1] * laid[3] if len(laid) == 4 else laid[-1]


def aligned_shape(shape: Sequence[int], alignment: Alignment) -> tuple[int, ...]:
    """``shape`` (NHWC) as the hardware computes it; other ranks are left alone."""
    if len(shape) != 4:
        return tuple(shape)
    batch, height, width, channels = as_map(shape)
    rows, pixels = round_up(height, alignment.height), round_up(width, alignment.width)
    if height == width == 1:
        rows, pixels = alignment.single_pixel
    return batch, rows, pixels, round_up(channels, alignment.out_channels)


def _kernel_ns(layer: Layer, latency: Latency, arranging: float = 0.0, *, fused: bool = True) -> float:
    """Computing time; a map of one channel is scaled while it is arranged, in ``arranging`` nanoseconds."""
    fitted = latency.fitted
    elements = math.prod(layer.output_shape)
    window = layer.kernel[0] * layer.kernel[1]
    match layer.kind:
        case CostKind.MATMUL if len(layer.inputs) > 1:
            return _product_ns(layer, latency, fused=fused)
        case CostKind.CONV if fitted.single_row_ns and _is_of_single_channels(layer):
            *outer, width, _ = layer.output_shape
            scaling = fitted.single_row_ns * math.prod(outer) * -(-width // (latency.input_row.block // _PAIR))
            return max(scaling - arranging, 0.0)
        case CostKind.CONV | CostKind.GROUPED | CostKind.TRANSPOSED | CostKind.MATMUL:
            macs = _aligned_macs(layer, latency) * _type_factor(layer, fitted)
            moved = sum(math.prod(shape) for shape in layer.input_shapes) + elements
            return max(macs / fitted.mac_rate, moved / fitted.activation_rate) + _int16_ns(layer, fitted)
        case CostKind.DEPTHWISE:
            rows = math.prod(_computed_shape(layer, latency.alignment)[1:3])
            channels = round_up(layer.output_shape[-1], latency.alignment.in_channels)
            if is_dense(layer, latency):
                return rows * channels * window * latency.weight_load.wide_depthwise_lanes / fitted.mac_rate
            return _type_factor(layer, fitted) * rows * channels * window / fitted.depthwise_rate
        case CostKind.TRANSPOSE if layer.motion is Motion.PLANES and shuffling_depth(layer, latency.weight_load):
            pixels = math.prod(aligned_shape(layer.output_shape, latency.alignment))
            return pixels * shuffling_depth(layer, latency.weight_load) / fitted.mac_rate
        case CostKind.JOIN if fused and joining_depth(layer, latency):
            *spatial, channels = layer.output_shape
            block, depth = latency.weight_block.out_channels, joining_depth(layer, latency)
            return math.prod(spatial) * round_up(channels, block) * round_up(depth, block) / fitted.mac_rate
        case CostKind.MUL if len(set(layer.input_shapes)) > 1 and not _has_one_channel(layer):
            return elements / fitted.elementwise_rate
        case CostKind.MUL:
            small = latency.small_tables
            padded = small is not None and len(layer.output_shape) == 4
            return (small.by_rows(layer.output_shape) if small and padded else elements) / fitted.multiply_rate
        case CostKind.POOL if latency.pools_by_taps and layer.overlaps:
            return sum(tap_elements(layer, latency)) / layer.strides[1] / fitted.window_rate
        case CostKind.POOL if layer.input_bits >= _WIDE_BITS or is_averaged_by_pixel(layer, latency):
            return 0.0  # row by row of each channel, or pixel by pixel, which are overheads
        case CostKind.POOL if layer.strides == (1, 1) and not latency.pools_by_taps:
            return _window_steps(layer) * _in_blocks(layer.output_shape) / fitted.window_rate
        case CostKind.POOL:
            return (math.prod(layer.input_shapes[0]) + elements) / fitted.pool_rate
        case CostKind.REDUCE:
            return math.prod(layer.input_shapes[0]) / fitted.pool_rate
        case CostKind.RESIZE:
            return elements / fitted.resize_rate
        case _:
            return elements / fitted.elementwise_rate


def _window_steps(layer: Layer) -> float:
    """Windows of 3 x 3 that a maximum of larger windows takes the time of: it goes by windows of 5 x 5 and a rest."""
    reach = max(layer.kernel) // 2
    return (reach // 2) * _FIVE_BY_FIVE + reach % 2


def _in_blocks(shape: Sequence[int]) -> int:
    """Elements of a map with whole blocks of channels."""
    return math.prod(shape[:-1]) * round_up(shape[-1], _BLOCK_CHANNELS)


def _is_of_single_channels(layer: Layer) -> bool:
    """Whether a convolution of one tap scales a map of one channel."""
    channels = {layer.input_shapes[0][-1], layer.output_shape[-1]}
    return (
        layer.kernel == (1, 1)
        and channels == {1}
        and len(layer.output_shape) == len(layer.input_shapes[0]) == _MAP_RANK
    )


def _product_ns(layer: Layer, latency: Latency, *, fused: bool) -> float:
    """A product of two maps: its second operand is turned by a filter of ones, then it runs matrix by matrix.

    Each matrix is a map of one row, which is padded as others are; the columns of the second operand are the output
    channels of a convolution. Wide second operands need no filter, but at O0, and are read in 32 channels at least.
    """
    fitted, alignment = latency.fitted, latency.alignment
    *matrices, rows, columns = layer.output_shape
    depth, count = layer.input_shapes[0][-1], math.prod(matrices)
    waits = 1000 * count * fitted.matrix_us
    if not fitted.product_rate:
        return waits + layer.macs / fitted.mac_rate
    channels = round_up(columns, 2 * alignment.out_channels)
    wide = fused and columns > latency.weight_load.turning_columns
    read = round_up(max(depth, _WIDE_DEPTH) if wide else depth, alignment.in_channels)
    macs = round_up(rows, alignment.width) * read * channels
    turned = round_up(depth, alignment.width) * round_up(columns, alignment.out_channels) ** 2
    turned *= not wide
    return waits + count * alignment.height * (macs + fitted.turning * turned) / fitted.product_rate


def _entering_ns(layer: Layer, latency: Latency) -> float:
    """What a product of two maps takes besides where its operands enter the model."""
    fitted, block = latency.fitted, latency.alignment.out_channels
    *outer, columns = layer.output_shape
    depth = round_up(layer.input_shapes[0][-1], block)
    return math.prod(outer) * (depth * fitted.left_ns + round_up(columns, block) * fitted.product_ns)


def _computed_shape(layer: Layer, alignment: Alignment) -> tuple[int, ...]:
    """The output as it is computed.

    A dilated layer runs on the pixels of each phase apart, each padded for itself. Steps of more than two pixels are
    computed two at a time, or each where they are odd, and most of the results left out.
    """
    down, right = layer.spread
    if (down, right) == (1, 1):
        stepped = layer.stepped_shape
        if alignment.odd_steps_in_rows and layer.strides[0] % 2 and layer.kind is not CostKind.DEPTHWISE:
            stepped = (*layer.output_shape[:2], *stepped[2:])
        if layer.kernel != (1, 1) and alignment.windows_in_rows and stepped[1:3] == (1, 1):
            batch, height, width, channels = stepped
            rows, pixels = round_up(height, alignment.height), round_up(width, alignment.width)
            return batch, rows, pixels, round_up(channels, alignment.out_channels)
        return aligned_shape(stepped, alignment)
    batch, height, width, channels = layer.output_shape
    rows = round_up(-(-height // down), alignment.height) * down
    pixels = round_up(-(-width // right), alignment.width) * right
    return batch, rows, pixels, round_up(channels, alignment.out_channels)


def _has_one_channel(layer: Layer) -> bool:
    """Whether a map of one channel is broadcast over the channels of another; as dear as two maps of one shape."""
    return any(shape[-1] == 1 for shape in layer.input_shapes)


def _aligned_macs(layer: Layer, latency: Latency) -> float:
    """Multiply-accumulates including those on padding."""
    alignment = latency.alignment
    if len(layer.output_shape) != _MAP_RANK:
        return layer.macs
    batch, height, width, channels = _computed_shape(layer, alignment)
    halves = latency.weight_load.halves
    if halves is not None and math.prod(layer.kernel) > halves.quick_above and goes_by_halves(layer, latency):
        width = round_up(width, halves.pixels)
        return batch * height * width * filter_count(layer, latency) * filter_depth(layer, latency)
    per_group = layer.input_shapes[0][-1] // layer.group
    if layer.kind is CostKind.GROUPED:
        per_group = max(per_group, _GROUP_LANES)
    if layer.kind is CostKind.CONV:
        return batch * height * width * channels * whole_depth(layer, latency)
    window = layer.kernel[0] * layer.kernel[1]
    if layer.kind is CostKind.TRANSPOSED:
        window = -(-window // (layer.strides[0] * layer.strides[1]))
    return batch * height * width * channels * round_up(per_group, alignment.in_channels) * window


def _type_factor(layer: Layer, fitted: Fitted) -> float:
    return fitted.int16_factor if layer.input_bits > 8 else 1.0


def _int16_ns(layer: Layer, fitted: Fitted) -> float:
    """Time to split int16 inputs into bytes."""
    return math.prod(layer.input_shapes[0]) / fitted.int16_rate if layer.input_bits > 8 else 0.0
