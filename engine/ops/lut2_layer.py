"""HzLut2Layer: a function of one int16 activation, piecewise from interpolated tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.ops.core.base import Array, Attribute, Attributes
from engine.ops.core.fixed_point import round_away, round_shift, saturate, shift_left, shift_right, to_type
from engine.ops.core.schema import DATA_FORMAT, OUTPUT_BIT, ROUNDING, Schema
from engine.ops.core.tables import TableOperator

SEGMENT_ENTRIES = 64
SEGMENTS = 6
ADDRESS_RANGE = (SEGMENT_ENTRIES - 1) << 8
"""Table address, with 8 fraction bits, at the end of a segment."""
CELLS = 256
"""Cells of the grid that bounds of segments lie on."""
MAX_LEFT_SHIFT, MAX_RIGHT_SHIFT = 15, 16
INT16_MIN, INT16_MAX = -32768, 32767
_LARGEST_INPUT_SCALE = float(np.finfo(np.float32).max) / 2**17
"""Largest scale of an input whose grid stays in float32; that of a tensor that holds infinity is larger."""
OUTER_LEFT, OUTER_RIGHT = 0, 7
_EQUAL = 1e-9
"""Relative difference of equal sums: the point of a HardSwish, whose bends are all the same, is the next one there."""


Function = Callable[[NDArray[Any]], NDArray[Any]]
Floats = NDArray[np.floating[Any]]
Quantizer = Callable[[Floats], Floats]


class Symmetry(StrEnum):
    """What a table of magnitudes gives for negative inputs; values are those of ``symmetry_mode``."""

    NONE = "NONE"
    ODD = "ORIGIN_SYMMETRIC"
    EVEN = "Y_SYMMETRIC"


class Lut2Layer(TableOperator):
    """Six segments of 64 entries between seven bounds, linear on both outer sides."""

    op_type = "HzLut2Layer"
    attributes: ClassVar[Schema] = {
        "lut_type": Attribute("str", "", "name of the function; a record"),
        "table_param": Attribute("ints", doc="6 * 64 entries, segment by segment"),
        "bound": Attribute("ints", doc="upper bounds of regions 0..6; the eighth value is not used"),
        "scale": Attribute("ints", doc="slope of the table address (segments) or of the function (outer), 8 values"),
        "bias": Attribute("ints", doc="offset of the same, 8 values"),
        "left_shift": Attribute("ints", doc="left shift of bias, 8 values"),
        "right_shift": Attribute("ints", doc="rounding shift of the linear form, 8 values"),
        "symmetry_mode": Attribute(
            "str",
            "NONE",
            "NONE, ORIGIN_SYMMETRIC or Y_SYMMETRIC: whether negative inputs take "
            "the negated, or the same, value of their magnitude",
        ),
        "output_bit": OUTPUT_BIT,
        "rounding_method": ROUNDING,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int16 or int8 (reference/arithmetic.md 1, HzLut2Layer)."""
        given = np.asarray(inputs[0], np.int64)
        symmetry = Symmetry(attributes["symmetry_mode"])
        x = given if symmetry is Symmetry.NONE else np.minimum(np.abs(given), INT16_MAX)
        region = np.searchsorted(np.sort(attributes["bound"][:OUTER_RIGHT]), x)  # the bounds that are less
        offset = shift_left(attributes["bias"], attributes["left_shift"])[region]
        linear = round_shift(x * attributes["scale"][region] + offset, attributes["right_shift"][region])
        outer = (region == OUTER_LEFT) | (region == OUTER_RIGHT)
        found = to_type(np.where(outer, linear, interpolate(linear, region, attributes)), attributes["output_bit"])
        if symmetry is Symmetry.ODD:
            found = to_type(np.where(given < 0, -found.astype(np.int64), found), attributes["output_bit"])
        return (found,)


def interpolate(address: Array, region: Array, attributes: Attributes) -> Array:
    """Linear interpolation between neighbouring entries; ``address`` has 8 fraction bits."""
    entry, fraction = shift_right(address, 8), address & 255
    start = SEGMENT_ENTRIES * np.clip(region - 1, 0, 5)
    table: Array = attributes["table_param"]
    low = table[start + np.clip(entry, 0, SEGMENT_ENTRIES - 1)]
    high = table[start + np.clip(entry + 1, 0, SEGMENT_ENTRIES - 1)]
    return np.asarray((low * (256 - fraction) + high * fraction + 128) >> 8)


