"""HzLut2Layer: a function of one int16 activation, piecewise from interpolated tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import round_shift, shift_left, shift_right, to_type
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, ROUNDING, Schema

SEGMENT_ENTRIES = 64
SEGMENTS = 6
ADDRESS_RANGE = (SEGMENT_ENTRIES - 1) << 8
"""Table address, with 8 fraction bits, at the end of a segment."""
GRID = 256
"""Bounds of segments are multiples of this."""
INT16_MIN, INT16_MAX = -32768, 32767
OUTER_LEFT, OUTER_RIGHT = 0, 7


Function = Callable[[NDArray[np.float64]], NDArray[Any]]
Quantizer = Callable[[NDArray[np.float64]], NDArray[np.int64]]


class Lut2Layer(QuantizedOperator):
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
        "symmetry_mode": Attribute("str", "NONE", "always NONE"),
        "output_bit": OUTPUT_BIT,
        "rounding_method": ROUNDING,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int16 or int8 (ARITHMETIC.md 1, HzLut2Layer)."""
        x = np.asarray(inputs[0], np.int64)
        region = (x[..., None] > attributes["bound"][:OUTER_RIGHT]).sum(axis=-1)
        offset = shift_left(attributes["bias"], attributes["left_shift"])[region]
        linear = round_shift(x * attributes["scale"][region] + offset, attributes["right_shift"][region])
        outer = (region == OUTER_LEFT) | (region == OUTER_RIGHT)
        return (to_type(np.where(outer, linear, interpolate(linear, region, attributes)), attributes["output_bit"]),)


def interpolate(address: Array, region: Array, attributes: Attributes) -> Array:
    """Linear interpolation between neighbouring entries; ``address`` has 8 fraction bits."""
    entry, fraction = shift_right(address, 8), address & 255
    start = SEGMENT_ENTRIES * np.clip(region - 1, 0, 5)
    table: Array = attributes["table_param"]
    low = table[start + np.clip(entry, 0, SEGMENT_ENTRIES - 1)]
    high = table[start + np.clip(entry + 1, 0, SEGMENT_ENTRIES - 1)]
    return np.asarray((low * (256 - fraction) + high * fraction + 128) >> 8)


def two_slopes(below: float, above: float) -> dict[str, Any]:
    """Attributes of a function of two lines through zero: only the outer regions are used (ARITHMETIC.md 2.10)."""
    scale, shift = [0] * 8, [15] * 8
    if below:
        scale[OUTER_LEFT], shift[OUTER_LEFT] = round(below * 65536), 16
    scale[OUTER_RIGHT], shift[OUTER_RIGHT] = _fixed(above)
    zeros = [0] * 8
    return {
        "table_param": [0] * (SEGMENTS * SEGMENT_ENTRIES),
        "scale": scale,
        "bias": zeros,
        "left_shift": zeros,
        "right_shift": shift,
        "bound": [0] * 7 + [INT16_MAX],
    }


def _fixed(value: float) -> tuple[int, int]:
    """``value ~ mantissa * 2**-shift``; the mantissa has 15 bits, 16384 for powers of two."""
    mantissa, exponent = np.frexp(value)
    scaled = round(float(mantissa) * 32768)
    return min(scaled, 32767), 15 - int(exponent)


def interpolation_tables(function: Function, input_scale: float, output_scale: float) -> dict[str, Any]:
    """Attributes for ``function`` on the whole int16 range.

    How the original chooses its bounds is not known (ARITHMETIC.md 4.2). Here the largest interpolation error of the
    six segments is made as small as possible, by dynamic programming over a grid of 256 input steps.

    Args:
        function: of float64 inputs.
        input_scale: value of one input unit.
        output_scale: value of one output unit.
    """

    def quantized(x: NDArray[np.float64]) -> NDArray[np.int64]:
        with np.errstate(all="ignore"):
            y = np.nan_to_num(
                function(x * input_scale) / output_scale, nan=INT16_MIN, posinf=INT16_MAX, neginf=INT16_MIN
            )
        return np.clip(np.rint(y), INT16_MIN, INT16_MAX).astype(np.int64)

    edges = _segment_edges(quantized)
    tables, scale, bias, left, right = [], [0], [int(quantized(np.array([float(INT16_MIN)]))[0])], [0], [0]
    for start, end in pairwise(edges):
        positions = start + (end - start) * np.arange(SEGMENT_ENTRIES) / (SEGMENT_ENTRIES - 1)
        tables += quantized(positions).tolist()
        slope = ADDRESS_RANGE / (end - start)
        mantissa, shift = _fixed(slope)
        offset = -start * slope * 2.0**shift
        lift = max(0, int(np.ceil(np.log2(max(abs(offset), 1) / 32767))))
        scale.append(mantissa)
        right.append(shift)
        bias.append(round(offset / 2.0**lift))
        left.append(lift)
    scale.append(0)
    bias.append(int(quantized(np.array([float(INT16_MAX)]))[0]))
    left.append(0)
    right.append(0)
    bounds = [INT16_MIN, *(int(np.ceil(edge)) - 1 for edge in edges[1:-1]), INT16_MAX, INT16_MAX]
    return {
        "table_param": tables,
        "scale": scale,
        "bias": bias,
        "left_shift": left,
        "right_shift": right,
        "bound": bounds,
    }


def _segment_edges(quantized: Quantizer) -> list[float]:
    """Seven edges whose largest interpolation error is least."""
    grid = np.arange(INT16_MIN, INT16_MAX + 2, GRID)
    samples = quantized(np.arange(INT16_MIN, INT16_MAX + 2, GRID / 4)).astype(np.float64)
    bend = np.zeros(len(samples))
    bend[1:-1] = np.abs(samples[2:] - 2 * samples[1:-1] + samples[:-2]) / (GRID / 4) ** 2
    cells = np.maximum.reduceat(bend, np.arange(0, len(samples) - 1, 4))
    count = len(grid)
    error = np.full((count, count), np.inf)
    for start in range(count - 1):
        lengths = grid[start + 1 :] - grid[start]
        peak = np.maximum.accumulate(cells[start : count - 1])
        error[start, start + 1 :] = peak * (lengths / (SEGMENT_ENTRIES - 1)) ** 2 / 8
    best = error[0]
    choices = []
    for _ in range(SEGMENTS - 1):
        options = np.maximum(best[:, None], error)
        choices.append(np.argmin(options, axis=0))
        best = options.min(axis=0)
    path = [count - 1]
    for choice in reversed(choices):
        path.append(int(choice[path[-1]]))
    inner = [float(grid[index]) - 0.5 for index in reversed(path[1:])]
    return [float(INT16_MIN), *inner, INT16_MAX + 0.5]
