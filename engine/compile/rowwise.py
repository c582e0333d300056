"""What layers move and wait for at O0 besides their maps, on marches whose maps lie row by row (bernoulli2).

There a map passes through DDR once for each layer that reads it. Some layers want it in rows of more pixels or
channels, take it in steps or phase by phase, or leave it in another layout: each such step loads, stores and waits.
``docs/evidence/latency.md`` has what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.chips.latency.unfused import AloneByRows
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.compile.sizes import IMAGE_CHANNELS, as_map
from engine.ops.core.costs import OF_WEIGHTS, CostKind

_NARROW_BITS = 8
_MAP_RANK = 4
_ROW, _CHANNELS = 8, 4
"""Pixels and channels that maps are padded to."""
_DEEP_ROW, _DEEP_CHANNELS = 16, 16
"""Those of maps of depthwise layers; in steps rows of what they read have twice as many pixels."""
_PLANAR_ROW = 32
"""Pixels that rows of a channel are padded to."""
_READ_PASSES, _MADE_PASSES = 6.66, 6.46
"""How often a step of a maximum loads, and stores, what it reads and what it computes."""
_PHASED_PASSES, _PHASE_LOADS = 12, 3
"""How often the maps of all phases of a dilated layer pass, and what transposed ones read is loaded."""
_TRANSPOSED_PASSES = 2
_LEFT_STORES, _LEFT_LOADS = 1.7, 3.5
"""How often a map of bytes that leaves is stored and loaded besides for a layer that reads it, too."""
_BY_BLOCKS = OF_WEIGHTS | {CostKind.LUT}
"""Kinds of layers that wait for rows of channels that are no whole blocks."""
_PER_US = 1e3
"""Elements of a maximum per microsecond."""


@dataclass(frozen=True)
class Besides:
    """What a layer takes besides loading and storing each of its maps once.

    Attributes:
        loaded: bytes.
        stored: bytes.
        wait_us: for which it waits.
        work_us: time of its work; None: as it is everywhere.
    """

    loaded: int = 0
    stored: int = 0
    wait_us: float = 0.0
    work_us: float | None = None

    def __add__(self, other: Besides) -> Besides:
        work = self.work_us if other.work_us is None else other.work_us
        return Besides(self.loaded + other.loaded, self.stored + other.stored, self.wait_us + other.wait_us, work)


def besides(
    layer: Layer, makers: Mapping[str, Layer], inputs: Collection[str], read: Collection[str], rows: AloneByRows
) -> Besides:
    """What ``layer`` takes besides.

    Args:
        layer: of a subgraph.
        makers: the layers of the subgraph by the tensors that they give.
        inputs: names of the tensors that enter.
        read: names of those that layers of the subgraph read.
        rows: the constants of the march.
    """
    if layer.output_bits < _NARROW_BITS or any(len(shape) > _MAP_RANK for shape in _shapes(layer)):
        return Besides()
    found = Besides(wait_us=_rows_us(layer, makers, inputs, rows)) + _left(layer, makers, read, rows)
    match layer.kind:
        case CostKind.POOL if takes_steps(layer):
            return found + _maxima(layer, rows)
        case CostKind.DEPTHWISE if layer.spread == (1, 1) and max(layer.kernel) > 1:
            return found + _deep(layer)
        case CostKind.CONV | CostKind.DEPTHWISE if layer.spread != (1, 1):
            return found + _phases(layer, rows)
        case CostKind.TRANSPOSED if max(layer.strides) > 1:
            return found + _transposed(layer, rows)
        case CostKind.MUL if _repeats_pixel(layer, inputs):
            batch, height, width, _ = _map(layer.output_shape)
            blocks = batch * height * -(-width // _DEEP_ROW)
            return found + Besides(wait_us=rows.gate_row_us * blocks)
        case _:
            return found


def _repeats_pixel(layer: Layer, inputs: Collection[str]) -> bool:
    """Whether a product repeats a pixel over a map that does not enter."""
    shapes = dict(zip(layer.inputs, layer.input_shapes, strict=True))
    entering = any(name in inputs and _pixels(shape) > 1 for name, shape in shapes.items())
    return len(shapes) > 1 and not entering and any(_pixels(shape) == 1 for shape in shapes.values())


def told_by_rows(layer: Layer) -> bool:
    """Whether what a layer moves at O0 is its traffic, and what it takes besides: one of weights of bytes that adds
    nothing up, a maximum in steps, or channels that are shuffled.
    """
    shuffles = layer.kind is CostKind.TRANSPOSE and layer.motion is Motion.PLANES
    plain = layer.input_bits == _NARROW_BITS and len(layer.inputs) == 1
    return plain and (layer.kind in OF_WEIGHTS or takes_steps(layer) or shuffles)


def takes_steps(layer: Layer) -> bool:
    """Whether a layer takes the maximum of windows in steps of one pixel, which it does in steps of 3 x 3."""
    return (
        layer.kind is CostKind.POOL and layer.largest_of_windows and layer.strides == (1, 1) and max(layer.kernel) > 1
    )


def _rows_us(layer: Layer, makers: Mapping[str, Layer], inputs: Collection[str], rows: AloneByRows) -> float:
    """Waits for rows of maps: of what enters, and of maps that end with a part of a block of channels."""
    waits = 0.0
    for name, shape in dict(zip(layer.inputs, layer.input_shapes, strict=True)).items():
        batch, height, _, channels = _map(shape)
        if name in inputs:
            uneven = channels > IMAGE_CHANNELS and channels % rows.entering_block > 0
            row_by_row = layer.kind is CostKind.JOIN or (layer.kind in OF_WEIGHTS and len(layer.inputs) == 1)
            waits += rows.entered_row_us * batch * height * (uneven and row_by_row and _pixels(shape) > 1)
            waits += rows.entering_us * (layer.kind not in OF_WEIGHTS and _pixels(shape) > 1)
            continue
        maker = makers.get(name)
        if maker is not None and _is_deep(maker):
            waits += rows.deep_row_us * batch * height * (channels % _DEEP_CHANNELS > 0)
        elif layer.kind in _BY_BLOCKS and not _is_deep(layer):
            waits += rows.read_row_us * batch * height * (channels % rows.block > 0)
    batch, height, _, channels = _map(layer.output_shape)
    block = _DEEP_CHANNELS if _is_deep(layer) else rows.block
    made = layer.kind in OF_WEIGHTS and channels % block > 0 and _pixels(layer.output_shape) > 1
    return waits + rows.made_row_us * batch * height * made


def _left(layer: Layer, makers: Mapping[str, Layer], read: Collection[str], rows: AloneByRows) -> Besides:
    """Maps of bytes that leave: those that do so channel by channel are turned, and what reads them inside takes them
    from another layout.
    """
    found = Besides()
    if layer.planar and _leaves_bytes(layer):
        batch, height, width, channels = _map(layer.output_shape)
        size = (
            batch
            * height
            * (channels * round_up(width, _PLANAR_ROW) + _padded((1, 1, width, channels), _DEEP_ROW, _CHANNELS))
        )
        found += Besides(size, size, rows.planar_us)
    for name in dict.fromkeys(layer.inputs) if layer.kind in OF_WEIGHTS else ():
        maker = makers.get(name)
        if maker is not None and _leaves_bytes(maker):
            size = _padded(_map(maker.output_shape), _DEEP_ROW, _DEEP_CHANNELS)
            found += Besides(round(_LEFT_LOADS * size), round(_LEFT_STORES * size))
    return found


def _leaves_bytes(layer: Layer) -> bool:
    """Whether a map of bytes of several pixels leaves the subgraph."""
    return layer.leaves and layer.output_bits == _NARROW_BITS and _pixels(layer.output_shape) > 1


def _maxima(layer: Layer, rows: AloneByRows) -> Besides:
    """A maximum in steps of 3 x 3, the first of them on a map with a border for all that follow."""
    batch, height, width, channels = _map(layer.output_shape)
    depth = batch * round_up(channels, _CHANNELS)
    down, right = ((side - 1) for side in layer.kernel)
    moved = work = 0.0
    steps = -(-max(down, right) // 2)
    for step in range(steps):
        high, wide = min(2 * step, down), min(2 * step, right)
        read = (height + min(high + 2, down)) * round_up(width + min(wide + 2, right), _ROW)
        made = (height + high) * round_up(width + wide, _ROW)
        moved += depth * (_READ_PASSES * read + _MADE_PASSES * made)
        work += 2 * depth * (height + high) * (width + _ROW + wide)
    once = depth * height * round_up(width, _ROW)
    uneven = rows.read_row_us * batch * height * (channels % rows.block > 0)
    besides_once = max(round(moved) - once, 0)
    return Besides(besides_once, besides_once, rows.step_us * steps + uneven, work / _PER_US)


def _deep(layer: Layer) -> Besides:
    """A depthwise layer: rows of what it reads and computes have more pixels, what it reads has more channels."""
    before, after = _map(layer.input_shapes[0]), _map(layer.output_shape)
    row = _DEEP_ROW * (1 + (max(layer.strides) > 1))
    read = _padded(before, row, _DEEP_CHANNELS) - _padded(before, _ROW, _CHANNELS)
    made = (
        0
        if layer.output_bits > _NARROW_BITS
        else _padded(after, _DEEP_ROW, _CHANNELS) - _padded(after, _ROW, _CHANNELS)
    )
    return Besides(read + made, read + made)


def _phases(layer: Layer, rows: AloneByRows) -> Besides:
    """A dilated layer: the pixels of each phase are taken out, computed with weights of their own, and put back."""
    down, right = layer.spread
    moved = max(_of_phases(_map(shape), down, right) for shape in (layer.input_shapes[0], layer.output_shape))
    uneven = layer.input_shapes[0][-1] % rows.block > 0 or layer.output_shape[-1] % rows.block > 0
    batch, height, _, _ = _map(layer.output_shape)
    phase_rows = 2 * batch * right * round_up(height, down) * uneven
    loaded = _PHASED_PASSES * moved + (down * right - 1) * layer.weight_bytes
    return Besides(loaded, _PHASED_PASSES * moved, rows.phase_us * down * right + rows.phase_row_us * phase_rows)


def _transposed(layer: Layer, rows: AloneByRows) -> Besides:
    """A transposed convolution: one convolution a phase, whose results are put side by side."""
    down, right = layer.strides
    batch, height, width, channels = _map(layer.output_shape)
    moved = _of_phases((batch, height, width, channels), down, right)
    read = _padded(_map(layer.input_shapes[0]), _ROW, _CHANNELS)
    uneven = channels % rows.block > 0
    waits = rows.transposed_us + rows.phase_row_us * batch * right * height * uneven
    return Besides(_TRANSPOSED_PASSES * moved + _PHASE_LOADS * read, _TRANSPOSED_PASSES * moved, waits)


def _of_phases(shape: Sequence[int], down: int, right: int) -> int:
    """Bytes of the maps of all phases."""
    batch, height, width, channels = shape
    part = (batch, -(-height // down), -(-width // right), channels)
    return down * right * _padded(part, _ROW, _CHANNELS)


def _is_deep(layer: Layer) -> bool:
    """Whether a layer pads channels to whole vectors."""
    return layer.kind is CostKind.DEPTHWISE and max(layer.kernel) > 1


def _padded(shape: Sequence[int], row: int, channels: int) -> int:
    batch, height, width, depth = shape
    return batch * height * round_up(width, row) * round_up(depth, channels)


def _pixels(shape: Sequence[int]) -> int:
    return math.prod(shape[:-1])


def _shapes(layer: Layer) -> tuple[Sequence[int], ...]:
    return (*layer.input_shapes, layer.output_shape)


def _map(shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` in four dimensions; single pixels of a batch are those of a map."""
    return as_map((*(1,) * (_MAP_RANK - len(shape)), *shape))