def two_slopes(below: float, above: float, input_scale: float, output_scale: float) -> dict[str, Any]:
    """Attributes of a function of two lines through zero: only the outer regions are used.

    Source: reference/arithmetic.md 2.10.

    Args:
        below: slope of the function below zero.
        above: slope above.
        input_scale: value of one input unit.
        output_scale: value of one output unit.
    """
    flat = _line(0.0, 0.0)
    xs, ys = np.float32(input_scale), np.float32(output_scale)
    low, high = (_line(_in_units(np.float32(slope), xs, ys), 0.0) for slope in (below, above))
    lines = [low, *[flat] * SEGMENTS, high]
    table = [0] * (SEGMENTS * SEGMENT_ENTRIES)
    return {"table_param": table, "bound": [0] * 7 + [INT16_MAX], **_lists(lines)}


@dataclass(frozen=True)
class Line:
    """``(x * scale + (bias << left_shift)) >> right_shift``."""

    scale: int
    bias: int
    left_shift: int
    right_shift: int


def _line(slope: float, intercept: float) -> Line:
    """``slope * x + intercept``: mantissas of 15 bits, as far as the shifts allow it; steeper ones saturate.

    The slope is rounded first; where the intercept then allows less of a shift, its last bits are cut off.
    """
    finest = max(0, min(15 - int(np.frexp(slope)[1]), MAX_RIGHT_SHIFT))
    right = max(0, finest - max(0, _lift(intercept * 2.0**finest) - MAX_LEFT_SHIFT))
    left = min(_lift(intercept * 2.0**right), MAX_LEFT_SHIFT)
    scale = np.floor(np.rint(slope * 2.0**finest) / 2.0 ** (finest - right))
    bias = np.rint(intercept * 2.0 ** (right - left))
    least = INT16_MIN if right else -INT16_MAX
    return Line(int(np.clip(scale, least, INT16_MAX)), int(np.clip(bias, INT16_MIN, INT16_MAX)), left, right)


def _lift(value: float) -> int:
    """By how many bits ``value`` exceeds 15 bits."""
    return max(0, int(np.frexp(value)[1]) - 15)


def _lists(lines: Sequence[Line]) -> dict[str, Any]:
    return {field.name: [getattr(line, field.name) for line in lines] for field in fields(Line)}


@dataclass(frozen=True)
class Curve:
    """Where a function is defined and bent, so that its segments lie there.

    Attributes:
        low, high: it is nearly straight below and above.
        below, above: it is a line of this slope through zero there; None: the line through the last two entries.
        first, last: it is defined between them, or, where it is symmetric, its table holds that part of it.
        pole: whether it leaves every range towards ``first``: the table starts where it enters that of the output.
        even: whether all segments are equally long.
        symmetry: what negative inputs take from the table of positive ones.
    """

    low: float = -np.inf
    high: float = np.inf
    below: float | None = None
    above: float | None = None
    first: float = -np.inf
    last: float = np.inf
    pole: bool = False
    even: bool = False
    symmetry: Symmetry = Symmetry.NONE


WHOLE = Curve()
"""Bent as far as int16 reaches."""


