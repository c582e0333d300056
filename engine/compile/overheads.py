"""What a layer takes besides computing and traffic, in amounts: so many layers or elements of which kind.

A march's data say what each amount costs (:class:`~engine.chips.latency.overhead.Overhead`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from engine.chips.latency import Latency
from engine.chips.latency.layout import RowPadding
from engine.chips.latency.overhead import Overhead
from engine.chips.latency.through_ddr import SmallTables
from engine.compile.columns import becomes_column, is_column
from engine.compile.joining import joins_pixels, joins_rows
from engine.compile.layers import Layer, Overlap
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.compile.singles import becomes_rows
from engine.compile.sizes import row_width
from engine.compile.windows import cuts_windows, window_amounts
from engine.ops.core.costs import CostKind

Amount = tuple[Overhead, float]
"""An overhead and how often it occurs: layers, or thousands of elements or rows."""

_BLOCK_CHANNELS = 16
"""Of a block in which maps lie on the chip."""
_ROW_BYTES, _LARGE_AGAIN = 1024, 2.2
"""Bytes that a row of one channel of a pool of int16 takes on the chip; and how often the work is done of what does not
fit.
"""
_ROW_HIDDEN = 32
"""Pixels of a row of int16 that are pooled while the next row is on its way."""
_UNEVEN_CHANNELS, _STRETCH = 8, 64
"""Of a block within which parts that are joined or cut out are moved channel by channel; and pixels of a row that are
moved at a time.
"""
_FEWEST_CUT = 4
"""Elements of a row that is moved by itself; shorter ones go together."""
_HEADS_POWER = 1.5
"""How much less the rows of several heads take that change places."""
_APART = 0.14
"""Part of the work on queries, keys and values of an image that is not done with that of others."""
_MAP_RANK = 4
_PAIR = 2
"""Distance of taps that is a step."""
_ROW_PIXELS = 16
"""Pixels that rows are padded to where they are joined."""
_SINGLE_WIDE = 4 / 3
"""Time of an element of int16 that is moved by itself, of one of int8."""
_NARROW_BITS, _WIDE_BITS, _ACCUMULATOR_BITS = 8, 16, 32


def overhead_us(layer: Layer, overlap: Overlap, latency: Latency, summed: Collection[str] = ()) -> float:
    """Microseconds that ``layer`` takes besides computing and traffic.

    Args:
        layer: of a subgraph.
        overlap: of its loads and stores.
        latency: of the march.
        summed: names of what only sums take, from :func:`only_summed`.
    """
    costs = latency.overheads
    found = amounts(layer, overlap, latency)
    if layer.output in summed and Overhead.DEPTH_SUMMED in costs:
        elements = _padded(layer.input_shapes[0], latency) / 1e3
        found = ((Overhead.DEPTH_SUMMED, elements) if each[0] is Overhead.DEPTH_REDUCE else each for each in found)
    return sum(amount * costs[overhead].us for overhead, amount in found if overhead in costs)


def only_summed(layers: Sequence[Layer]) -> frozenset[str]:
    """Names of what only sums and differences of a subgraph take, and nothing outside of it."""
    reading: dict[str, set[CostKind]] = {}
    for layer in layers:
        for name in layer.inputs:
            reading.setdefault(name, set()).add(layer.kind)
    return frozenset(
        layer.output for layer in layers if reading.get(layer.output) == {CostKind.ADD} and not layer.leaves
    )


def _padded(shape: Sequence[int], latency: Latency) -> int:
    """Elements of a map with the rows and pixels that the array computes with."""
    *outer, height, width, channels = (1,) * (_MAP_RANK - len(shape)) + tuple(shape)
    rows, pixels = round_up(height, latency.alignment.height), round_up(width, latency.alignment.width)
    return math.prod(outer) * rows * pixels * channels


def unfused_wait_us(layer: Layer, latency: Latency) -> float:
    """Microseconds between a layer, and each layout change in front of it, and the next at O0."""
    found = latency.overheads.get(Overhead.UNFUSED)
    return _unfused(layer) * found.us if found is not None else 0.0


def wide_pool_us(layer: Layer, latency: Latency) -> float:
    """Microseconds that a pool of int16 takes for its channels and their rows, wherever its maps are; 0 for others."""
    costs = latency.overheads
    return sum(amount * costs[overhead].us for overhead, amount in _wide_pool(layer, math.inf) if overhead in costs)


def _wide_pool(layer: Layer, memory: float) -> Iterator[Amount]:
    """Channels, their rows before steps leave some out, and taps, down and across, of each.

    A map whose rows of each channel do not fit the ``memory`` with their border takes more than twice as long.
    """
    if layer.kind is not CostKind.POOL or layer.input_bits < _WIDE_BITS or layer.kernel == (1, 1):
        return
    *outer, height, _, channels = layer.output_shape
    taps = sum(layer.kernel) / 2
    planes = math.prod(outer) * channels / 1e3
    bordered = layer.padded * channels * (layer.input_shapes[0][-3] + layer.kernel[0] - 1) * _ROW_BYTES
    planes *= _LARGE_AGAIN if bordered > memory else 1
    rows = planes * ((height - 1) * layer.strides[0] + 1)
    yield Overhead.WIDE_POOL, planes
    yield Overhead.WIDE_POOL_TAP, planes * taps
    yield Overhead.WIDE_POOL_ROW, rows
    yield Overhead.WIDE_POOL_ROW_TAP, rows * taps
    yield Overhead.WIDE_POOL_PIXEL, rows * max(layer.input_shapes[0][-2] - _ROW_HIDDEN, 0)


def _unfused(layer: Layer) -> int:
    return 1 + len(layer.converted)


_TOLD = frozenset(
    {
        Overhead.ARRANGED,
        Overhead.ARRANGED_PIXELS,
        Overhead.ARRANGED_ROWS,
        Overhead.STEPPED,
        Overhead.SINGLE_TAP,
        Overhead.WINDOW,
        Overhead.LINE,
        Overhead.LINES,
        Overhead.DEEP_ROW,
        Overhead.DEEP_HEAD_ROW,
        Overhead.STACKED_PIXEL,
        Overhead.COLUMN_ROW,
        Overhead.COLUMN_ELEMENT,
        Overhead.COLUMN_ADDED,
        Overhead.ANCHOR,
        Overhead.ANCHOR_PIXEL,
        Overhead.ANCHOR_PARTS,
        Overhead.ANCHOR_JOINED,
        Overhead.DEEP_MAXIMUM_PLANE,
        Overhead.COPIED,
        Overhead.CROSSED,
        Overhead.STACKED,
        Overhead.LAID,
        Overhead.TURNED,
        Overhead.TURNED_ROW,
        Overhead.TURNED_PIXEL,
        Overhead.TURNED_TOKEN,
        Overhead.TRANSPOSED,
        Overhead.PLAIN,
        Overhead.PLAIN_PIXEL,
        Overhead.PLAIN_ROW,
        Overhead.FLATTENED,
        Overhead.REGROUPED,
        Overhead.PLANE_ROW,
        Overhead.PLANE_PIXEL,
        Overhead.PLANE_SINGLE,
        Overhead.SWAP,
        Overhead.TOKENS,
        Overhead.SLICED,
    }
)
"""Overheads that computing times of layers tell: a march whose data do not name one has none."""


def amounts(layer: Layer, overlap: Overlap, latency: Latency) -> Iterator[Amount]:
    """The overheads of ``layer``; one that the march's data do not name costs nothing there."""
    found = _amounts(layer, overlap, latency)
    return ((overhead, amount) for overhead, amount in found if overhead not in _TOLD or overhead in latency.overheads)


