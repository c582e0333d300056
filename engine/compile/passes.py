"""What layers load and store at O0, transfer by transfer.

Nothing stays on the chip between layers there: each loads its maps, whole blocks of rows, pixels and channels, its
weights and its parameters, and stores what it computes. A transfer waits, whatever it moves. What a kind of layer does
in several steps (a product joins its two maps before it multiplies them) passes through DDR between them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.chips.latency import Latency
from engine.chips.latency.unfused import Alone
from engine.compile.columns import is_column
from engine.compile.joining import (
    JOINED_BITS,
    becomes_cut,
    joins_pixels,
    joins_rows,
    lies_in_planes,
    multiplies_heads,
)
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.compile.singles import lies_joined, scales_rows
from engine.compile.sizes import ddr_bytes, row_width
from engine.ops.core.costs import CostKind

_NARROW_BITS, _ACCUMULATOR_BITS = 8, 32
_MAP_RANK = 4
_BLOCK, _FEW = 8, 4
"""Channels of a block, and of one of twice as many pixels."""
_ROWS = _WIDE_CHANNELS = 2
"""Rows of a block, and multiple that the channels of an int32 result are padded to."""
_WHOLE_TAPS = 8
"""Windows of more taps are read in blocks of few channels where that is less."""
_WHOLE_WINDOW, _LARGEST_WINDOW = 5, 9
_BORDERED = 1.9
"""How often a map and its border pass through DDR in front of a window of more than five rows or columns."""
_ARRAY = frozenset({CostKind.CONV, CostKind.DEPTHWISE, CostKind.GROUPED})
_SMALL_WINDOW = 3
_SUMS = frozenset({CostKind.ADD, CostKind.MUL})
_RESIZED_CHANNELS = 16
"""Most channels that are resized as they lie."""
_LEAVING_FEW = _ARRAY | {CostKind.RESIZE, CostKind.TRANSPOSED}
"""Kinds of layers that leave blocks of few channels by themselves."""
_BITS = frozenset({8, 16, 32})
_LINE_TRANSFERS = 15
"""Of a mean over rows or columns, which is taken in five steps."""
_FOURTHS, _HALVES = 0.33, 0.6
"""What steps leave of rows that are added up, all together: fourths of powers of two, or halves."""
_SPLITTING = "Split"
"""Operator of a layer that gives several parts."""
_MOVING = frozenset({CostKind.RESHAPE, CostKind.TRANSPOSE})
_WINDOWED = frozenset({CostKind.CONV, CostKind.DEPTHWISE})
_SLOPE_PASSES, _SLOPE_TRANSFERS = (8, 7), 18
"""How often a layer of slopes loads and stores its map, and in how many transfers."""
_PICKED_SECOND, _PICKED_FOURTH = (2, 1.25), (7, 4.78)
"""Transfers, and how often they are loaded and stored besides, of results of which steps keep each second, or fewer, of
what comes from outside; ...
"""
_PAIR = 2
"""Distance of taps that is a step."""
_PAIR_TRANSFERS, _PHASE_TRANSFERS, _BORDER_TRANSFERS = 16, 7, 3.5
"""Of a dilated convolution whose taps are two apart; of each phase of others, and where maps get borders for it."""
_FOLDED_TRANSFERS, _UNEVEN_TRANSFERS = 8, 26
"""Of pixels that become channels, or channels that become blocks of two pixels, whole blocks of channels or not."""
_FOLDED_PIXEL, _FOLDED_LINES = (44, 29), 9.3
"""Bytes, each way, of a pixel that becomes channels (in vectors, or not), and lines of each row of a channel."""
_CUBE_MAPS, _CUBE_TRANSFERS = 33, 75
"""How often the map of larger blocks is moved as it lies, and in how many transfers."""
_SORTED_TRANSFERS = 12
"""Of each phase where pixels lie in vectors elsewhere."""
_PICKED_INSIDE = 2.0
"""... and of other maps."""
_VECTOR = 256
"""Bytes of a vector in which a map is turned that reshapes lay out channel by channel."""
_TURNED_PASSES = 2.4
"""How often such a map is moved that two means want, one in vectors and one channel by channel."""
_SINGLE_TRANSFERS, _SINGLE_BYTES = 6, 450
"""Of each pixel of a map of one channel that a reshape joins to a row: transfers, and bytes loaded and stored."""


@dataclass(frozen=True)
class Passes:
    """What a layer moves besides its weights and parameters.

    Attributes:
        transfers: all of them, those of weights and parameters too.
        loaded: bytes.
        stored: bytes.
        pixels: that are brought into vectors of their own, or out of them.
    """

    transfers: float = 0
    loaded: float = 0
    stored: float = 0
    pixels: float = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(
            self.transfers + other.transfers,
            self.loaded + other.loaded,
            self.stored + other.stored,
            self.pixels + other.pixels,
        )


def layer_passes(
    layers: Sequence[Layer], latency: Latency, inputs: Collection[str] | None = None
) -> Iterator[Passes | None]:
    """The passes of each layer of a subgraph; None of a kind of which they are not known.

    Args:
        layers: in running order.
        latency: of the march.
        inputs: names of the tensors that the subgraph loads; None: all that no layer gives.
    """
    if latency.alone is None:
        yield from (None for _ in layers)
        return
    given = {name for layer in layers for name in layer.inputs} if inputs is None else inputs
    subgraph = _Subgraph(layers, latency, latency.alone, given)
    for layer in layers:
        yield subgraph.passes(layer)


class _Subgraph:
    """Layers, who makes and reads their maps, and which maps have been rearranged."""

    def __init__(self, layers: Sequence[Layer], latency: Latency, alone: Alone, inputs: Collection[str]) -> None:
        self._latency, self._alone, self._inputs = latency, alone, set(inputs)
        self._makers = {layer.output: layer for layer in layers}
        self._readers: Mapping[str, list[Layer]] = defaultdict(list)
        for layer in layers:
            for name in layer.inputs:
                self._readers[name].append(layer)
        self._entered: set[str] = set()
        self._planar: set[str] = set()

    def passes(self, layer: Layer) -> Passes | None:
        found = self._own(layer)
        if found is None:
            return None
        found += self._laid_for_readers(layer)
        return sum((self._entering(name, layer) for name in dict.fromkeys(layer.inputs)), found)

    def _laid_for_readers(self, layer: Layer) -> Passes:
        """A map of which a reader wants rows or columns is stored once more, so that those lie by themselves."""
        shape = layer.output_shape
        readers = self._readers.get(layer.output, ())
        if math.prod(shape[:-1]) == 1 or not readers:
            return Passes()
        if layer.output_bits in JOINED_BITS and any(map(self._joins_rows, readers)):
            return Passes(2, self._laid(layer.output, shape) * layer.output_bits / 8, self._vectors(shape))
        if layer.output_bits != _NARROW_BITS:
            return Passes()
        if layer.kind not in _LEAVING_FEW and self._is_few(layer.output):
            blocks = _padded(shape, self._alone.pixels, _BLOCK)  # stored as such first
            return Passes(2, blocks, blocks)
        if layer.kind is CostKind.LUT and any(turns_heads(reader) for reader in readers):
            vectors = math.prod(shape[:-1]) * self._latency.input_row.block
            return Passes(2, self._laid(layer.output, shape), vectors)
        turned = any(
            reader.kind in _MOVING and position in reader.converted and name == layer.output
            for reader in readers
            if not becomes_cut(reader, self._readers)
            for position, name in enumerate(reader.inputs)
        )
        if turned:
            return Passes(2, self._laid(layer.output, shape), self._vectors(shape))
        if layer.kind in _ARRAY and any(_reads_planes(reader, layer) for reader in readers):
            return Passes(2, self._laid(layer.output, shape), self._plane(shape))
        if layer.kind in _ARRAY and any(
            _cuts_or_turns_tokens(reader) or _scales_elements(reader) for reader in readers
        ):
            return Passes(2, self._laid(layer.output, shape), self._pixels(shape))
        found = Passes()
        if any(map(_reduces_rows, readers)):
            found += Passes(2, self._laid(layer.output, shape), self._rows(shape))
        if any(_reduces_columns(reader) or _shuffles(reader) for reader in readers):
            found += Passes(2, self._laid(layer.output, shape), self._plane(shape))
        if any(map(_adds_pixels, readers)):
            found += Passes(2, self._laid(layer.output, shape), self._pixels(shape), math.prod(shape[:-1]))
        return found

    def _vectors(self, shape: Sequence[int]) -> float:
        """Bytes of a map whose pixels, or rows of each channel, lie in vectors."""
        if not self._alone.pixel_vectors:
            return self._plane(shape)
        return math.prod(shape[:-1]) * round_up(shape[-1], _VECTOR)

    def _rows(self, shape: Sequence[int]) -> float:
        """Bytes of a map whose rows of pixels are added up: each pixel lies in a vector, where these fit the chip.

        Where the lines of planes are short, an element takes no more than one of these.
        """
        pixels = self._pixels(shape)
        if self._alone.pixel_vectors:
            return min(self._vectors(shape), math.prod(shape) * self._alone.plane_pixels)
        return pixels if pixels <= self._latency.map_bytes else self._plane(shape)

    def _joins_rows(self, layer: Layer) -> bool:
        readers = self._readers.get(layer.output, ())
        turning = [reader for reader in readers if reader.kind is CostKind.TRANSPOSE]
        return joins_rows(layer) and all(lies_joined(each, self._readers.get(each.output, ())) for each in turning)

    def _joined_rows(self, layer: Layer) -> Passes:
        """Rows of each channel of a map become one row: the map is turned in vectors, and passes through DDR often."""
        _, channels, height, width = layer.input_shapes[0]
        alone, size = self._alone, layer.output_bits // 8
        pixels = height * width * round_up(channels * size, _VECTOR)
        rows = channels * height * round_up(width * size, _VECTOR)
        again = alone.joined_passes * size * height * width * round_up(channels, _BLOCK)
        turned = pixels if alone.pixel_vectors else rows
        moved = turned + pixels + again + rows * (not alone.pixel_vectors)
        return Passes(2 + alone.joined_transfers, moved, moved)

    def _own(self, layer: Layer) -> Passes | None:
        if any(len(shape) > _MAP_RANK for shape in _shapes(layer)) or layer.output_bits not in _BITS:
            return None
        if layer.does_nothing:
            return None
        if layer.kind is CostKind.LUT:
            return self._looked_up(layer)
        if self._joins_rows(layer):
            return self._joined_rows(layer)
        if joins_pixels(layer):
            pixels = math.prod(layer.input_shapes[0])
            return Passes(8 + _SINGLE_TRANSFERS * pixels, _SINGLE_BYTES * pixels, _SINGLE_BYTES * pixels)
        if layer.input_bits != _NARROW_BITS:
            return None
        match layer.kind:
            case kind if kind in _ARRAY:
                return self._of_weights(layer)
            case CostKind.MATMUL if len(layer.inputs) == 1 and not multiplies_heads(layer):
                return self._of_weights(layer)
            case _ if layer.output_bits != _NARROW_BITS:
                return None
            case CostKind.TRANSPOSED if layer.group == 1 and layer.strides[0] > 1:
                return self._by_phases(layer)
            case CostKind.POOL if not layer.largest_of_windows:
                return self._averaged(layer)
            case CostKind.POOL if layer.strides == (1, 1) or max(layer.kernel) <= _SMALL_WINDOW:
                return self._moved(layer, 0) + self._grown(layer)
            case CostKind.POOL if layer.kernel == layer.strides:
                return self._moved(layer, 0)
            case CostKind.RESIZE:
                return self._resized(layer)
            case CostKind.JOIN | CostKind.MOVE:
                return self._parts(layer)
            case CostKind.ADD if layer.rescales:
                return self._moved(layer, 2)
            case CostKind.MUL if scales_rows(layer, self._makers):
                return None
            case CostKind.MUL | CostKind.ADD:
                return self._joined_before(layer)
            case CostKind.REDUCE:
                return self._reduced(layer)
            case CostKind.TRANSPOSE if _shuffles(layer):
                planar = self._plane(layer.output_shape)
                return Passes(4, 2 * planar, planar + self._laid(layer.output, layer.output_shape))
            case CostKind.TRANSPOSE if layer.motion is Motion.BLOCKS and self._knows_blocks(layer):
                return self._in_blocks(layer)
            case CostKind.TRANSPOSE if layer.motion is Motion.FOLDED:
                return self._folded(layer)
            case CostKind.SLOPE:
                size = self._laid(layer.output, layer.output_shape)
                return Passes(_SLOPE_TRANSFERS, _SLOPE_PASSES[0] * size, _SLOPE_PASSES[1] * size)
            case _:
                return None

    def _knows_blocks(self, layer: Layer) -> bool:
        """Whether it is known how channels become blocks of pixels: where pixels lie in no vectors, or none is cut."""
        pairs = layer.output_shape[1] == _PAIR * layer.input_shapes[0][1]
        return not self._alone.pixel_vectors or (pairs and layer.output_shape[-1] % _BLOCK == 0)

    def _in_blocks(self, layer: Layer) -> Passes:
        """Channels become blocks of pixels: whole blocks of channels as they lie, others pixel by pixel and row by row,
        larger blocks than of two pixels once for each of their pixels and once besides.
        """
        before, after = layer.input_shapes[0], layer.output_shape
        block = after[1] // before[1]
        size = _padded(after, self._alone.pixels, _BLOCK)
        if block > _PAIR:
            moved = (block * block + 1) * self._pixels(after) + _CUBE_MAPS * size
            return Passes(_CUBE_TRANSFERS, moved, moved)
        if after[-1] % _BLOCK == 0:
            return Passes(_FOLDED_TRANSFERS, 6 * size, 6 * size)
        read = _padded(before, self._alone.pixels, _BLOCK)
        moved = 5 * read + self._pixels(before) + 4 * self._plane(after)
        return Passes(_UNEVEN_TRANSFERS, moved, moved)

    def _folded(self, layer: Layer) -> Passes:
        """Pixels become channels: whole blocks of channels as they lie, others pixel by pixel, where pixels lie in no
        vectors row by row of each channel besides.
        """
        before = layer.input_shapes[0]
        size = _padded(before, self._alone.pixels, _BLOCK)
        if before[-1] % _BLOCK == 0:
            return Passes(_FOLDED_TRANSFERS, 8 * size, 5 * size)
        batch, height, width, channels = _as_map(before)
        if self._alone.pixel_vectors:
            moved: float = _FOLDED_PIXEL[0] * batch * height * width
        else:
            rows = _FOLDED_LINES * channels * self._alone.plane_pixels
            moved = batch * height * (rows + _FOLDED_PIXEL[1] * width)
        return Passes(_UNEVEN_TRANSFERS, moved, moved)

    def _moved(self, layer: Layer, constants: int) -> Passes:
        """Each map once."""
        count = sum(_maps(shape) for shape in _shapes(layer))
        return Passes(count + constants, self._read(layer), self._laid(layer.output, layer.output_shape))

    def _read(self, layer: Layer) -> float:
        return sum(self._laid(name, shape) for name, shape in zip(layer.inputs, layer.input_shapes, strict=True))

    def _looked_up(self, layer: Layer) -> Passes:
        """A table; a plane that a product repeats is laid out channel by channel behind it."""
        count = _maps(layer.output_shape)
        read, size = self._read(layer), self._laid(layer.output, layer.output_shape)
        found = Passes(2 * count + 1, read * layer.input_bits / 8, size * layer.output_bits / 8)
        if layer.leaves and layer.output_bits > _NARROW_BITS:
            left = ddr_bytes(layer.output_shape, layer.output_bits, self._latency.output_row)
            found += Passes(2 * count, size * layer.output_bits / 8, left)
        if self._repeats(layer):
            found += Passes(2 * count, size, self._plane(layer.output_shape))
        return found

    def _repeats(self, layer: Layer) -> bool:
        """Whether a sum or product repeats the plane that ``layer``, no mean, leaves."""
        plane = layer.output_shape[-1] == 1 < math.prod(layer.output_shape)
        readers = self._readers.get(layer.output, ())
        return (
            plane
            and layer.kind is not CostKind.REDUCE
            and any(reader.kind in _SUMS and reader.output_shape != layer.output_shape for reader in readers)
        )

    def _averaged(self, layer: Layer) -> Passes:
        """Windows of 3 x 3 are those of maxima; others are added up pixel by pixel, each pixel in a vector."""
        if layer.kernel == (3, 3):
            return self._moved(layer, 0)
        count, size = _maps(layer.output_shape), self._laid(layer.output, layer.output_shape)
        computed = self._pixels(layer.output_shape)
        read = sum(map(self._pixels, layer.input_shapes))
        return Passes(4 * count, read + computed, computed + size)

    def _pixels(self, shape: Sequence[int]) -> float:
        """Bytes of a map whose pixels lie one by one, the channels of each as a line of a plane."""
        return math.prod(shape[:-1]) * round_up(shape[-1], self._alone.plane_pixels)

    def _grown(self, layer: Layer) -> Passes:
        """Large windows are taken in steps of 3 x 3: a map passes through DDR with its border, and after each."""
        steps = (max(layer.kernel) - 1) // 2
        *_, height, width, channels = _as_map(layer.output_shape)
        borders = [*range(2, 2 * steps, 2), 2 * (steps - 1)] if steps > 1 else []
        sizes = [
            _padded((1, height + border, width + border, channels), self._alone.pixels, _BLOCK) for border in borders
        ]
        return Passes(2 * len(sizes), sum(sizes), sum(sizes))

    def _resized(self, layer: Layer) -> Passes:
        """Pixels are repeated channel block by channel block; of many channels in a layout of its own."""
        before, after, alone = layer.input_shapes[0], layer.output_shape, self._alone
        read, size = self._laid(layer.inputs[0], before), self._laid(layer.output, after)
        if before[-1] <= _RESIZED_CHANNELS:
            return Passes(2, read, size) + self._converted(layer)
        depth = round_up(before[-1], alone.resized_channels)
        wide, large = (math.prod(shape[:-1]) * depth for shape in (before, after))
        return Passes(6, read + wide + large, wide + large + size)

    def _converted(self, layer: Layer) -> Passes:
        """Blocks of few channels become whole ones, where their readers want that."""
        if self._keeps_few(layer.output):
            return Passes()
        size = _padded(layer.output_shape, self._alone.pixels, _BLOCK)
        few = _padded(layer.output_shape, 2 * self._alone.pixels, _FEW)
        return Passes(2, few, few) if few != size or not self._alone.few_by_few else Passes()

    def _keeps_few(self, name: str) -> bool:
        """Whether all that read a map left in blocks of few channels read it so."""
        array = all(reader.kind in _ARRAY for reader in self._readers.get(name, ()))
        return self._is_few(name) or (array and not self._alone.few_by_few)

    def _by_phases(self, layer: Layer) -> Passes:
        """A transposed convolution: one convolution for each phase of its results, which are sorted then."""
        phases = math.prod(layer.strides)
        part = _padded((*layer.input_shapes[0][:-1], layer.output_shape[-1]), self._alone.pixels, _BLOCK)
        read, size = self._read(layer), self._laid(layer.output, layer.output_shape)
        return Passes(5 * phases + 1, phases * (read + part), phases * part + size)

    def _reduced(self, layer: Layer) -> Passes | None:
        """A mean to a pixel, or over channels: where sums and products repeat it that is a convolution."""
        before, after = (_as_map(shape) for shape in (layer.input_shapes[0], layer.output_shape))
        read, size = self._laid(layer.inputs[0], before), self._laid(layer.output, after)
        if layer.largest:
            return None
        to_pixel = after[1:3] == (1, 1) != before[1:3] and min(before[1:3]) > 1
        if before[1:3] != after[1:3] and before[-1] == after[-1] and not to_pixel:
            transfers = _LINE_TRANSFERS * before[0]
            if not _reduces_rows(layer):
                lines = self._plane(before)
                again = self._turned_again(layer, before)
                return Passes(transfers, 2 * lines + size + again, lines + size + again)
            lines, width = self._rows(before), before[2]
            steps = lines * (_FOURTHS if width & (width - 1) == 0 else _HALVES) * (not self._alone.pixel_vectors)
            return Passes(transfers, 2 * lines + steps + size, lines + steps + size)
        if before[0] > 1:
            return None
        if to_pixel:
            pixel = self._repeated(after)
            return Passes(4, read + size, size + pixel)
        if before[1:3] != after[1:3] or after[-1] != 1:
            return None
        if all(reader.kind in _SUMS for reader in self._readers.get(layer.output, ())):
            return Passes(4, read, size)
        planar = self._plane(before)
        return Passes(9, read + planar + 2 * size, planar + 2 * size)

    def _turned_again(self, layer: Layer, shape: Sequence[int]) -> float:
        """Bytes, each way, of a map of which a mean wants rows, too: each row of a channel is moved in a vector."""
        others = self._readers.get(layer.inputs[0], ())
        if not self._alone.pixel_vectors or not any(map(_reduces_rows, others)):
            return 0.0
        batch, height, _, channels = _as_map(shape)
        return _TURNED_PASSES * batch * height * channels * _VECTOR

    def _of_weights(self, layer: Layer) -> Passes | None:
        """A convolution or a dense layer; one that adds a map up does so in a second step."""
        if max(layer.kernel) > _LARGEST_WINDOW:
            return None
        alone = self._alone
        parts = 2 if 0 < alone.halves_above < layer.output_shape[-1] else 1
        shape, count = layer.output_shape, _maps(layer.output_shape)
        narrow = self._laid(layer.output, shape) * min(layer.output_bits, 16) / 8
        first = self._laid(layer.inputs[0], layer.input_shapes[0])
        found = Passes(_maps(layer.input_shapes[0]) + 2 * parts, first)
        if layer.spread != (1, 1):
            found += self._phased(layer)
        elif layer.stepped_shape != shape:
            found += self._picked(layer)
        if layer.kernel == (1, 1) and max(layer.strides) > 1:
            kept = _padded((*shape[:-1], layer.input_shapes[0][-1]), alone.pixels, _BLOCK)
            found += Passes(2, kept, kept)
        if layer.kind is CostKind.DEPTHWISE and max(layer.strides) > 1:
            found += self._converted(layer)
        if len(layer.inputs) > 1:
            own = layer.inputs[1] == layer.inputs[0]
            found += Passes(3 * count, 2 * narrow, narrow) if own else Passes(count, narrow)
        if self._is_uneven(layer):
            found += Passes(2, first, first)
        if layer.kind in _WINDOWED and max(layer.kernel) > _WHOLE_WINDOW and layer.stepped_shape == shape:
            batch, height, width, channels = _as_map(layer.input_shapes[0])
            bordered = (batch, height + layer.kernel[0] - 1, width + layer.kernel[1] - 1, channels)
            size = _BORDERED * _padded(bordered, 2 * alone.pixels, _FEW)
            found += Passes(2, size, size)
        if layer.output_bits < _ACCUMULATOR_BITS:
            return found + Passes(count, 0, narrow)
        wide = _padded(shape, alone.pixels, _WIDE_CHANNELS) * layer.output_bits / 8
        if layer.planar:
            return found + Passes(3 * count, wide, wide + ddr_bytes(shape, layer.output_bits, self._latency.output_row))
        left = math.prod(shape[:-1]) * row_width(shape[-1], self._latency.output_row) * layer.output_bits / 8
        return found + Passes(5 * count, wide, wide + left)

    def _is_uneven(self, layer: Layer) -> bool:
        """Whether what it reads in blocks of few channels was no power of two of whole ones, and is laid out anew."""
        blocks = -(-layer.input_shapes[0][-1] // _BLOCK)
        return self._alone.few_by_few and blocks & (blocks - 1) != 0 and self._wants_few(layer, 0)

    def _picked(self, layer: Layer) -> Passes:
        """Results that steps leave out pass through DDR with those that are kept."""
        second = layer.stepped_shape[2] <= 2 * layer.output_shape[2]
        transfers, passes = _PICKED_SECOND if second else _PICKED_FOURTH
        if layer.kind is CostKind.DEPTHWISE and second:
            return Passes()
        if layer.inputs[0] in self._makers and layer.kind is CostKind.CONV:
            passes = _PICKED_INSIDE
        computed = passes * _padded(layer.stepped_shape, self._alone.pixels * (1 + second), _BLOCK)
        return Passes(transfers, computed, computed)

    def _phased(self, layer: Layer) -> Passes:
        """Maps of which each phase is computed by itself: sorted before and afterwards, where taps are more than two
        apart perhaps pixel by pixel, each in a vector, with borders that make the phases alike.
        """
        down, right = layer.dilations
        shapes = [_as_map(shape) for shape in (layer.input_shapes[0], layer.output_shape)]
        parts = [(count, -(-height // down), -(-width // right), depth) for count, height, width, depth in shapes]
        read, computed = (_padded(part, self._alone.pixels, _BLOCK) for part in parts)
        once = [_padded(shape, self._alone.pixels, _BLOCK) for shape in shapes]
        loaded, stored = down * right * (2 * read + computed), down * right * (read + 2 * computed)
        if max(down, right) <= _PAIR:
            return Passes(_PAIR_TRANSFERS, loaded - once[0], stored - once[1])
        wholes = [(count, rows * down, pixels * right, depth) for count, rows, pixels, depth in parts]
        transfers: float = _PHASE_TRANSFERS * down * right
        moved = 2.0 * sum(map(self._pixels, wholes))
        if self._alone.pixel_vectors:
            transfers = _SORTED_TRANSFERS * down * right
        elif wholes != shapes:
            moved += sum(once)
            transfers += _BORDER_TRANSFERS * down * right
        sorted_pixels = 2 * sum(math.prod(whole[:-1]) for whole in wholes)
        return Passes(transfers, loaded + moved - once[0], stored + moved - once[1], sorted_pixels)

    def _joined_before(self, layer: Layer) -> Passes:
        """A sum or product of two maps, or of a map and what is repeated: both become one map of twice the channels.

        A constant is repeated, too.
        """
        size = self._laid(layer.output, layer.output_shape)
        names = dict(zip(layer.inputs, layer.input_shapes, strict=True))
        read = sum(size if shape == layer.output_shape else self._repeated(shape) for shape in names.values())
        found = Passes(4 + len(names) * _maps(layer.output_shape) + 2, read + 2 * size, 3 * size)
        for name, shape in names.items():
            maker = self._makers.get(name)
            if shape == layer.output_shape or maker is None or maker.kind is CostKind.REDUCE:
                continue
            if shape[-1] == 1:
                found += Passes(4, self._plane(layer.output_shape), size)
            elif layer.kind is CostKind.ADD:
                found += Passes(4)
        return found

    def _repeated(self, shape: Sequence[int]) -> float:
        """Bytes of what a product repeats: a pixel, or a map."""
        if math.prod(shape[:-1]) == 1:
            return round_up(shape[-1], self._alone.plane_pixels)
        return _padded(shape, self._alone.pixels, _BLOCK)

    def _parts(self, layer: Layer) -> Passes | None:
        """A concatenation or a slice along channels: within a block of channels it takes place channel by channel."""
        joins = layer.kind is CostKind.JOIN
        whole = layer.output_shape if joins else layer.input_shapes[0]
        parts = layer.input_shapes if joins else (layer.output_shape,)
        if not joins and layer.motion is not Motion.NONE and whole[-1] == parts[0][-1]:
            return self._cut_out(layer)
        if layer.motion is Motion.NONE or any(tuple(part[:-1]) != tuple(whole[:-1]) for part in parts):
            return None
        size = self._laid(layer.output, layer.output_shape)
        named = list(zip(layer.inputs, layer.input_shapes, strict=True))
        if not any(part[-1] % _BLOCK for part in (*parts, whole)):
            again = [self._laid(name, shape) for name, shape in named if joins and self._is_slice(name)]
            return Passes(len(parts) + 1 + 2 * len(again), size + sum(again), size + sum(again))
        every = not joins and layer.op_type == _SPLITTING
        sliced = not joins and not every and is_column(whole)
        if sliced and layer.output_shape[-1] == 1:
            return Passes(len(parts) + 1, size, size)  # the first channel of a column is where it begins
        planar = self._plane(whole if every else layer.output_shape)
        found = Passes(len(parts) + 3, 2 * planar, planar + size)
        for name, shape in named:
            if name not in self._planar and not self._is_plane(name) and not sliced:
                self._planar.add(name)
                found += Passes(2, self._laid(name, shape), self._plane(shape))
        return found

    def _cut_out(self, layer: Layer) -> Passes | None:
        """Rows that are cut out are loaded and stored; of columns alone the layer in front leaves fewer.

        A half may be every second one, which is told otherwise.
        """
        before, after = _as_map(layer.input_shapes[0]), _as_map(layer.output_shape)
        if any(one == _PAIR * other for one, other in zip(before, after, strict=True)):
            return None
        if before[:2] == after[:2] and before[1] > 1 and len(self._readers[layer.inputs[0]]) == 1:
            spared = self._laid(layer.output, after) - self._laid(layer.inputs[0], before)
            return Passes(0, 0, spared * (layer.inputs[0] in self._makers))
        return self._moved(layer, 0) if before[0] == after[0] and before[2] == after[2] else None

    def _is_slice(self, name: str) -> bool:
        """Whether a map was cut out of another."""
        maker = self._makers.get(name)
        if maker is None:
            return name not in self._inputs
        return maker.kind is CostKind.MOVE and maker.input_shapes[0][:-1] == maker.output_shape[:-1]

    def _is_plane(self, name: str) -> bool:
        """Whether a map is a mean or a maximum over channels, which lies as a plane."""
        maker = self._makers.get(name)
        return maker is not None and maker.kind is CostKind.REDUCE and maker.output_shape[-1] == 1

    def _plane(self, shape: Sequence[int]) -> float:
        """Bytes of a map that lies channel by channel."""
        batch, height, width, channels = _as_map(shape)
        return batch * height * channels * round_up(width, self._alone.plane_pixels)

    def _entering(self, name: str, layer: Layer) -> Passes:
        """What comes from outside is brought into blocks, once for all readers."""
        maker = self._makers.get(name)
        shape = layer.input_shapes[layer.inputs.index(name)]
        if maker is not None and layer.kind in _ARRAY and self._gives_tokens(maker):
            name = maker.inputs[0]
        if name in self._makers or name in self._entered:
            return Passes()
        self._entered.add(name)
        if name not in self._inputs:  # a further part of a split
            size = self._laid(name, shape)
            return Passes(2, size, size)
        blocks = _padded(shape, self._alone.pixels, _BLOCK)
        found = Passes(2 * _maps(shape), ddr_bytes(shape, layer.input_bits, self._latency.input_row), blocks)
        if self._is_few(name) or layer.kind is CostKind.JOIN:
            found += Passes(2 * _maps(shape), blocks, self._laid(name, shape))
        return found

    def _gives_tokens(self, layer: Layer) -> bool:
        """Whether a reshape leaves the rows of tokens that come from outside as they are: the layer behind it reads
        them.
        """
        views = layer.kind is CostKind.RESHAPE and layer.inputs[0] in self._inputs
        return views and layer.input_shapes[0][-1] == layer.output_shape[-1]

    def _laid(self, name: str, shape: Sequence[int]) -> float:
        """Bytes of a map of int8, in blocks of few channels where a reader wants that, or its maker leaves it so."""
        if self._is_few(name) or (self._leaves_few(name) and self._keeps_few(name)):
            return _padded(shape, 2 * self._alone.pixels, _FEW)
        return _padded(shape, self._alone.pixels, _BLOCK)

    def _leaves_few(self, name: str) -> bool:
        maker = self._makers.get(name)
        if maker is None:
            return False
        resized = maker.kind is CostKind.RESIZE and maker.output_shape[-1] <= _RESIZED_CHANNELS
        return resized or (max(maker.strides) > 1 and maker.kind is CostKind.DEPTHWISE)

    def _is_few(self, name: str) -> bool:
        return any(self._wants_few(reader, reader.inputs.index(name)) for reader in self._readers.get(name, ()))

    def _wants_few(self, layer: Layer, position: int) -> bool:
        """Whether a layer reads a map in blocks of few channels and many pixels."""
        depth, by_few = layer.input_shapes[position][-1], self._alone.few_by_few
        less = round_up(depth, _FEW) < round_up(depth, _BLOCK)
        match layer.kind:
            case CostKind.RESIZE:
                return depth <= _RESIZED_CHANNELS
            case CostKind.GROUPED:
                return position == 0
            case CostKind.CONV if layer.kernel != (1, 1) and max(layer.strides) > 1:
                return position == 0
            case CostKind.DEPTHWISE if max(layer.strides) > 1:
                return position == 0
            case CostKind.CONV if math.prod(layer.kernel) > _WHOLE_TAPS + 1 and position == 0:
                return less or by_few
            case kind if kind in _ARRAY:
                return by_few and depth <= _FEW
            case _:
                return False


def turns_heads(layer: Layer) -> bool:
    """Whether a layer changes rows and columns of several maps that lie side by side (heads)."""
    before, after = layer.input_shapes[0], layer.output_shape
    turns = layer.kind is CostKind.TRANSPOSE and layer.motion is Motion.ROWS and len(before) == len(after) == _MAP_RANK
    return turns and before[-1] == after[1] > 1 and before[0] == 1


def _reads_planes(layer: Layer, given: Layer) -> bool:
    """Whether a layer that moves nothing reads the planes of the map that ``given`` computes."""
    return any(
        name == given.output and position in layer.converted and lies_in_planes(layer, position, given)
        for position, name in enumerate(layer.inputs)
    )


def _scales_elements(layer: Layer) -> bool:
    """Whether a layer scales the elements of tokens, which are a map of one channel to it."""
    return layer.kind is CostKind.CONV and bool(layer.converted) and layer.input_shapes[0][-1] == 1


def _cuts_or_turns_tokens(layer: Layer) -> bool:
    """Whether a layer cuts tokens, which lie in one row, into heads, or changes their rows and columns."""
    before, after = layer.input_shapes[0], layer.output_shape
    if layer.converted or before[-1] == after[-1] or math.prod(before[:-2]) > 1 or before[-2] == 1:
        return False
    if layer.kind is CostKind.RESHAPE:
        return layer.motion is Motion.ELEMENTS and before[-1] % after[-1] == 0
    return layer.kind is CostKind.TRANSPOSE and layer.motion is Motion.ROWS and before[-1] == after[-2]


def _shuffles(layer: Layer) -> bool:
    """Whether a layer shuffles the channels of a map."""
    return layer.kind is CostKind.TRANSPOSE and layer.motion is Motion.PLANES


def _adds_pixels(layer: Layer) -> bool:
    """Whether a pool averages windows of other than 3 x 3."""
    return layer.kind is CostKind.POOL and not layer.largest_of_windows and layer.kernel != (3, 3)


def _reduces_rows(layer: Layer) -> bool:
    """Whether a mean is one of the pixels of each row, ..."""
    before, after = _as_map(layer.input_shapes[0]), _as_map(layer.output_shape)
    return layer.kind is CostKind.REDUCE and after[1] == before[1] > 1 and after[2] < before[2]


def _reduces_columns(layer: Layer) -> bool:
    """... or of each column."""
    before, after = _as_map(layer.input_shapes[0]), _as_map(layer.output_shape)
    return layer.kind is CostKind.REDUCE and after[1] < before[1] and after[2] == before[2] > 1


def _shapes(layer: Layer) -> tuple[Sequence[int], ...]:
    return (*layer.input_shapes, layer.output_shape)


def _padded(shape: Sequence[int], pixels: int, channels: int) -> int:
    """Elements of a map with its padding."""
    batch, height, width, depth = _as_map(shape)
    return batch * round_up(height, _ROWS) * round_up(width, pixels) * round_up(depth, channels)


def _maps(shape: Sequence[int]) -> int:
    return _as_map(shape)[0]


def _as_map(shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` in four dimensions."""
    return (*(1,) * (_MAP_RANK - len(shape)), *shape)