def interpolation_tables(
    function: Function, input_scale: float, output_scale: float, curve: Curve = WHOLE, bits: int = 16
) -> dict[str, Any]:
    """Attributes for ``function`` where it is bent: the six segments lie there.

    The original's integers (golden conversions ``i16_exp``, ``i16_sig``; the tables of 34 functions in
    docs/evidence/field.md). Segments begin at points of a grid of 256 cells and share the sum of the absolute second
    differences on it evenly; those that would begin at one point share the way to it. Of functions that have no such
    points (not finite) its choice is not known: the largest interpolation error is made least. Grid, tables
    and lines are computed in float32; the outer lines go through the last two entries, unsaturated.

    The table holds the function where it is defined (``curve.first`` to ``curve.last``), never what it gives elsewhere.

    Args:
        function: element-wise, of float inputs.
        input_scale: value of one input unit.
        output_scale: value of one output unit.
        curve: where the function is defined and bent.
        bits: of the output.
    """
    xs, ys = np.float32(min(input_scale, _LARGEST_INPUT_SCALE)), np.float32(output_scale)
    low, high = float(INT16_MIN * xs), float(INT16_MAX * xs)
    is_low, is_high = curve.low > low, curve.high < high
    first, last = max(curve.first, low), min(curve.last, high)
    if first >= last:  # no input is where the function is defined: the value at that end
        first, last = low, high

    def valued(x: Floats) -> Floats:
        """The function where it is defined, in the precision of ``x``."""
        with np.errstate(all="ignore"):
            return np.asarray(function(np.clip(x, x.dtype.type(curve.first), x.dtype.type(curve.last))), x.dtype)

    def quantized(x: Floats) -> Floats:
        """Unsaturated output units, in the precision of ``x``."""
        with np.errstate(all="ignore"):
            return np.asarray(valued(x) / x.dtype.type(ys), x.dtype)

    start = _entry(first, last, quantized, float(2 ** (bits - 1) - 1)) if curve.pole else max(first, curve.low)
    # In float64 where a part is taken, as the tables of Elu, HardSwish and Swish show; elsewhere in float32.
    ends: Floats = np.array([start, min(last, curve.high)])
    grid = np.linspace(ends[0], ends[1], CELLS + 1, dtype=np.float32)
    if not (is_low or is_high):
        grid = _steps(np.float32(ends[0]), np.float32(ends[1]))
    edges = np.linspace(np.float32(ends[0]), np.float32(ends[1]), SEGMENTS + 1, dtype=np.float32)
    if not curve.even:
        edges = _edges(grid, valued, quantized, exact=is_low or is_high)
        edges[-1] = np.float32(ends[1])
    pieces = [np.linspace(a, b, SEGMENT_ENTRIES, dtype=np.float32) for a, b in pairwise(edges)]
    points = edges.astype(np.float64)
    units = (edges / xs if curve.even else points / np.float64(xs)).tolist()
    below = _secant(np.linspace(points[0], points[1], SEGMENT_ENTRIES)[1::-1], valued, xs, ys)
    above = _secant(np.linspace(points[-1], points[-2], SEGMENT_ENTRIES)[1::-1], valued, xs, ys)
    if is_low:
        below = _outer(curve.below, points[0], low, valued, xs, ys)
    elif curve.pole and start > first:
        below = _outer(None, points[0], first, valued, xs, ys)
    if is_high:
        above = _outer(curve.above, points[-1], high, valued, xs, ys)
    inner = [_address(a, b) for a, b in pairwise(edges / xs)]
    table = [entry for piece in pieces for entry in to_integers(quantized(piece), bits).tolist()]
    bounds = np.rint(units).astype(np.int64).tolist()
    if start <= low:
        bounds[0] = INT16_MIN
    if ends[1] >= high:
        bounds[-1] = INT16_MAX
    bounds.append(bounds[-1] if last < high else INT16_MAX)
    return {
        "symmetry_mode": curve.symmetry.value,
        "table_param": table,
        "bound": bounds,
        **_lists([below, *inner, above]),
    }


def _steps(first: np.float32, last: np.float32) -> NDArray[np.float32]:
    """The points of the grid over all inputs, in float32 throughout: points near zero are as coarse as the ends.

    All 17 recorded tables that differed have their offsets from this grid: a Sigmoid (the same table in 16 nodes of
    eight conversions, such as ``db_text_a``) and a Softplus (``activations_a_c``). Tables over a part do not.
    """
    step = np.float32((last - first) / np.float32(CELLS))
    return np.asarray(first + step * np.arange(CELLS + 1, dtype=np.float32))


def _entry(first: float, last: float, quantized: Quantizer, limit: float) -> float:
    """Where between ``first`` and ``last`` a function that comes from a pole enters the output's range."""

    sign = np.sign(quantized(np.array([first]))[0])

    def is_outside(x: float) -> bool:
        return bool(sign * quantized(np.array([x]))[0] > limit)

    if not is_outside(first) or is_outside(last):
        return first
    outside, inside = first, last
    while outside < (middle := (outside + inside) / 2) < inside:
        outside, inside = (middle, inside) if is_outside(middle) else (outside, middle)
    return inside


def _edges(grid: Floats, valued: Quantizer, quantized: Quantizer, exact: bool) -> Floats:
    """The ends of the six segments, points of ``grid``.

    Bends of a part, ``exact``, are summed in float64 and output units, others in float32 as the function gives them.
    """
    points = _even_bends(quantized(grid.astype(np.float64))) if exact else _even_shares(valued(grid))
    if points is None:
        points = _least_error(
            to_integers(quantized(grid)), to_integers(quantized((grid[1:] + grid[:-1]) / np.float32(2)))
        )
    return np.interp(points, np.arange(CELLS + 1), grid).astype(np.float32)


def to_integers(units: Floats, bits: int = 16) -> NDArray[np.int64]:
    """Rounded half away from zero and saturated; NaN becomes the least integer."""
    numbers = np.nan_to_num(units, nan=INT16_MIN, posinf=INT16_MAX, neginf=INT16_MIN)
    return saturate(round_away(np.clip(numbers, INT16_MIN, INT16_MAX)), bits)


