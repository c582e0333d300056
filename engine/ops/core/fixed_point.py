"""Fixed-point arithmetic of the BPU: shifts, rounding, saturation, and how real ratios become integers.

Notation of reference/arithmetic.md 0: ``>>`` is the arithmetic shift (floor), :func:`round_shift` is ``rnd``,
:func:`saturate` is
``satB``. Operators compute in int64, wide enough that only the wraps they ask for (:func:`wrap_int32`) happen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]
Array = NDArray[Any]

SCALE_BITS = 15
"""Bits of a requantisation multiplier's mantissa."""
SCALE_MAX = 32767
"""Largest multiplier; what a ratio rounds to beyond it is cut (16 results of matrix products, means, sums over an axis,
requantised tensors and convolutions that were asked with ratios from 32766.5 on: ``tests/parity/multipliers.py``)."""
SCALE_MAX_OF_PAIR = 32766
"""Largest output multiplier of a sum, a difference or a product of two maps (21 of 21 such ratios from 32766.5 on)."""
WIDE_SHIFT_MIN = 8
"""Smallest ``right_shift`` of a convolution that reads int16.

Shown by the channel of largest weights of five convolutions (``mobilenet_v3``, ``yolov8_nhwc``), whose ratio alone
gives 7; the 62 others have 8 and more anyway.
"""
REACH_MARGIN = 1e-8
"""A convolution's largest output takes one bit more where it is below a power of two by less than this share of it.

Fitted to 37 channels of five conversions whose weights were widened for an int16 result, so that it is a power of two
but for rounding: 22 take the bit, the lowest at -4.9e-9; 15 do not, the highest at -1.8e-8.
"""
ACCUMULATOR_SHIFT_MAX = 16
"""Largest ``right_shift`` that a convolution is given: that of the channels above. int8 results reach 15."""
INTEGER_TYPES: Mapping[int, np.dtype[Any]] = MappingProxyType(
    {8: np.dtype(np.int8), 16: np.dtype(np.int16), 32: np.dtype(np.int32)}
)


def shift_left(value: ArrayLike, bits: ArrayLike) -> Integers:
    """``value * 2**bits``; a negative count shifts right with floor."""
    return shift_right(value, -np.asarray(bits, np.int64))


def shift_right(value: ArrayLike, bits: ArrayLike) -> Integers:
    """``floor(value / 2**bits)``; a negative count shifts left."""
    v, s = np.asarray(value, np.int64), np.asarray(bits, np.int64)
    return np.where(s >= 0, v >> np.clip(s, 0, 63), v << np.clip(-s, 0, 63))


def round_shift(value: ArrayLike, bits: ArrayLike) -> Integers:
    """``floor(value / 2**bits + 1/2)``: half is rounded up; ``value`` itself for ``bits`` <= 0 is shifted left."""
    v, s = np.asarray(value, np.int64), np.asarray(bits, np.int64)
    half = np.where(s > 0, np.int64(1) << np.clip(s - 1, 0, 62), 0)
    return shift_right(v + half, s)


def saturate(value: ArrayLike, bits: int) -> Integers:
    """Clip to the range of a signed integer of ``bits`` bits; the dtype stays int64."""
    return np.clip(np.asarray(value, np.int64), -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def wrap_int32(value: ArrayLike) -> Integers:
    """``value`` modulo 2**32 as a signed 32-bit number: what an accumulator that overflows holds."""
    return np.asarray(value, np.int64).astype(np.int32).astype(np.int64)


def integer_type(bits: int) -> np.dtype[Any]:
    """numpy type of a signed integer of 8, 16 or 32 bits."""
    return INTEGER_TYPES[int(bits)]


def to_type(value: ArrayLike, bits: int) -> Array:
    """Saturate to ``bits`` bits and store as int8, int16 or int32."""
    return saturate(value, bits).astype(integer_type(bits))


def rescale(
    value: ArrayLike, accu_shift: ArrayLike, scale: ArrayLike, shift: ArrayLike, *, bits: int, rounding: str = "ROUND"
) -> Array:
    """``sat(rnd(sat16(value >> accu_shift) * scale, shift))``: the requantisation of most operators
    (reference/arithmetic.md 1).

    Args:
        value: integers of any shape.
        accu_shift: first shift, 0 or more, which floors; a number, or an array that broadcasts.
        scale: integer multiplier, likewise.
        shift: second shift, likewise; it rounds half up.
        bits: 8, 16 or 32, of the result, which saturates.
        rounding: ``FLOOR`` for a second shift that floors too.

    Returns:
        Signed integers of ``bits``, in the shape of ``value`` and the parameters broadcast.
    """
    product = saturate(shift_right(value, accu_shift), 16) * np.asarray(scale, np.int64)
    last = shift_right if rounding == "FLOOR" else round_shift
    return to_type(last(product, shift), bits)


def round_away(value: ArrayLike) -> NDArray[np.float64]:
    """Nearest integer as float64, a half away from zero."""
    v = np.asarray(value, np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(v) + 0.5), v))


@dataclass(frozen=True)
class Requantization:
    """``ratio ~ scale * 2**-(right_shift + out_shift)``, one value per channel, int64.

    Attributes:
        scale: multiplier, 16384..32767.
        right_shift: bits that the accumulator loses before it is saturated to 16 bits.
        out_shift: bits that the product with ``scale`` loses.
    """

    scale: Integers
    right_shift: Integers
    out_shift: Integers


def _multiplier(ratio: NDArray[np.float64], largest: int, *, half_up: bool = False) -> tuple[Integers, Integers]:
    """The 15-bit mantissa of ``ratio``, ``largest`` at the most, and the bits behind its point."""
    mantissa, exponent = np.frexp(ratio)
    rounded = (round_away if half_up else np.rint)(mantissa * (1 << SCALE_BITS))
    return np.minimum(rounded, largest).astype(np.int64), SCALE_BITS - exponent.astype(np.int64)


