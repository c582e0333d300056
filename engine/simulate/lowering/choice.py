"""How a convolution is best computed: what is gathered, what shares vectors, windows and weights, how large units are.

The unit of time is a product of one vector.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.native.registers import LANES, REGISTERS
from engine.ops.core.base import Attributes
from engine.ops.core.windows import Geometry
from engine.simulate.kernels import tiles
from engine.simulate.kernels.tiles import BLOCK, BLOCK_SIDE, PAIR, PIXELS, PRODUCTS, QUAD, QUARTER, RUN, STEP_BYTES
from engine.simulate.lowering import matrices
from engine.simulate.lowering.constants import surplus_of_chains
from engine.simulate.program import Tensor

Array = NDArray[Any]

WIDE_ENOUGH, MOST_CHANNELS = 128, 4096
"""Channels from which on a vector that is partly empty does not count, and most that pixels side by side may have."""
FLIPPED, PIECE, VECTOR = 5, 10, 12
"""What it takes to gather a piece of a window and to requantise a vector, in products of one, which take 0.15 ns on
AVX512: the first is for pieces of up to :data:`~engine.simulate.kernels.tiles.MEDIUM` bytes that are flipped."""
TRANSFORMED, RESTORED, FINISHED, OF_BYTES, ALONE = 80, 50, 16, 1.2, 1.2
"""What it takes with AVX2, in multiplications with an addition, to transform the pixels of a block for a run of
channels that is read, to bring back a vector of its results, to requantise one elsewhere, and a step of bytes in a
chain; the last is a step by itself, in those of a chain (three instructions for two and a half). The first four are
fitted to 16 layers of ``resnet_18`` and ``scene_unet``, whose times they have within a tenth, of 12 channels a third.
"""
GAIN = 0.9
"""The share of the time that several pixels at once may take, for them to be worth it."""
MOST_TILE_ROWS, MANY_UNITS, OPERAND_BYTES = 3 * tiles.TILE_ROWS, 16, 1 << 18
"""Most positions of a unit, least units that leave so many, and most bytes that a unit should read of its input."""
SHARED_POSITIONS, SHARED_BYTES, SHARED_RATIO = 256 if tiles.MATRICES else 32, 1 << 16, 4
"""Most positions of an image for which it takes less time to compute products than to bring weights into the second
cache, least bytes of weights that are no longer there when the next sample comes, and how many times as many as those
of the image and its results, which leave the cache instead."""


def is_best_in_place(operands: dict[str, Tensor], windows: Geometry, weights: Array, attributes: Attributes) -> bool:
    """Whether dot products had better read windows where they lie, a row of a window after the other.

    Nothing is gathered then. With steps of one, windows at the ends of rows are computed that no result needs; else
    what a row leaves over of a tile of pixels. Single pixels of int8 are flipped on their way, those of int16 are as
    they are.
    """
    channels, height, width, inside = weights.shape
    flips = operands["x"].dtype == np.int8
    if attributes["group"] != 1 or (attributes["dilations"][1] != 1 and width > 1):
        return False
    if tiles.MATRICES:
        return _reads_matrices_in_place(operands, windows, weights, attributes)
    strides, out_w = attributes["strides"], operands["y"].shape[2]
    vectors, piece = math.ceil(channels / LANES), width * inside * operands["x"].dtype.itemsize
    if height == width == 1 and flips and tiles.FLIP:
        return False
    steps = math.ceil(height * piece / STEP_BYTES)
    copied = FLIPPED if flips and piece <= tiles.MEDIUM else PIECE * math.ceil(piece / tiles.LONG)
    gathered = height * copied + vectors * steps
    rows = (tiles.QUAD_ROWS if flips else tiles.ROWS)[min(vectors, tiles.MAX_VECTORS) - 1]
    row = math.ceil(out_w / rows) * rows
    if np.all(strides == 1):
        row = padded_width(operands["x"], windows)
    return bool(row / out_w * vectors * height * math.ceil(piece / STEP_BYTES) <= gathered)


def _reads_matrices_in_place(
    operands: dict[str, Tensor], windows: Geometry, weights: Array, attributes: Attributes
) -> bool:
    """Whether products of matrices had better read windows where they lie."""
    channels, height, width, _ = weights.shape
    _, out_h, out_w, _ = operands["y"].shape
    item = operands["x"].dtype.itemsize
    line, step, pixel = padded_width(operands["x"], windows), int(attributes["strides"][1]), weights.shape[3] * item
    runs, rows = out_h, out_w
    if np.all(attributes["strides"] == 1):
        runs, rows = 1, (out_h - 1) * line + out_w
    crossing = matrices.crossing(step * pixel, int(attributes["strides"][0]) * line * pixel)
    computed = runs * math.ceil(rows / tiles.SIDE) * tiles.SIDE / (out_h * out_w)
    in_place = computed * matrices.in_place(height, width * pixel, channels, crossing, rows, item)
    return in_place <= matrices.gathered(height, width * pixel, channels, item)


def multiplies_bytes(x: Tensor) -> bool:
    """Whether products of ``x`` can be those of bytes."""
    return x.dtype == np.int8 and (REGISTERS.quads or (tiles.CHAIN > 1 and not x.signed))


def are_best_bytes(x: Tensor, weights: Array) -> bool:
    """Whether dense products of ``x`` had better be those of bytes: what does not fit a chain is computed besides."""
    if not multiplies_bytes(x) or REGISTERS.quads:
        return multiplies_bytes(x)
    channels, values = len(weights), math.prod(weights.shape[1:])
    steps, panel = tiles.steps_of(values, quads=True), tiles.MAX_VECTORS * LANES
    padded = np.pad(weights.reshape(channels, values), ((0, 0), (0, steps * QUAD - values)))
    surplus = surplus_of_chains(padded.reshape(channels, steps, QUAD))
    apart = [surplus[first : first + panel].any(axis=(0, 2)).sum() for first in range(0, channels, panel)]
    return bool(OF_BYTES * (steps + ALONE * np.mean(apart)) <= math.ceil(values / PAIR))


def blocks_of_channels(x: Tensor, y: Tensor, e: Tensor | None, attributes: Attributes) -> int:
    """How many blocks of channels a depthwise convolution is computed in."""
    height, width = attributes["kernel_shape"]
    window = (int(width), int(attributes["strides"][1]))
    fits = x.dtype == y.dtype == np.int8 and e is None and attributes["dilations"][1] == 1
    fits &= multiplies_bytes(x) and height == width and window in tiles.BLOCK_WINDOWS
    return x.shape[3] // BLOCK if fits else 0


def pixels_together(operands: dict[str, Tensor], windows: Geometry, attributes: Attributes) -> int:
    """How many neighbouring pixels of a depthwise convolution are best treated as one with as many channels more.

    Where a pixel has fewer channels than a vector has lanes, the same taps serve its neighbours in the same vector, if
    windows are one column apart. The input's rows must be whole groups; a border that is there anyway may grow.
    """
    channels, out_w = operands["y"].shape[3], operands["y"].shape[2]
    width = padded_width(operands["x"], windows)
    if attributes["strides"][1] != 1 or channels >= LANES:
        return 1
    most = min(out_w, MOST_CHANNELS // channels)
    counts = [n for n in range(1, most + 1) if out_w % n == 0 and (np.any(windows.pads) or width % n == 0)]

    def cost(count: int) -> tuple[int, int, int]:
        """Tiles, then results that are requantised."""
        vectors, pixels = math.ceil(count * channels / LANES), out_w // count
        return math.ceil(pixels / PIXELS) * vectors, pixels * vectors, count

    return min(counts, key=cost)


def windows_together(operands: dict[str, Tensor], weights: Array, attributes: Attributes, quads: bool) -> int:
    """How many neighbouring results of a convolution are best computed as the channels of one.

    Their windows overlap: as long as each row of them all is one short piece, it is gathered once for all, and the
    results of few channels share vectors, up to one panel. Each result has zeros for what only its neighbours read.
    """
    channels, height, width, inside = weights.shape
    step, out_w, item = int(attributes["strides"][1]), operands["y"].shape[2], operands["x"].dtype.itemsize
    if attributes["group"] != 1 or attributes["dilations"][1] != 1 or (height == width == 1):
        return 1
    if operands["y"].dtype == np.int32 and channels >= LANES:  # they may leave as floats, pixel after pixel
        return 1
    longest, values = tiles.LONG if quads or tiles.MATRICES else tiles.SHORT, QUAD if quads else PAIR

    def cost(count: int) -> float:
        columns = (width + (count - 1) * step) * inside
        if tiles.MATRICES:
            size, together = columns * item, count * channels
            in_place = matrices.in_place(height, size, together, matrices.crossing(1), tiles.MOST_HIGH, item)
            products = min(in_place, matrices.gathered(height, size, together, item))
            return (products + matrices.finished(count * channels)) / count
        products, piece = height * columns / values, FLIPPED if quads and columns <= tiles.MEDIUM else PIECE
        return float(height * piece + math.ceil(count * channels / LANES) * (VECTOR + products)) / count

    most = min((longest // (item * inside) - width) // step + 1, tiles.MAX_VECTORS * LANES // channels)
    counts = [count for count in range(1, most + 1) if out_w % count == 0]
    best = min(counts, key=cost, default=1)
    return best if cost(best) <= GAIN * cost(1) else 1


def takes_fewer_products(operands: dict[str, Tensor], weights: Array, attributes: Attributes, quads: bool) -> bool:
    """Whether blocks of results are best computed from fewer products (:mod:`~engine.simulate.kernels.winograd`).

    Results must be less than 2^31 with the bits that the transforms add. The unit of time is a step of one vector, a
    multiplication and an addition. With ``quads`` the alternative is products of bytes.
    """
    channels, height, width, inside = weights.shape
    is_plain = (height, width, attributes["group"]) == (3, 3, 1)
    is_plain &= bool(np.all(attributes["strides"] == 1) and np.all(attributes["dilations"] == 1))
    if not tiles.FEWER or not is_plain or operands["x"].dtype != np.int8:
        return False
    if 128 * np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3)).max() >= 1 << (31 - QUARTER):
        return False
    vectors, runs = math.ceil(channels / LANES), math.ceil(inside / RUN)
    _, out_h, out_w, _ = operands["y"].shape
    blocks = math.ceil(out_h / BLOCK_SIDE) * math.ceil(out_w / BLOCK_SIDE)
    fewer = blocks * (PRODUCTS * runs * LANES * vectors + TRANSFORMED * runs + RESTORED * vectors)
    steps = math.ceil(height * width * inside / PAIR)
    if quads:
        steps = OF_BYTES * height * tiles.steps_of(width * inside, quads)
    return bool(fewer <= GAIN * out_h * out_w * vectors * (steps + FINISHED))


def shares_weights(x: Tensor, positions: int, packed: Array, common: dict[str, int]) -> bool:
    """Whether several samples had better meet the weights one after the other."""
    results = math.prod(common[name] for name in ("out_h", "out_w", "out_c"))
    moved = SHARED_RATIO * (x.size * x.dtype.itemsize + results)
    return positions <= SHARED_POSITIONS and packed.nbytes >= max(moved, SHARED_BYTES)


def tile_rows_of(positions: int, row_bytes: int) -> int:
    """Positions of a unit: the more, the less often weights are read, but their operands must stay in the cache."""
    most = min(MOST_TILE_ROWS, positions // MANY_UNITS, OPERAND_BYTES // row_bytes)
    return max(1, most // tiles.TILE_ROWS) * tiles.TILE_ROWS


def padded_width(x: Tensor, windows: Geometry) -> int:
    return x.shape[2] + int(windows.pads[1] + windows.pads[3])