def _address(start: np.float32, end: np.float32) -> Line:
    """The table address between ``start`` and ``end``, input units, in float32: all segments of 113 of 114 tables."""
    slope = np.float32(ADDRESS_RANGE) / (end - start)
    return _line(float(slope), float(-start * slope))


def _outer(slope: float | None, edge: float, end: float, valued: Quantizer, xs: np.float32, ys: np.float32) -> Line:
    """The line from ``edge`` to ``end``: of ``slope`` through zero where that is known."""
    if slope is not None:
        return _line(_in_units(np.float32(slope), xs, ys), 0.0)
    return _secant(np.array([edge, end]), valued, xs, ys)


def _secant(x: Floats, valued: Quantizer, xs: np.float32, ys: np.float32) -> Line:
    """The line through the function at ``x[0]``, the inner one, and ``x[1]``; constant where that is not finite.

    All in float32, in units of the float network: both lines of all 77 tables of Swish of a YOLO11 that was trained on
    ``scenes`` (docs/evidence/shipping.md), of which ten were right with float64 lines in units of the table.
    """
    points = x.astype(np.float32)
    (x0, x1), (y0, y1) = points, valued(points)
    with np.errstate(all="ignore"):
        slope = (y1 - y0) / (x1 - x0)
        units = _in_units(slope, xs, ys), float((y0 - slope * x0) * (np.float32(1) / ys))
    if not np.all(np.isfinite(units)):
        return _line(0.0, float(to_integers(valued(x) / ys)[0]))
    return _line(*units)


def _in_units(slope: np.float32, xs: np.float32, ys: np.float32) -> float:
    """``slope`` in output units per input unit, by the reciprocal of the output unit.

    13 of 13 tables of LeakyRelu, Relu and Abs, of which nine have the slope of a quotient.
    """
    return float(slope * xs * (np.float32(1) / ys))


def _even_bends(samples: Floats) -> list[float] | None:
    """Grid points that share the sum of absolute second differences evenly; ``None`` where there is no such sum."""
    with np.errstate(all="ignore"):
        total = np.cumsum(np.abs(np.diff(samples, 2)), dtype=np.float64)
    if not np.isfinite(total[-1]) or total[-1] == 0:
        return None
    shares = [int(np.argmax(total > share * total[-1] / SEGMENTS * (1 + _EQUAL))) for share in range(1, SEGMENTS)]
    return _spread([0, *(share + 2 for share in shares), CELLS])


def _even_shares(samples: Floats) -> list[float] | None:
    """As :func:`_even_bends`, all in float32: which of two points the middle of a Sigmoid is, the last bits decide.

    79 of 82 Sigmoids of as many scales (docs/evidence/agreement.md), of which float32 output units give 61.
    """
    with np.errstate(all="ignore"):
        total = np.cumsum(np.abs(np.diff(samples, 2)), dtype=np.float32)
    if not np.isfinite(total[-1]) or total[-1] == 0:
        return None
    part = np.float32(total[-1] / np.float32(SEGMENTS))
    shares = [int(np.argmax(total >= np.float32(share) * part)) for share in range(1, SEGMENTS)]
    return _spread([0, *(share + 2 for share in shares), CELLS])


def _spread(points: Sequence[int]) -> list[float]:
    """``points``, of which equal ones lie evenly on the way to the last of them."""
    known = sorted({point: index for index, point in enumerate(points)}.values())
    return [float(value) for value in np.interp(range(len(points)), known, [points[k] for k in known])]


def _least_error(samples: NDArray[np.int64], centres: NDArray[np.int64]) -> list[float]:
    """Seven grid points whose segments have the least largest interpolation error.

    Args:
        samples: function at the grid points, output units.
        centres: function in the middle of every cell.
    """
    bend = np.abs(samples[1:] - 2 * centres + samples[:-1]).astype(np.float64)
    error = np.full((CELLS + 1, CELLS + 1), np.inf)
    for start in range(CELLS):
        cells = np.arange(1, CELLS - start + 1)
        error[start, start + 1 :] = np.maximum.accumulate(bend[start:]) * (cells / (SEGMENT_ENTRIES - 1)) ** 2
    best = error[0]
    choices = []
    for _ in range(SEGMENTS - 1):
        options = np.maximum(best[:, None], error)
        choices.append(np.argmin(options, axis=0))
        best = options.min(axis=0)
    path = [CELLS]
    for choice in reversed(choices):
        path.append(int(choice[path[-1]]))
    return [0, *reversed(path[1:]), CELLS]