def _bounded(ratio: ArrayLike) -> NDArray[np.float64]:
    """``ratio`` within what shifts of 64 bits can express: what is beyond gives 0 or saturates all the same."""
    return np.clip(np.nan_to_num(np.atleast_1d(np.asarray(ratio, np.float64))), _LEAST_RATIO, 1 / _LEAST_RATIO)


_LEAST_RATIO = 2.0**-46


def requantization(
    ratio: ArrayLike,
    bits: int,
    shift_floor: int = 0,
    shift_cap: int | None = None,
    reach: ArrayLike | None = None,
    largest_scale: int = SCALE_MAX,
    *,
    half_up: bool = False,
) -> Requantization:
    """Split accumulator scale / output scale into multiplier and shifts: ``req`` of reference/arithmetic.md 2.3
    and 2.6.

    Args:
        ratio: positive float64, what one accumulator unit is in output units.
        bits: width of the output, 8 or 16; it fixes how many bits the accumulator may keep.
        shift_floor: lower limit of ``right_shift``.
        shift_cap: upper limit of it; :data:`ACCUMULATOR_SHIFT_MAX` for convolutions, None elsewhere.
        reach: what the largest output is in accumulator units, from which a convolution's ``right_shift`` follows: its
            threshold as it was before the scale was rounded to float32. None where ``ratio`` says it.
        largest_scale: upper limit of the multiplier.
        half_up: whether a multiplier between two integers becomes the larger, not the even one.

    Nothing shifts left behind the multiplier: a ratio beyond 2**15 saturates (the mean of a normalised tensor in
    ``swin``), so does an infinite one, of an output whose scale is 0. A ratio of 0, of an infinite output scale, gives
    0.
    """
    r = _bounded(ratio)
    scale, total = _multiplier(r, largest_scale, half_up=half_up)
    qmax = (1 << (bits - 1)) - 1
    largest = qmax / r if reach is None else _bounded(reach) * (1 + REACH_MARGIN)
    wanted = np.ceil(np.log2(largest / SCALE_MAX)).astype(np.int64)
    right_shift = np.clip(wanted, shift_floor, shift_cap)
    return Requantization(scale, right_shift, np.maximum(total - right_shift, 0))


def requantization_of_pair(ratio: float, bits: int) -> Requantization:
    """As :func:`requantization`, for sums, differences and products of two maps.

    The multiplier's shift is fixed, 22 for int8 and 14 for int16; the rest is taken off the accumulator. Where the
    multiplier is above 32511 this is one bit more than elsewhere (21 of 21 such sums and differences in 9 networks, and
    10 of 10 products on bayes-e and bernoulli2 that were asked with multipliers from 32512 to 32760, beside 14 below).
    Of an int16 result a power of two has the largest multiplier and one bit more, so that it is just below itself (25
    of 25 sums and differences asked with ratios from a quarter to four, and four of drawn networks; none of 30 of
    int8). No more than 17 bits are taken off the accumulator, and the rest behind the multiplier (all 90 sums,
    differences and products of int16 that were asked on bayes and bayes-e, of operands down to 2^-14 of the result; of
    int8 the bound of the ratio leaves no more, 6 differences asked).
    """
    bounded = _bounded(ratio)
    scale, total = _multiplier(bounded, SCALE_MAX_OF_PAIR)
    right_shift = np.clip(total - _PAIR_SHIFT[bits], 0, _MOST_OFF_PAIR)
    out_shift = np.maximum(total - right_shift, 0)
    if bits == 16:
        is_power = np.frexp(bounded)[0] == 0.5
        scale = np.where(is_power, SCALE_MAX_OF_PAIR, scale)
        out_shift = out_shift + is_power
    return Requantization(scale, right_shift, out_shift)


_PAIR_SHIFT = MappingProxyType({8: 22, 16: 14})
_MOST_OFF_PAIR = 17


def mantissa_and_shift(ratio: ArrayLike) -> tuple[Integers, Integers]:
    """``ratio ~ scale * 2**shift`` with a 15-bit ``scale`` (``e_scale``, ``e_shift`` of reference/arithmetic.md 2.5),
    32767 at the most (``regnet_se`` with all own options, as the original built it).
    """
    scale, places = _multiplier(np.asarray(ratio, np.float64), SCALE_MAX)
    return scale, -places


def operand_shift(ratio: float) -> int:
    """Bits by which a sum of two maps shifts the operand of the larger scale to the left: the most with which
    ``ratio``, the other scale over that, is no more than 32767 (``x_shift`` of reference/arithmetic.md 2.6).

    Of ratios between 32766.5 and 32768, those above 32767 give one bit less, and an ``e_scale`` of 16384 (18 of 18 sums
    and differences that were asked: ``tests/parity/multipliers.py``).
    """
    return math.floor(math.log2(SCALE_MAX / float(_bounded(ratio)[0])))


def split_bias(bias: ArrayLike) -> tuple[Integers, Integers]:
    """A 16-bit bias and the left shift that brings it back (bernoulli2, ConvTranspose; reference/arithmetic.md
    2.3, 2.9).

    Args:
        bias: integers, as float64 or int64.

    Returns:
        ``trunc(bias / 2**shift)`` and ``shift = max(0, floor(log2(|bias|)) - 14)``: 2^21 is 16384 shifted by 7.
    """
    value = np.asarray(bias, np.float64)
    magnitude = np.maximum(np.abs(value), 1.0)
    shift = np.maximum(0, np.floor(np.log2(magnitude)) - 14).astype(np.int64)
    return np.trunc(value / np.exp2(shift)).astype(np.int64), shift
