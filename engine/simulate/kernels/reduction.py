"""Kernels of reductions over one axis."""

from __future__ import annotations

from typing import Any

from engine.jit import compiled
from engine.simulate.kernels.elementwise import accumulate, keep_larger
from engine.simulate.kernels.elementwise_rows import ACCU_SHIFT, HALF, HIGH_16, LOW_16, OUT_SHIFT, SCALE, SIDE_BY_SIDE
from engine.simulate.kernels.memory import copy_bytes, int8_at, int16_at, int32_at, int64_at, store
from engine.simulate.kernels.operations import FIRST_MAXIMUM


@compiled
def reduce(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Sum, requantised, or maximum over an axis of ``in_h``: units precede it, ``in_c`` elements follow it.

    With ``largest`` FIRST_MAXIMUM, the position of the first maximum of neighbours, as int8 that wraps.
    """
    total = int32_at(scratch, f.in_c)
    row = f.in_c * f.x_bytes
    together = max(1, SIDE_BY_SIDE // f.in_c)
    for unit in range(begin, end):
        source = arena + f.x + unit * f.in_h * row
        if f.largest == FIRST_MAXIMUM:
            if f.x_bytes == 1:
                position = first_maximum(int8_at(source, f.in_h))
            else:
                position = first_maximum(int16_at(source, f.in_h))
            int8_at(arena + f.y + unit, 1)[0] = position
            continue
        if f.in_c == 1:
            if f.x_bytes == 1:
                total[0] = reduced(int8_at(source, f.in_h), f.largest)
            else:
                total[0] = reduced(int16_at(source, f.in_h), f.largest)
        else:
            side_by_side = int32_at(scratch, together * f.in_c)
            side_by_side[:] = LOW_16 if f.largest else 0
            whole = f.in_h - f.in_h % together
            for index in range(0, whole, together):
                if f.x_bytes == 1:
                    add_row(int8_at(source + index * row, together * f.in_c), side_by_side, f.largest)
                else:
                    add_row(int16_at(source + index * row, together * f.in_c), side_by_side, f.largest)
            for index in range(1, together):
                add_row(side_by_side[index * f.in_c : (index + 1) * f.in_c], total, f.largest)
            for index in range(whole, f.in_h):
                if f.x_bytes == 1:
                    add_row(int8_at(source + index * row, f.in_c), total, f.largest)
                else:
                    add_row(int16_at(source + index * row, f.in_c), total, f.largest)
        y = arena + f.y + unit * f.in_c * f.y_bytes
        if f.y_bytes == 4:
            copy_bytes(scratch, y, f.in_c * 4)
            continue
        if not f.largest:
            requantize(f, total)
        store(total, y, f.y_bytes)


@compiled
def first_maximum(x: Any) -> int:
    """Position of the first of the largest numbers: two passes, of which the first works on whole vectors."""
    largest = reduced(x, 1)
    position = 0
    while x[position] != largest:
        position += 1
    return position


@compiled
def add_row(x: Any, total: Any, largest: int) -> None:
    """One row more."""
    if largest:
        keep_larger(x, total)
    else:
        accumulate(x, total)


@compiled
def reduced(x: Any, largest: int) -> int:
    """Maximum or sum of neighbours."""
    total = LOW_16 if largest else 0
    if largest:
        for k in range(len(x)):
            total = max(total, x[k])
    else:
        for k in range(len(x)):
            total += x[k]
    return total


@compiled
def requantize(f: Any, total: Any) -> None:
    """``sat(rnd(sat16(total >> shift) * scale, out_shift))`` in place."""
    p = int64_at(f.params, 8)
    shift, scale, half, out, low, high = p[ACCU_SHIFT], p[SCALE], p[HALF], p[OUT_SHIFT], f.low, f.high
    for c in range(len(total)):
        narrowed = min(max(total[c] >> shift, LOW_16), HIGH_16)
        total[c] = min(max((narrowed * scale + half) >> out, low), high)