def _amounts(layer: Layer, overlap: Overlap, latency: Latency) -> Iterator[Amount]:
    if overlap is Overlap.NONE:
        yield Overhead.UNFUSED, _unfused(layer)
    elements = math.prod(layer.output_shape) / 1e3
    rank = len(layer.output_shape)
    if is_plain(layer, latency) and math.prod(layer.output_shape[:-1]) > 1:
        yield from _plain(layer.output_shape, latency.plain_channels)
    elif layer.output_bits == _ACCUMULATOR_BITS:
        yield Overhead.PLANAR, math.prod(layer.output_shape[:-2]) / 1e3
    if _leaves_planes(layer) and Overhead.LAID in latency.overheads:
        yield Overhead.LAID, _channel_rows((1, 1, *layer.output_shape))
    if is_copied(layer, latency):
        yield Overhead.COPIED, _channel_rows((1, 1, *layer.output_shape))
    for position in layer.rearranged:
        shape = (1, 1, *layer.input_shapes[position])
        yield Overhead.ARRANGED, 1
        yield Overhead.ARRANGED_PIXELS, math.prod(shape[:-1]) / 1e3
        yield Overhead.ARRANGED_ROWS, _channel_rows(shape)
    if layer.spread != (1, 1):
        yield from _dilated(layer, latency)
    match layer.kind:
        case CostKind.CONV if rank == _MAP_RANK and layer.output_shape[1:3] == (1, 1):
            yield Overhead.PIXEL, 1
        case CostKind.DEPTHWISE if layer.kernel == (1, 1):
            yield Overhead.SINGLE_TAP, layer.output_shape[-1] / 1e3
        case CostKind.DEPTHWISE if max(layer.strides) > 1:
            yield Overhead.STEPPED, layer.output_shape[-1] / 1e3
        case CostKind.ADD if layer.rescales:
            yield Overhead.SCALE, 1
        case CostKind.ADD | CostKind.MUL:
            yield Overhead.SUM, 1
        case CostKind.SLOPE:
            yield Overhead.SLOPED, 1
            yield Overhead.SLOPE, elements
        case CostKind.LUT if latency.small_tables and small_table_elements(layer, latency.small_tables):
            yield Overhead.SMALL_TABLE, _table_amount(layer.output_shape, latency.small_tables) / 1e3
        case CostKind.LUT:
            yield Overhead.TABLE, 1
        case CostKind.REDUCE if rank > _MAP_RANK and layer.largest and layer.output_shape[-1] > 1:
            yield Overhead.DEEP_MAXIMUM, elements
            yield Overhead.DEEP_MAXIMUM_PLANE, math.prod(layer.output_shape[:-2]) / 1e3
        case CostKind.REDUCE if rank > _MAP_RANK:
            yield Overhead.DEEP_REDUCE, elements
        case CostKind.REDUCE:
            if _is_depth(layer):
                yield Overhead.REDUCE, 1
                yield Overhead.DEPTH_REDUCE, math.prod(layer.input_shapes[0]) / 1e3
        case CostKind.POOL:
            yield Overhead.POOL, 1
            yield from _pooled(layer, latency)
        case CostKind.TRANSPOSED:
            yield Overhead.TRANSPOSED, 1
        case CostKind.RESIZE:
            yield Overhead.RESIZE, 1
        case CostKind.JOIN:
            yield Overhead.JOIN, 1
            if rank > _MAP_RANK and layer.input_shapes[0][-1] < layer.output_shape[-1]:
                yield Overhead.ANCHOR_PARTS, _rows(layer.output_shape)
        case CostKind.MOVE if layer.motion is not Motion.NONE:
            yield Overhead.MOVE, 1
        case CostKind.TRANSPOSE | CostKind.RESHAPE:
            yield from _moves(layer, overlap, latency)


