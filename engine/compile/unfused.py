"""What layers take where nothing is fused (O0): each loads and stores its maps by itself.

A layer waits, and moves amounts: bytes of its maps, padded to whole blocks; rows and elements where it moves data, each
in vectors of its own; and rows of every channel where the layout changes in front of it. A march's data say how many
bytes each amount stands for (:class:`~engine.chips.latency.unfused.UnfusedLayer`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from types import MappingProxyType

from engine.chips.latency import Latency
from engine.chips.latency.unfused import UnfusedLayer
from engine.compile.columns import becomes_column, is_column
from engine.compile.joining import becomes_cut, joins_heads, lies_in_planes, multiplies_heads, restores_map
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.compile.passes import Passes, layer_passes, turns_heads
from engine.compile.singles import lies_joined, scales_rows
from engine.compile.sizes import IMAGE_CHANNELS
from engine.compile.tokens import turns_tokens
from engine.ops.core.costs import OF_WEIGHTS, CostKind

MAPS, ENTERING, LEAVING = "maps", "entering", "leaving"
"""Bytes of what a layer reads and computes, but for int32 results of layers of weights; of what of it comes from
outside; and of such results.
"""
SPLIT, WIDE, WIDE_WEIGHTS = "split", "wide", "wide_weights"
"""Layers of weights whose inputs are int16: each is several layers of bytes; bytes of what they read, and compute
before steps leave most of it out, once more; and of their weights.
"""
BORDERED = "bordered"
"""Bytes, once as int8, of what windows of such layers move more than single taps do: the map with its border twelve
times, for that of the map eight times; and windows.
"""
CUT = "cut"
"""Bytes of what products of heads read and compute."""
STEPPED = "stepped"
"""Bytes of results of which steps, or the parts of large windows, keep few."""
STEPS, ADDED, RAGGED = "steps", "added", "ragged"
"""Pixels of maps of which steps skip some, and of maps that are added up by a layer of weights; rows of pixels of maps
whose rows are no whole blocks.
"""
ROWS, LINES, PLANES, ELEMENTS = "rows", "lines", "planes", "elements"
"""Rows of the last dimension, rows of pixels, rows of each channel, and elements."""
LAID, PIXELS, VECTORS = "laid", "pixels", "vectors"
"""Bytes of rows of each channel with their padding, of a map that lies pixel by pixel in blocks of channels, and of
pixels of which each lies in a vector, or in a quarter of one where its channels are few.
"""
ITEMS, PIECES, STRIPS, BATCH, UNEVEN, HALVES = "items", "pieces", "strips", "batch", "uneven", "halves"
"""What is waited for: rows that are cut into more than three dimensions; runs of elements that are moved by themselves;
rows of planes that are joined, or cut out of joined ones, one after the other; maps of a batch beyond the first, each
of which is loaded and stored by itself; such maps whose channels are no whole blocks; and pixels of maps whose channels
end with half a block.
"""
WAITS = frozenset({ITEMS, PIECES, STRIPS, BATCH, UNEVEN, HALVES, SPLIT})

WANTED = "for_"
"""Beginning of the kinds of maps that are stored once more."""

_FEW = 4
"""Multiple that channels are padded to where they are brought side by side."""
_ROWS, _BLOCK = 2, 8
"""Rows, pixels and channels of a block."""
COMPUTED = OF_WEIGHTS | {CostKind.POOL}
"""Kinds of layers whose work is computed from their windows; others work as long as a part of their transfers."""
_OF_MAPS = 0.5
"""Part of what layers of int16 wait for that each map of a batch waits for: its transfers, not those of weights."""
_IN_VECTOR = 16
"""Pieces of a vector, which rows of pixels are whole numbers of."""
_WITH_BORDER, _WITHOUT = 12, 8
"""Times that maps of bytes of int16 pass with their border, for windows, and without."""
_MAP_RANK = 4
_LARGEST_WINDOW = 9
"""Rows or columns of a window that is computed at once."""
_LEAVING_COLUMNS = OF_WEIGHTS | {CostKind.LUT, CostKind.MOVE}
_BYTE, _WIDE_BITS, _ACCUMULATOR_BITS = 8, 16, 32
_MOVING = frozenset({CostKind.RESHAPE, CostKind.TRANSPOSE})
_CONVOLVING = OF_WEIGHTS - {CostKind.MATMUL}
_SMALL_WINDOW = 3
"""Rows or columns of a window that is computed from a map as it lies."""
_PAIR = 2
_APART = 0.25
"""Part of the work on rows of several heads that become a map which is done for each head."""
_FIRST_OF_ROWS = 0.6
"""Part of the work on an element of a row that those of a block of rows have in common."""
_WANTING = (
    "reduce_rows",
    "reduce_columns",
    "pool_mean_large",
    "pool_mean",
    "pool_large",
    "reduce_depth",
    "resize_uneven",
    "join_uneven",
    "move_uneven",
    "mul_plane",
)
"""Kinds of layers in front of which a map is stored once more."""
_ALIKE: Mapping[str, str] = MappingProxyType(
    {
        # the array reads, works and writes
        "depthwise": "conv",
        "grouped": "conv",
        # the same where a map, or an image, comes from outside
        "conv_stepped_entering": "conv_entering",
        "depthwise_entering": "conv_entering",
        "grouped_entering": "conv_entering",
        "conv_stepped_image": "conv_image",
        "depthwise_image": "conv_image",
        "grouped_image": "conv_image",
        # a map is read and written
        "join": "move",
        "reduce": "move",
        # so are two maps, or constants and a map
        "add_constant": "add",
        "mul": "add",
        "mul_constant": "add",
        # a pixel, or a row, is repeated
        "add_pixel": "mul_pixel",
        "add_row": "mul_row",
        # pixels of maps of any size are repeated
        "resize_uneven": "resize",
        # joined rows of each channel become rows of single channels
        "pixels_laid": "to_pixels",
        # rows of each channel are moved by themselves
        "planes": "join_uneven",
        # whole rows are moved
        "regrouped": "rows_moved",
        "regrouped_deep": "rows_moved",
        # a map is stored once more
        "for_join_uneven": "for_mul_plane",
        "for_reduce_columns": "for_reduce",
        "for_reduce_depth": "for_reduce",
        "for_reduce_rows": "for_reduce",
    }
)
"""Kinds that have the constants of another: what the original shows of both is the same within its error."""

Amounts = Mapping[str, float]
"""What a layer, or a layout change, moves."""


_UNKNOWN = UnfusedLayer(us=0.0, bytes={MAPS: 1.0}, layers=0)
"""What a layer takes of a kind that nobody asked for: its maps are moved once."""
_NOTHING = UnfusedLayer(us=0.0, bytes={}, layers=0)


@dataclass(frozen=True)
class UnfusedCost:
    """What a layer takes besides its weights and its work in the array.

    Attributes:
        wait_us: for which it waits.
        moved: bytes that it loads and stores, half of them each, as its kind tells.
        passes: transfers that are known one by one.
    """

    wait_us: float = 0.0
    moved: float = 0.0
    passes: Passes | None = None

    def __add__(self, other: UnfusedCost) -> UnfusedCost:
        passes = self.passes if other.passes is None else other.passes
        return UnfusedCost(self.wait_us + other.wait_us, self.moved + other.moved, passes)


def unfused_costs(
    layers: Sequence[Layer], latency: Latency, inputs: Collection[str] | None = None
) -> Iterator[UnfusedCost]:
    """The costs of each layer of a subgraph.

    Args:
        layers: in running order.
        latency: of the march.
        inputs: names of the tensors that the subgraph loads; None: all that no layer gives.
    """
    every = unfused_parts(layers, latency.input_row.block, inputs if latency.alone is None else None)
    for layer, parts, passes in zip(layers, every, layer_passes(layers, latency, inputs), strict=True):
        told = parts if passes is None else [part for part in parts[:-1] if not part[0].startswith(WANTED)]
        if passes is not None and layer.kind is CostKind.RESHAPE:
            told = []  # with the change of layout in front
        yield sum((_cost(kind, amounts, latency) for kind, amounts in told), UnfusedCost(passes=passes))


def _cost(kind: str, amounts: Amounts, latency: Latency) -> UnfusedCost:
    found = _constants(kind, latency)
    moved = sum(found.bytes.get(name, 0.0) * amount for name, amount in amounts.items())
    waits = sum(found.waits.get(name, 0.0) * amount for name, amount in amounts.items())
    return UnfusedCost(found.us + waits, moved)


def _constants(kind: str, latency: Latency) -> UnfusedLayer:
    """Those of a kind, or of what it is a special case of."""
    known = latency.unfused_layers
    unknown = _NOTHING if kind.startswith(WANTED) else _UNKNOWN
    while kind and kind not in known:
        kind = kind.rpartition("_")[0]
    return known.get(kind, unknown)


def unfused_parts(
    layers: Sequence[Layer], block: int, inputs: Collection[str] | None = None
) -> Iterator[list[tuple[str, Amounts]]]:
    """The kinds and amounts of each layer: its own last, layout changes first, one for all readers, and that of what
    leaves in two layouts.

    Args:
        layers: of a subgraph, in running order.
        block: pixels of a vector.
        inputs: names of the tensors that the subgraph loads; None: all that no layer gives.
    """
    makers = {layer.output: layer for layer in layers}
    readers: dict[str, list[Layer]] = defaultdict(list)
    for layer in layers:
        for name in layer.inputs:
            readers[name].append(layer)
    changed: set[tuple[str, str]] = set()
    for layer in layers:
        parts: list[tuple[str, Amounts]] = []
        for position in () if becomes_cut(layer, readers) else layer.converted:
            given = makers.get(layer.inputs[position])
            if given is not None and restores_map(given, makers):
                continue
            kind = _conversion(layer, position, given)
            turned = kind != "to_planes" and layer.kind is not CostKind.MATMUL and turns_tokens(layer, position, makers)
            if (layer.inputs[position], kind) not in changed:
                changed.add((layer.inputs[position], kind))
                shape = layer.input_shapes[position]
                tokens = {BATCH: _as_map(shape)[0] - 1, ELEMENTS: math.prod(shape), PIECES: _pixels(shape)}
                amounts = {name: amount for name, amount in _amounts_of_change(kind, shape, block) if amount}
                parts.append(("to_turned", tokens) if turned else (_called(kind), amounts))
        if _turns_values(layer, makers):
            kind = "values" if layer.input_shapes[0][2] > 1 else "value"
            parts.append((kind, {ELEMENTS: math.prod(layer.output_shape)}))
        if layer.copied:
            parts.append(("to_pixels", dict(_amounts_of_change("to_pixels", layer.output_shape, block))))
        wanted = _wanted(layer, readers)
        if wanted:
            parts.append((_called(wanted), dict(_amounts_of_map(layer.output_shape, layer.output_bits))))
        if _leaves_as_column(layer, readers.get(layer.output, ())):
            parts.append(("column_left", {ROWS: _pixels(layer.output_shape)}))
        own = _kind(layer, makers, readers)
        inner = layer.kind not in _CONVOLVING or layer.output_bits >= _ACCUMULATOR_BITS
        if own and not inner and any(_enters(name, makers, inputs) for name in layer.inputs):
            own = f"{own}_image" if layer.input_shapes[0][-1] <= IMAGE_CHANNELS else f"{own}_entering"
        if own:
            parts.append((_called(own), dict(_amounts(layer, makers, readers, block))))
        yield parts


def _called(kind: str) -> str:
    """The kind whose constants ``kind`` has."""
    return _ALIKE.get(kind, kind)


def _wanted(layer: Layer, readers: Mapping[str, Sequence[Layer]]) -> str:
    """What a layer gives a map for besides, where one that reads it wants it in another layout; empty where none does.

    It is stored once more. Layers that move data, and layout changes, have costs of their own.
    """
    if layer.kind in _MOVING:
        return ""
    kinds = {_kind(reader, {}, readers) for reader in readers.get(layer.output, ())}
    if _as_map(layer.output_shape)[3] > 1:
        kinds.discard("mul_plane")
    return next((f"{WANTED}{kind}" for kind in _WANTING if kind in kinds), "")


def _conversion(layer: Layer, position: int, given: Layer | None) -> str:
    """The kind of a layout change in front of a layer that reads what ``given`` computes."""
    if layer.kind in _MOVING:
        return "to_planes"
    return "to_rows" if lies_in_planes(layer, position, given) else "to_pixels"


def _amounts_of_change(kind: str, shape: Sequence[int], block: int) -> Iterator[tuple[str, float]]:
    """What a layout change moves: vectors of rows of each channel, and the map as it lies pixel by pixel.

    Args:
        kind: from :func:`_conversion`.
        shape: what the layer behind it reads.
        block: pixels of a vector.
    """
    if kind != "to_pixels":  # what is read lies in the order of the dimensions
        batch, channels, height, width = _as_map(shape)
        rows = batch * channels * height
        yield ROWS, rows * -(-width // block)
        yield LAID, rows * sum(_padded_widths(width, block))
        yield VECTORS, batch * height * width * _vector(channels, block)
        yield PIXELS, batch * height * width * round_up(channels, _BLOCK)
        yield BATCH, batch - 1
        return
    batch, height, width, channels = _as_map(shape)
    vectors = -(-width // block)
    padded = vectors * block if channels == 1 else sum(_padded_widths(width, block))
    yield ROWS, _few_planes(shape) * vectors
    yield PLANES, batch * height * channels * vectors
    yield LAID, batch * height * channels * padded
    yield PIXELS, batch * height * width * round_up(channels, _BLOCK)
    yield BATCH, batch - 1


def _vector(channels: int, block: int) -> int:
    """Bytes in which the channels of a pixel lie: whole vectors, a quarter of one, or a block."""
    if channels == 1:
        return _BLOCK
    return block // 4 if channels <= 2 * _BLOCK else round_up(channels, block)


def _padded_widths(width: int, block: int) -> Iterator[int]:
    """Pixels of the vectors of a row: whole ones, and a rest that is padded to a power of two."""
    yield width // block * block
    rest = width % block
    yield max(1 << (rest - 1).bit_length(), 2 * _BLOCK) if rest else 0


def _kind(layer: Layer, makers: Mapping[str, Layer], readers: Mapping[str, Sequence[Layer]]) -> str:
    """What a layer's constants are called; empty where nothing is moved."""
    match layer.kind:
        case CostKind.RESHAPE | CostKind.TRANSPOSE:
            return _movement(layer, makers, readers)
        case CostKind.REDUCE | CostKind.POOL if layer.does_nothing:
            return ""
        case CostKind.REDUCE if len(layer.output_shape) > _MAP_RANK:
            return "reduce_deep"
        case CostKind.REDUCE:
            return _reduction(layer, readers)
        case CostKind.MOVE if layer.motion is Motion.NONE:
            return ""
        case CostKind.MOVE if len(layer.output_shape) > _MAP_RANK and layer.input_shapes[0][0] > layer.output_shape[0]:
            return "move_deep"
        case CostKind.POOL if layer.input_bits >= _WIDE_BITS:
            return "pool_wide"
        case CostKind.POOL if not layer.largest_of_windows and layer.kernel[0] > layer.strides[0]:
            return "pool_mean" if max(layer.kernel) <= _SMALL_WINDOW else "pool_mean_large"
        case CostKind.POOL if layer.largest_of_windows and max(layer.kernel) > _SMALL_WINDOW:
            return "pool_large"
        case CostKind.POOL if layer.strides == (1, 1) and max(layer.kernel) > 1:
            return "pool_small"
        case CostKind.RESIZE if _is_in_blocks(layer.input_shapes[0]):
            return CostKind.RESIZE.value
        case CostKind.RESIZE:
            return "resize_uneven"
        case CostKind.MUL if scales_rows(layer, makers):
            return "mul_plane_singles"
        case CostKind.MUL | CostKind.ADD if len(layer.inputs) == 1:
            return f"{layer.kind.value}_constant"
        case CostKind.MUL | CostKind.ADD if len({_as_map(shape) for shape in layer.input_shapes}) > 1:
            return f"{layer.kind.value}_{_broadcast(layer)}"
        case CostKind.MOVE if _skips(layer):
            return "move_stepped"
        case CostKind.JOIN | CostKind.MOVE if _is_uneven(layer):
            return f"{layer.kind.value}_uneven"
        case CostKind.CONV if layer.spread != (1, 1):
            return "conv_dilated"
        case CostKind.CONV if max(layer.kernel) > _LARGEST_WINDOW:
            return "conv_large"
        case CostKind.CONV if layer.stepped_shape != layer.output_shape:
            return "conv_stepped"
        case _ if layer.kind in _CONVOLVING and layer.output_bits >= _ACCUMULATOR_BITS:
            return CostKind.CONV.value
        case CostKind.MATMUL if multiplies_heads(layer):
            return "product_kept"
        case CostKind.MATMUL if len(layer.inputs) == 1:
            return CostKind.CONV.value
        case CostKind.MATMUL:
            return "product"
        case _:
            return layer.kind.value


