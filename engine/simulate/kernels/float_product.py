"""Kernel of float32 products of rows with constant weights, as :mod:`engine.floats.recurrent` defines them."""

from __future__ import annotations

from typing import Any

from engine.jit import compiled
from engine.simulate.kernels.float_convolution import float_tile, make_float_tile
from engine.simulate.kernels.memory import copy_bytes
from engine.simulate.kernels.tiles import FLOAT_ROWS as ROWS
from engine.simulate.kernels.tiles import FLOAT_WIDTH as WIDTH

row_tile = make_float_tile(1)


@compiled
def float_product(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Rows times a matrix: units are panels of :data:`WIDTH` columns.

    x (in_h, taps), y (in_h, out_c), float32; ``weights`` (panels, taps, :data:`WIDTH`), ``tap_offsets`` bytes from the
    first row of a panel to each; ``count`` products are summed at once. ``params`` what is added to the results of each
    row of a tile, ``low`` as of a convolution. ``scratch`` holds a tile of results. The last tile of either direction
    overlaps the one before, which changes nothing.
    """
    pitch, width, height = f.out_c * 4, min(WIDTH, f.out_c), ROWS if f.in_h >= ROWS else 1
    for unit in range(begin, end):
        column, weights = min(unit * WIDTH, f.out_c - width), f.weights + unit * f.taps * WIDTH * 4
        for step in range(0, f.in_h, height):
            row = min(step, f.in_h - height)
            x, y = arena + f.x + row * f.taps * 4, arena + f.y + row * pitch + column * 4
            if width == WIDTH:
                one_tile(f, x, weights, height, y, pitch)
            else:
                one_tile(f, x, weights, height, scratch, WIDTH * 4)
                for line in range(height):
                    copy_bytes(scratch + line * WIDTH * 4, y + line * pitch, width * 4)


@compiled
def one_tile(f: Any, x: int, weights: int, height: int, out: int, pitch: int) -> None:
    """A tile of that many rows."""
    if height == ROWS:
        float_tile(weights, f.tap_offsets, f.taps, f.count, x, 4, f.taps * 4, f.params, f.low, out, pitch)
    else:
        row_tile(weights, f.tap_offsets, f.taps, f.count, x, 4, f.taps * 4, f.params, f.low, out, pitch)