def _pooled(layer: Layer, latency: Latency) -> Iterator[Amount]:
    """What windows take: those of int16 row by row of each channel, averages pixel by pixel, maxima in steps."""
    steps = max(layer.kernel) // 2
    if layer.input_bits >= _WIDE_BITS:
        yield from _wide_pool(layer, latency.map_bytes)
    elif is_averaged_by_pixel(layer, latency):
        yield from _average(layer, latency)
    elif layer.strides == (1, 1) and steps > 1:
        yield Overhead.WINDOW, steps


def _average(layer: Layer, latency: Latency) -> Iterator[Amount]:
    """Pixels of vectors of channels, and taps of each."""
    *pixels, channels = layer.output_shape
    blocks = math.prod(pixels) * -(-channels // latency.input_row.block) / 1e3
    yield Overhead.AVERAGE, blocks
    yield Overhead.AVERAGE_TAP, blocks * math.prod(layer.kernel)


def average_us(layer: Layer, latency: Latency) -> float:
    """Microseconds that averages of windows take pixel by pixel, wherever the maps are; 0 for other layers."""
    if not is_averaged_by_pixel(layer, latency):
        return 0.0
    return sum(amount * latency.overheads[overhead].us for overhead, amount in _average(layer, latency))


def is_averaged_by_pixel(layer: Layer, latency: Latency) -> bool:
    """Whether a pool averages windows one after the other: all that are not of 3 x 3."""
    average = layer.kind is CostKind.POOL and not layer.largest_of_windows and layer.kernel != (3, 3)
    return average and Overhead.AVERAGE in latency.overheads


def uneven_us(layer: Layer, latency: Latency) -> float:
    """Microseconds of work on a map that is joined or cut channel by channel, for a part begins within a block."""
    costs = latency.overheads
    return sum(amount * costs[overhead].us for overhead, amount in _uneven(layer) if overhead in costs)


def _uneven(layer: Layer) -> Iterator[Amount]:
    """Rows of all channels of a concatenation of which a part begins within a block, or of a slice of no whole blocks;
    and their stretches of 64 pixels.
    """
    joins = layer.kind is CostKind.JOIN
    if not joins and (layer.kind is not CostKind.MOVE or layer.motion is Motion.NONE):
        return
    shapes = layer.input_shapes if joins else (layer.output_shape,)
    whole = layer.output_shape if joins else layer.input_shapes[0]
    if (
        len(whole) != _MAP_RANK
        or (not joins and is_column(whole))
        or any(shape[:-1] != whole[:-1] or shape[-1] >= whole[-1] for shape in shapes)
    ):
        return
    begins = list(accumulate(shape[-1] for shape in shapes))[: len(shapes) - joins]
    if any(begin % _UNEVEN_CHANNELS for begin in begins) or (not joins and whole[-1] % _UNEVEN_CHANNELS):
        yield Overhead.UNEVEN, _channel_rows(layer.output_shape)
        yield Overhead.UNEVEN_STRETCH, _channel_rows(layer.output_shape) * -(-whole[-2] // _STRETCH)


def _dilated(layer: Layer, latency: Latency) -> Iterator[Amount]:
    """Sorting the pixels of a dilated layer into phases, and its results back; two phases a side may be steps."""
    down, right = layer.spread
    if layer.kind is CostKind.DEPTHWISE and Overhead.DILATED_DEPTH in latency.overheads:
        batch, height, width, channels = layer.output_shape
        rows = row_width(-(-width // right), latency.output_row)
        yield Overhead.DILATED_DEPTH, batch * down * -(-height // down) * right * rows * channels / 1e3
        return
    maps = [(*shape[:-3], round_up(shape[-3], down), round_up(shape[-2], right), shape[-1]) for shape in _maps(layer)]
    elements = sum(map(math.prod, maps)) / 1e3
    if max(layer.spread) <= _PAIR and Overhead.DILATED_PAIR in latency.overheads:
        yield Overhead.DILATED_PAIR, 1
        yield Overhead.DILATED_PAIRS, elements
    else:
        yield Overhead.DILATED_PHASE, down * right
        yield Overhead.DILATED, elements


def _maps(layer: Layer) -> tuple[Sequence[int], Sequence[int]]:
    """Shapes of the first map that a layer reads and of what it computes."""
    return layer.input_shapes[0], layer.output_shape


def _moves(layer: Layer, overlap: Overlap, latency: Latency) -> Iterator[Amount]:
    """What it takes to move data; a line of elements, which has one dimension, stays as it is, or is turned."""
    if _is_line(layer.output_shape) and _is_line(layer.input_shapes[0]):
        if layer.output_bits < _ACCUMULATOR_BITS and _is_turned(layer):
            yield Overhead.LINE, 1
            yield Overhead.LINES, math.prod(layer.output_shape) / 1e3
        return
    shapes = (layer.input_shapes[0], layer.output_shape)
    match layer.motion:
        case Motion.NONE if _is_flattened(layer):
            yield Overhead.FLATTENED, math.prod(shapes[0][2:]) / 1e3
        case Motion.VIEW if becomes_column(layer):
            pass  # :mod:`engine.compile.columns`
        case Motion.VIEW if len(shapes[0]) > _MAP_RANK and shapes[1][-1] == 1 < shapes[0][-1]:
            yield Overhead.LINE, 1
            yield Overhead.LINES, math.prod(layer.output_shape) / 1e3
        case Motion.VIEW if _joins_anchors(layer) and Overhead.ANCHOR_JOINED in latency.overheads:
            yield Overhead.ANCHOR_JOINED, _rows(layer.output_shape)
        case Motion.VIEW if _is_regrouped(layer):
            yield Overhead.REGROUPED, _kilobytes(layer)
        case Motion.VIEW if Overhead.PLANE_PIXEL in latency.overheads and joins_rows(layer):
            *_, height, width = shapes[0]
            yield Overhead.PLANE_ROW, _rows(shapes[0])
            yield Overhead.PLANE_PIXEL, height * round_up(width, _ROW_PIXELS) * layer.output_bits / 8e3
        case Motion.VIEW if shapes[0][-1] != shapes[1][-1]:
            yield Overhead.VIEW, max(map(_rows, map(without_ones, shapes))) * layer.output_bits / 8
        case Motion.FOLDED if latency.folding is not None and overlap is Overlap.GROUPS:
            pass  # it takes its traffic
        case Motion.LAID if Overhead.LAID in latency.overheads:
            yield Overhead.LAID, _rows(shapes[0])
        case Motion.LAID:
            yield Overhead.VIEW, max(map(_rows, shapes)) * layer.output_bits / 8
        case Motion.ROWS if layer.kind is CostKind.TRANSPOSE and Overhead.CROSSED in latency.overheads:
            if len(shapes[1]) > _MAP_RANK and shapes[0][-1] != shapes[1][-1] and Overhead.ANCHOR in latency.overheads:
                yield Overhead.ANCHOR, _rows(layer.output_shape)
            elif len(shapes[1]) > _MAP_RANK:
                yield Overhead.MOVED, _rows(layer.output_shape)
            elif shapes[0][-1] != shapes[1][-1]:
                yield Overhead.CROSSED, _kilobytes(layer)
            else:
                yield Overhead.STACKED, _rows(shapes[0][:-1])
        case Motion.ROWS if _parts_batch(layer) and Overhead.DEEP_MAXIMUM_PLANE in latency.overheads:
            yield Overhead.ARRANGED, 1
            yield Overhead.ARRANGED_ROWS, _rows(layer.output_shape)
        case Motion.ROWS if _is_cut_into_anchors(layer) and Overhead.ANCHOR_PIXEL in latency.overheads:
            yield Overhead.ANCHOR_PIXEL, math.prod(shapes[0][-2:]) / 1e3
        case Motion.ROWS | Motion.FOLDED:
            yield Overhead.MOVED, _rows(layer.output_shape)
        case Motion.TURNED if Overhead.TURNED_TOKEN in latency.overheads:
            yield from _turned(layer)
        case Motion.HEADS:
            yield Overhead.HEADS, _kilobytes(layer)
        case Motion.COLUMNS:
            yield Overhead.COLUMN, 1
            yield Overhead.COLUMNS, _kilobytes(layer)
        case Motion.JOINED:
            yield Overhead.JOINED, _kilobytes(layer)
            yield Overhead.JOINED_ROW, _rows(shapes[0])
        case Motion.PIXELS if Overhead.WINDOWS in latency.overheads and cuts_windows(layer):
            yield from window_amounts(layer)
        case Motion.PIXELS:
            yield Overhead.SWAP, 1
            yield Overhead.SWAPPED, _kilobytes(layer)
        case Motion.BLOCKS:
            *pixels, channels = layer.output_shape
            yield Overhead.BLOCKS, math.prod(pixels) * round_up(channels, _BLOCK_CHANNELS) / 1e3
        case Motion.PLANES:
            yield Overhead.SHUFFLED_CHANNEL, layer.output_shape[-1] / 1e3
            yield Overhead.SHUFFLED, _channel_rows(layer.output_shape)
        case Motion.ELEMENTS if Overhead.PLANE_SINGLE in latency.overheads and joins_pixels(layer):
            wide = layer.output_bits == _WIDE_BITS
            yield Overhead.PLANE_SINGLE, math.prod(layer.output_shape) / 1e3 * (_SINGLE_WIDE if wide else 1)
        case Motion.ELEMENTS if Overhead.SINGLES_SPREAD in latency.overheads and becomes_rows(layer):
            pass  # :mod:`engine.compile.singles`
        case Motion.SPREAD | Motion.ELEMENTS | Motion.TURNED:
            block = latency.input_row.block
            together = shapes[0][1] if layer.motion is Motion.SPREAD else 1
            if min(shape[-1] for shape in shapes) == 1:
                yield Overhead.SQUEEZED, math.prod(layer.output_shape) / 1e3 / together
            elif max(map(len, shapes)) > _MAP_RANK:
                yield from _deep(layer)
            else:
                yield Overhead.SINGLE, _kilobytes(layer) / together
                rows = min(max(map(_rows, shapes)), math.prod(layer.output_shape) / _FEWEST_CUT / 1e3)
                yield Overhead.SINGLE_ROW, rows / together
            if vector_traffic(layer, block, vectors_above(overlap, latency)):
                yield Overhead.SINGLE_DDR, single_bytes(layer, block) / 1e3


def _deep(layer: Layer) -> Iterator[Amount]:
    """Queries, keys and values that are cut, or change places: of several images most of it is done at once."""
    if layer.kind is not CostKind.TRANSPOSE:
        yield Overhead.DEEP_SINGLE, _kilobytes(layer)
        yield Overhead.DEEP_ROW, max(map(_rows, (layer.input_shapes[0], layer.output_shape)))
        return
    share = _APART + (1 - _APART) / layer.input_shapes[0][0]
    yield Overhead.DEEP_SINGLE, _kilobytes(layer) * share
    yield Overhead.DEEP_HEAD_ROW, _rows(layer.output_shape) * share**2 / layer.output_shape[-3] ** _HEADS_POWER


def _parts_batch(layer: Layer) -> bool:
    """Whether the maps of a batch get a dimension of their own, or lose it: they stay where they are as NCHW."""
    shapes = sorted((layer.input_shapes[0], layer.output_shape), key=len)
    deep = layer.kind is CostKind.RESHAPE and len(shapes[0]) == _MAP_RANK < len(shapes[1]) == _MAP_RANK + 1
    return deep and (shapes[0][0] > 1 or shapes[1][1] == 1)


def _is_cut_into_anchors(layer: Layer) -> bool:
    """Whether the channels of a map of int16 (NCHW) become anchors and their values."""
    before, after = layer.input_shapes[0], layer.output_shape
    cut = len(before) == _MAP_RANK < len(after) == _MAP_RANK + 1 and before[-2:] == after[-2:] and before[0] == 1
    return layer.kind is CostKind.RESHAPE and cut and layer.output_bits == _WIDE_BITS


def _joins_anchors(layer: Layer) -> bool:
    """Whether the values of anchors of int16 become rows of three dimensions that a layer of the subgraph reads."""
    before, after = layer.input_shapes[0], layer.output_shape
    joins = len(before) > _MAP_RANK > len(after) and before[-1] == after[-1] and not layer.leaves
    return layer.kind is CostKind.RESHAPE and joins and layer.output_bits == _WIDE_BITS


def _is_flattened(layer: Layer) -> bool:
    """Whether the pixels of a map of int16 (NCHW) leave as one row of each channel."""
    before, after = layer.input_shapes[0], layer.output_shape
    joins = len(before) == _MAP_RANK > len(after) and before[:2] == after[:2] and min(before[2:]) > 1
    return layer.kind is CostKind.RESHAPE and layer.leaves and joins and layer.output_bits == _WIDE_BITS


def _is_regrouped(layer: Layer) -> bool:
    """Whether rows of int16, of up to three dimensions, are those of a map of several rows of pixels afterwards."""
    before, after = layer.input_shapes[0], layer.output_shape
    same = layer.output_bits == _WIDE_BITS and before[-1] == after[-1]
    return same and len(before) < _MAP_RANK == len(after) and min(after[1:3]) > 1


def _turned(layer: Layer) -> Iterator[Amount]:
    """Pixels and channels change places: of a map row by row, of tokens one element at a time."""
    *_, height, width, channels = (1, 1, *layer.input_shapes[0])
    yield Overhead.TURNED, _kilobytes(layer)
    if min(height, width) == 1:
        yield Overhead.SINGLE, _kilobytes(layer)
        yield Overhead.TURNED_TOKEN, height * width / 1e3
        return
    yield Overhead.TURNED_ROW, height * channels / 1e3
    yield Overhead.TURNED_PIXEL, height * width / 1e3


def vectors_above(overlap: Overlap, latency: Latency) -> float:
    """Bytes of vectors of single elements that stay on the chip: all, but at O1."""
    return latency.map_bytes if overlap is Overlap.BORDERS and latency.output_relay.maps else math.inf


def vector_traffic(layer: Layer, block: int, above: float) -> int:
    """Bytes by which a layer that moves single elements, each in a vector, stores and loads them; 0 if they fit.

    Args:
        layer: any.
        block: bytes of a vector, and pixels to which rows are padded in number.
        above: bytes that fit on the chip.
    """
    taken = single_bytes(layer, block) * block
    return taken if taken > above else 0


def single_bytes(layer: Layer, block: int) -> int:
    """Bytes of what a layer moves one element at a time; 0 where it does not.

    Args:
        layer: any.
        block: pixels to which rows are padded in number, as they are in DDR.
    """
    if layer.kind not in {CostKind.RESHAPE, CostKind.TRANSPOSE} or layer.motion is not Motion.ELEMENTS:
        return 0
    shapes = (layer.input_shapes[0], layer.output_shape)
    return max(_with_rows(shape, block) for shape in shapes) * layer.output_bits // 8


def _with_rows(shape: Sequence[int], block: int) -> int:
    *outer, rows, length = (1, *shape)
    return math.prod(outer) * row_width(rows, RowPadding(block=block, minimum=1)) * length


def is_plain(layer: Layer, latency: Latency) -> bool:
    """Whether results leave the chip NHWC, pixel by pixel; of bytes only where they do not pass through DDR before."""
    narrow = layer.output_bits == _NARROW_BITS and latency.planar_row is not None
    apart = not layer.planar or is_copied(layer, latency)
    return latency.plain_channels > 0 and layer.leaves and apart and not narrow


def uneven_pixels(shape: Sequence[int]) -> float:
    """Thousands of pixels of a map, all of it, whose channels are no whole blocks; 0 of others."""
    return math.prod(shape[:-1]) / 1e3 if shape[-1] % _BLOCK_CHANNELS else 0.0


def is_copied(layer: Layer, latency: Latency) -> bool:
    """Whether a map of int8 leaves in two layouts, one of which is made on the chip."""
    return layer.copied and latency.planar_row is None and layer.output_bits < _ACCUMULATOR_BITS


def _leaves_planes(layer: Layer) -> bool:
    """Whether a map of bytes of several pixels leaves the chip channel by channel."""
    planes = layer.leaves and layer.planar and not layer.copied and layer.output_bits == _NARROW_BITS
    return planes and len(layer.output_shape) == _MAP_RANK and math.prod(layer.output_shape[:-1]) > 1


def _plain(shape: Sequence[int], channels: int) -> Iterator[Amount]:
    """A result that leaves the chip NHWC, ``channels`` of a pixel at a time; where those are all, rows are one."""
    blocks = -(-shape[-1] // channels)
    yield Overhead.PLAIN, 1
    yield Overhead.PLAIN_PIXEL, math.prod(shape[:-1]) * blocks / 1e3
    if blocks > 1:
        yield Overhead.PLAIN_ROW, math.prod(shape[:-2]) * blocks / 1e3


def small_table_elements(layer: Layer, small: SmallTables | None) -> int:
    """Padded elements of a table that is looked up element by element; 0: it is not."""
    if small is None or layer.kind is not CostKind.LUT or len(layer.output_shape) != _MAP_RANK:
        return 0
    padded = min(small.by_rows(layer.output_shape), _by_pixels(layer.output_shape, small))
    return padded if padded <= small.elements else 0


def _table_amount(shape: Sequence[int], small: SmallTables) -> int:
    """Elements that such a table takes the time of: pixel by pixel each block of channels begins anew."""
    rows, pixels = small.by_rows(shape), _by_pixels(shape, small)
    return min(rows, pixels) + small.begin_elements * (pixels < rows) * -(-shape[-1] // small.pixel_channels)


def _by_pixels(shape: Sequence[int], small: SmallTables) -> int:
    """Elements of a map whose pixels are padded in their channels alone."""
    *pixels, channels = shape
    return math.prod(pixels) * round_up(channels, small.pixel_channels)


def _kilobytes(layer: Layer) -> float:
    """Thousands of bytes of what a layer computes."""
    return math.prod(layer.output_shape) * layer.output_bits / 8e3


def without_ones(shape: Sequence[int]) -> Sequence[int]:
    """``shape`` without dimensions of size 1 at its end."""
    last = max((position for position, size in enumerate(shape) if size > 1), default=0)
    return shape[: last + 1]


def product_columns(layer: Layer) -> float:
    """Thousands of columns of the second operands of products of several matrices (heads); 0 of other layers."""
    matrices = math.prod(layer.output_shape[:-2])
    if layer.kind is not CostKind.MATMUL or len(layer.inputs) == 1 or matrices == 1:
        return 0.0
    return matrices * layer.output_shape[-1] / 1e3


def _is_line(shape: Sequence[int]) -> bool:
    """Whether all dimensions but one are 1: reshaping one into another moves nothing."""
    return max(shape) == math.prod(shape)


def _is_turned(layer: Layer) -> bool:
    """Whether the channels of a pixel become a row or a column of single channels, or these channels."""
    lengths = {layer.input_shapes[0][-1], layer.output_shape[-1]}
    return 1 in lengths and len(lengths) > 1


def _rows(shape: Sequence[int]) -> float:
    """Thousands of rows of the last dimension."""
    return math.prod(shape[:-1]) / 1e3


def _channel_rows(shape: Sequence[int]) -> float:
    """Thousands of rows of each channel."""
    *outer, _, channels = shape
    return math.prod(outer) * channels / 1e3


def _is_depth(layer: Layer) -> bool:
    """Whether a reduction leaves one channel."""
    return layer.output_shape[-1] == 1 < layer.input_shapes[0][-1]