def _reduction(layer: Layer, readers: Mapping[str, Sequence[Layer]]) -> str:
    """The kind of a reduction: to one pixel, to a row, to a column, or to one channel, which sums may take as it is."""
    before, after = _as_map(layer.input_shapes[0]), _as_map(layer.output_shape)
    if before[1:3] == after[1:3]:
        reading = {reader.kind for reader in readers.get(layer.output, ())}
        return "reduce" if reading == {CostKind.ADD} or before[3] == after[3] else "reduce_depth"
    if after[1:3] == (1, 1) and min(before[1:3]) > 1:
        return "reduce"
    return "reduce_columns" if after[1] < before[1] else "reduce_rows"


def _broadcast(layer: Layer) -> str:
    """What a sum or product repeats of the smaller of two maps."""
    small = min((_as_map(shape) for shape in layer.input_shapes), key=math.prod)
    if small[1:3] == (1, 1):
        return "pixel"
    return "plane" if small[3] == 1 else "row"


def _is_in_blocks(shape: Sequence[int]) -> bool:
    """Whether rows and channels of a map are whole blocks, or a power of two of these."""
    _, _, width, channels = _as_map(shape)
    blocks = -(-channels // _BLOCK)
    return width % _BLOCK == 0 and blocks & (blocks - 1) == 0


def _movement(layer: Layer, makers: Mapping[str, Layer], readers: Mapping[str, Sequence[Layer]]) -> str:
    before = makers.get(layer.inputs[0])
    windows = before is not None and before.kind is CostKind.TRANSPOSE and before.motion is Motion.PIXELS
    same_rows = layer.input_shapes[0][-1] == layer.output_shape[-1]
    if layer.kind is CostKind.RESHAPE:
        if windows:
            return Motion.PIXELS.value
        if same_rows:
            if becomes_column(layer):
                return "rows_moved_column"
            deep = "_deep" if len(layer.input_shapes[0]) > _MAP_RANK else ""
            return f"regrouped{deep}" if _is_regrouped(layer) else ""
    elif layer.motion is Motion.VIEW or (before is not None and before.motion is Motion.COLUMNS):
        return ""  # nothing is moved, or it is with the rows that are cut in front
    attending = _of_attention(layer, makers, readers)
    if attending is not None:
        return attending
    if layer.motion is Motion.BLOCKS and layer.output_shape[1] > _PAIR * layer.input_shapes[0][1]:
        return "blocks"
    if layer.motion is Motion.ROWS and len(layer.output_shape) > _MAP_RANK and not same_rows:
        return "rows_turned_deep"
    if before is not None and before.kind is CostKind.LUT and turns_heads(layer):
        return "rows_turned_heads"
    if layer.motion in {Motion.ROWS, Motion.BLOCKS, Motion.FOLDED}:
        few = layer.kind is CostKind.TRANSPOSE and before is None and 1 < layer.output_shape[-1] <= _FEW
        return f"rows_moved{'_few' * few}" if same_rows else "rows_turned"
    if _cuts_deep(layer):
        return "elements_deep"
    if layer.motion is Motion.VIEW and _as_map(layer.input_shapes[0])[0] > _as_map(layer.output_shape)[0]:
        return "view_of_batch"
    if layer.motion is Motion.VIEW and _cuts_rows(layer):
        return "view_cut"
    if layer.motion is Motion.LAID and layer.input_shapes[0][0] > 1:
        return "laid_batch"
    if layer.kind is CostKind.RESHAPE and _joins_planes(layer):
        return "planes_joined"
    if before is not None and before.kind is CostKind.TRANSPOSE:
        joined = makers.get(before.inputs[0])
        if joined is not None and becomes_cut(joined, readers):
            return "tokens_cut"
    if layer.kind is CostKind.RESHAPE and _cuts_planes(layer, readers):
        return "planes_cut"
    if layer.kind is CostKind.RESHAPE and _is_line(layer):
        return "line"
    if layer.motion is Motion.ELEMENTS and layer.kind is CostKind.TRANSPOSE and len(layer.output_shape) > _MAP_RANK:
        return "heads_turned" if layer.input_shapes[0][0] == 1 else Motion.ELEMENTS.value
    return "" if layer.motion in (Motion.NONE, Motion.LAID) else layer.motion.value


def _amounts(
    layer: Layer, makers: Mapping[str, Layer], readers: Mapping[str, Sequence[Layer]], block: int
) -> Iterator[tuple[str, float]]:
    if layer.motion is Motion.HEADS or (layer.kind is CostKind.RESHAPE and _cuts_planes(layer, readers)):
        elements, width = math.prod(layer.output_shape), layer.output_shape[-1]
        heads = layer.input_shapes[0][1] if layer.motion is Motion.SPREAD else 1
        share = _APART + (1 - _APART) / heads
        yield ELEMENTS, elements * share
        yield STRIPS, elements / width * share
        yield ROWS, elements / width
        return
    if lies_joined(layer, readers.get(layer.output, ())):
        yield from _amounts_of_change("to_pixels", layer.output_shape, block)
        return
    if scales_rows(layer, makers):
        yield ELEMENTS, math.prod(layer.output_shape)
    if layer.kind in _MOVING and _is_line(layer):
        yield ELEMENTS, _line_elements(layer.input_shapes[0])
        yield BATCH, max(_as_map(shape)[0] for shape in (layer.input_shapes[0], layer.output_shape)) - 1
        return
    if layer.kind in _MOVING:
        yield ELEMENTS, math.prod(layer.output_shape)
        yield PIECES, math.prod(layer.output_shape) // math.gcd(layer.input_shapes[0][-1], layer.output_shape[-1])
        if _cuts_deep(layer):
            yield ITEMS, math.prod(layer.input_shapes[0][:-1])
            return
        yield BATCH, max(_as_map(shape)[0] for shape in (layer.input_shapes[0], layer.output_shape)) - 1
        if _joins_planes(layer):
            yield STRIPS, max(math.prod(shape[:-1]) for shape in (layer.input_shapes[0], layer.output_shape))
            return
        yield ROWS, max(math.prod(shape[:-1]) for shape in (layer.input_shapes[0], layer.output_shape))
        yield PIXELS, _pixels(layer.output_shape) * round_up(layer.output_shape[-1], _BLOCK)
        if layer.motion is Motion.ELEMENTS:
            return
        yield LINES, _lines(layer)
        yield PLANES, _planes(layer.input_shapes[0])
        yield MAPS, _padded(layer.output_shape) * layer.output_bits / 8
        return
    maps = [*layer.input_shapes, layer.output_shape]
    if multiplies_heads(layer):
        yield ITEMS, math.prod(layer.output_shape[:-2])
        yield ELEMENTS, math.prod(layer.output_shape)
        return
    if layer.kind is CostKind.MATMUL and len(layer.inputs) > 1:
        yield from _amounts_of_product(layer)
        return
    further = max(_as_map(shape)[0] for shape in maps) - 1
    yield BATCH, further
    yield UNEVEN, further * any(shape[-1] % _BLOCK for shape in maps)
    row = max(block // _IN_VECTOR, _BLOCK)
    sizes = [_padded(shape, row) * layer.input_bits / 8 for shape in layer.input_shapes]
    read = sum(sizes)
    written = _padded(layer.output_shape, row) * layer.output_bits / 8
    leaves = layer.output_bits >= _ACCUMULATOR_BITS
    leaves &= layer.kind in OF_WEIGHTS
    yield MAPS, read + written * (not leaves)
    if layer.stepped_shape != layer.output_shape or max(layer.kernel) > _LARGEST_WINDOW:
        yield STEPPED, _padded(layer.stepped_shape, row) * layer.output_bits / 8
    if leaves:
        yield LEAVING, written
    if layer.kind in OF_WEIGHTS:
        yield ENTERING, sum(compress(sizes, [_enters(name, makers) for name in layer.inputs]))
    if layer.input_bits >= _WIDE_BITS:
        if layer.kind in OF_WEIGHTS:
            yield SPLIT, 1 + _OF_MAPS * further
            yield WIDE_WEIGHTS, layer.weight_bytes
            yield BORDERED, _bordered(layer, row)
            computed = (*layer.input_shapes[0][:-1], layer.output_shape[-1])
            written = max(written, _padded(computed, row) * layer.output_bits / 8)
        yield WIDE, read + written * (not leaves)
    yield PLANES, max(map(_planes, maps))
    yield LINES, _lines(layer)
    yield RAGGED, sum(math.prod(_as_map(shape)[:2]) for shape in maps if _as_map(shape)[2] % _BLOCK)
    yield HALVES, sum(_pixels(shape) for shape in maps if 0 < shape[-1] % _BLOCK <= _BLOCK // 2)
    if layer.kind in OF_WEIGHTS:
        yield STEPS, _pixels(layer.input_shapes[0]) if max(layer.strides) > 1 else 0
        yield ADDED, sum(map(_pixels, layer.input_shapes[1:]))


def _bordered(layer: Layer, pixels: int) -> int:
    """Bytes that windows of int16 move besides, where maps of bytes get their border on the way.

    Args:
        layer: of weights.
        pixels: multiple that rows are padded to.
    """
    batch, height, width, channels = _as_map(layer.input_shapes[0])
    if layer.kind not in _CONVOLVING or max(layer.kernel) == 1:
        return 0
    down, right = (tap - 1 for tap in layer.kernel)
    bordered = (height + down) * round_up(width + right, pixels)
    plain = height * round_up(width, pixels)
    return batch * round_up(channels, _BLOCK) * (_WITH_BORDER * bordered - _WITHOUT * plain)


def _amounts_of_product(layer: Layer) -> Iterator[tuple[str, float]]:
    """What a product of two maps moves: each matrix is a map of one row, and is loaded and stored by itself; where
    there are heads, each is cut out of what lies side by side.
    """
    *matrices, rows, columns = layer.output_shape
    count, depth = math.prod(matrices), layer.input_shapes[0][-1]
    wide, leaves = layer.input_bits // 8, layer.output_bits >= _ACCUMULATOR_BITS
    yield BATCH, count - 1
    yield UNEVEN, count if matrices and matrices[-1] > 1 else 0
    written = count * _padded((1, rows, columns)) * layer.output_bits / 8
    moved = count * (_padded((1, rows, depth)) + _padded((1, depth, columns))) * wide + written * (not leaves)
    yield MAPS, moved
    yield CUT, moved if matrices and matrices[-1] > 1 else 0
    yield LEAVING, written * leaves
    yield PLANES, count * (depth + columns)
    yield ROWS, count * (rows + depth)


def _amounts_of_map(shape: Sequence[int], bits: int) -> Iterator[tuple[str, float]]:
    """What a map moves that is stored once more."""
    yield MAPS, _padded(shape) * bits / 8
    yield PLANES, _planes(shape)
    yield ROWS, math.prod(_as_map(shape)[:3])
    yield BATCH, _as_map(shape)[0] - 1


def _leaves_as_column(layer: Layer, readers: Sequence[Layer]) -> bool:
    """Whether a column of pixels leaves, or becomes a map, behind a table, a slice or a layer of weights."""
    if layer.kind not in _LEAVING_COLUMNS or not is_column(layer.output_shape) or layer.output_bits > _BYTE:
        return False
    maps = (reader.output_shape for reader in readers if reader.kind is CostKind.RESHAPE)
    return layer.leaves or any(len(shape) == _MAP_RANK and shape[2] > 1 < shape[1] for shape in maps)


def _is_regrouped(layer: Layer) -> bool:
    """Whether rows of the same length lie in another number of rows or columns of a map."""
    before, after = layer.input_shapes[0], layer.output_shape
    return max(len(before), len(after)) <= _MAP_RANK + 1 and _as_map(before)[1:3] != _as_map(after)[1:3]


def _of_attention(layer: Layer, makers: Mapping[str, Layer], readers: Mapping[str, Sequence[Layer]]) -> str | None:
    """The kind of a movement of heads or of single elements, empty where it moves nothing; None of others.

    Heads that a product of the subgraph takes are taken as they lie; those that leave are cut out.
    """
    before = makers.get(layer.inputs[0])
    if layer.kind is CostKind.RESHAPE:
        if layer.motion is Motion.HEADS:
            leaving = any(reader.leaves for reader in readers.get(layer.output, ()))
            return "planes_cut" if leaving else ""
        joins = before is not None and joins_heads(before, makers, readers)
        return "" if joins or restores_map(layer, makers) else None
    if joins_heads(layer, makers, readers):
        return ""
    if _turns_pixels(layer):
        return "pixels_laid" if lies_joined(layer, readers.get(layer.output, ())) else "pixels_turned"
    single = layer.motion is Motion.NONE and layer.input_shapes[0][-1] == 1 < layer.output_shape[-1]
    return "singles_joined" if single else None


def _cuts_rows(layer: Layer) -> bool:
    """Whether a reshape that leaves the order of elements cuts rows into shorter ones, of heads or of maps."""
    before, after = layer.input_shapes[0][-1], layer.output_shape[-1]
    return layer.kind is CostKind.RESHAPE and before > after > 1 and before % after == 0


def _turns_values(layer: Layer, makers: Mapping[str, Layer]) -> bool:
    """Whether a reshape makes a map of the values of attention, which were cut out of queries, keys and values."""
    before, made = layer.input_shapes[0], makers.get(layer.inputs[0])
    views = layer.kind is CostKind.RESHAPE and layer.motion is Motion.VIEW and 0 in layer.converted
    both = len(before) == len(layer.output_shape) == _MAP_RANK
    return views and both and (made is None or made.kind is CostKind.MOVE)


def _turns_pixels(layer: Layer) -> bool:
    """Whether the channels of each pixel become rows of single channels, element by element."""
    single = layer.motion is Motion.ELEMENTS and len(layer.output_shape) <= _MAP_RANK
    return single and layer.output_shape[-1] == 1 < layer.input_shapes[0][-1]


def _joins_planes(layer: Layer) -> bool:
    """Whether rows hold several planes of a map (NCHW), or are cut into such."""
    planes, rows = sorted((layer.input_shapes[0], layer.output_shape), key=lambda shape: shape[-1])
    *_, height, width = (1, *planes)
    return layer.motion is Motion.ELEMENTS and len(planes) == _MAP_RANK and width > 1 < height < rows[-1] / width


def _cuts_planes(layer: Layer, readers: Mapping[str, Sequence[Layer]]) -> bool:
    """Whether rows, of heads or not, are cut into the rows of a map (NCHW), which layers read pixel by pixel."""
    before, after = layer.input_shapes[0], layer.output_shape
    if len(after) != _MAP_RANK or after[0] > 1 or min(after[1:]) == 1:
        return False
    if before[-1] != after[2] * after[3] or layer.motion is not Motion.ELEMENTS:
        return layer.motion is Motion.SPREAD
    reading = readers.get(layer.output, ())
    pixels = (reader.inputs[position] == layer.output for reader in reading for position in reader.converted)
    return len(before) == _MAP_RANK or any(pixels)


def _is_line(layer: Layer) -> bool:
    """Whether elements become rows of single channels, or such rows those of several elements."""
    before, after = layer.input_shapes[0], layer.output_shape
    if len(before) > _MAP_RANK:
        return layer.motion is Motion.VIEW and after[-1] == 1 < before[-1]
    return layer.motion is Motion.ELEMENTS and 1 in (before[-1], after[-1]) and len(after) <= _MAP_RANK


def _line_elements(shape: Sequence[int]) -> float:
    """Elements that are moved one at a time; where rows of single channels are left, two lie in a block of rows."""
    batch, height, width, channels = _as_map(shape)
    pairs = -(-height // _ROWS)
    if channels > 1:
        return math.prod(shape)
    return batch * width * (_FIRST_OF_ROWS * pairs + (1 - _FIRST_OF_ROWS) * height)


def _cuts_deep(layer: Layer) -> bool:
    """Whether a reshape cuts rows into more than three dimensions, element by element: of maps, only some."""
    tokens = 1 in _as_map(layer.input_shapes[0])[1:3]
    single = layer.motion is Motion.ELEMENTS or (layer.motion is Motion.TURNED and tokens)
    return layer.kind is CostKind.RESHAPE and single and len(layer.output_shape) > _MAP_RANK


def _enters(name: str, makers: Mapping[str, Layer], inputs: Collection[str] | None = None) -> bool:
    """Whether a tensor comes from outside, perhaps in another shape."""
    maker = makers.get(name)
    while maker is not None and maker.kind is CostKind.RESHAPE and maker.motion in (Motion.VIEW, Motion.NONE):
        name = maker.inputs[0]
        maker = makers.get(name)
    return maker is None and (inputs is None or name in inputs)


def _skips(layer: Layer) -> bool:
    """Whether a slice keeps every second pixel of a row."""
    before, after = _as_map(layer.input_shapes[0]), _as_map(layer.output_shape)
    return before[3] == after[3] and before[2] == _PAIR * after[2]


def _is_uneven(layer: Layer) -> bool:
    """Whether a part of a concatenation, or a slice, begins or ends within a block of channels."""
    depths = {shape[-1] for shape in (*layer.input_shapes, layer.output_shape)}
    return len(depths) > 1 and any(depth % _BLOCK for depth in depths)


def _lines(layer: Layer) -> int:
    """Rows of pixels of what a layer reads; of DepthToSpace once for each pixel of a block."""
    lines = math.prod(_as_map(layer.input_shapes[0])[:2])
    if layer.motion is not Motion.BLOCKS:
        return lines
    return lines * math.prod(layer.output_shape[:-1]) // math.prod(layer.input_shapes[0][:-1])


def _pixels(shape: Sequence[int]) -> int:
    """Pixels of a map, or of a batch of maps."""
    return math.prod(_as_map(shape)[:3])


def _planes(shape: Sequence[int]) -> int:
    """Rows of pixels of each channel (NHWC)."""
    batch, height, _, channels = _as_map(shape)
    return batch * height * channels


def _few_planes(shape: Sequence[int]) -> int:
    """Rows of pixels of each channel, of four channels at least."""
    batch, height, _, channels = _as_map(shape)
    return batch * height * round_up(channels, _FEW)


def _padded(shape: Sequence[int], row: int = _BLOCK) -> int:
    """Elements of a map with its padding to whole blocks; rows of pixels to multiples of ``row``."""
    batch, height, width, channels = _as_map(shape)
    return batch * round_up(height, _ROWS) * round_up(width, row) * round_up(channels, _BLOCK)


def _as_map(shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` in four dimensions."""
    return (*(1,) * (4 - len(shape)), *shape) if len(shape) <= 4 else (math.prod(shape[:-3]), *shape[-3:])
