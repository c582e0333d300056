"""Fixed-point primitives and the derivation of requantisation integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ops.core import fixed_point as fp


@given(value=st.integers(-(2**31), 2**31 - 1), bits=st.integers(0, 40))
def test_shifts_are_exact_floors_and_roundings(value: int, bits: int) -> None:
    assert int(fp.shift_right(value, bits)) == value // 2**bits
    rounded = value if bits == 0 else (2 * value + 2**bits) // 2 ** (bits + 1)
    assert int(fp.round_shift(value, bits)) == rounded


@given(value=st.integers(-(2**20), 2**20), bits=st.integers(0, 20))
def test_negative_count_shifts_left(value: int, bits: int) -> None:
    assert int(fp.shift_right(value, -bits)) == value * 2**bits == int(fp.shift_left(value, bits))


@given(value=st.integers(-(2**62), 2**62))
def test_wrap_is_modulo_two_to_the_32(value: int) -> None:
    assert int(fp.wrap_int32(value)) == (value + 2**31) % 2**32 - 2**31


def test_saturation() -> None:
    np.testing.assert_array_equal(fp.to_type([-129, -128, 127, 128], 8), np.array([-128, -128, 127, 127], np.int8))
    np.testing.assert_array_equal(fp.saturate([40000, -40000], 16), [32767, -32768])


def test_half_is_rounded_away_from_zero() -> None:
    np.testing.assert_array_equal(fp.round_away([0.5, -0.5, 1.5, 2.4999, -2.5]), [1, -1, 2, 2, -3])


@pytest.mark.parametrize("bits", [8, 16])
@given(ratio=st.floats(2.0**-20, 2.0**4))
def test_requantization_approximates_its_ratio(bits: int, ratio: float) -> None:
    """15 bits of mantissa: relative error up to 2^-15, at the saturated mantissa 32767 up to 2^-15 as well."""
    split = fp.requantization(ratio, bits)
    (scale,), (right,), (out) = split.scale, split.right_shift, split.out_shift
    assert 16384 <= scale <= 32767
    assert 0 <= right <= 20
    assert float(scale) * 2.0 ** -float(right + out[0]) == pytest.approx(ratio, rel=2.0**-15)


@pytest.mark.parametrize(
    ("share", "shift"),
    [(1.0, 16), (1 - 4.9e-9, 16), (1 - 1.8e-8, 15), (np.inf, 16), (0.0, 0), (np.nan, 0)],
)
def test_the_reach_of_a_convolution_decides_its_shift(share: float, shift: int) -> None:
    """The nearest of the original's on both sides of the margin, and thresholds that are no numbers."""
    reach = 2.0**15 * fp.SCALE_MAX * share
    split = fp.requantization(2.0**-15, 16, 0, fp.ACCUMULATOR_SHIFT_MAX, reach)
    assert (split.right_shift.tolist(), split.out_shift.tolist()) == ([shift], [29 - shift])


@given(ratio=st.floats(2.0**-18, 1.0))
def test_accumulator_keeps_no_more_bits_than_16(ratio: float) -> None:
    """The largest output corresponds to an accumulator that fits 16 bits after ``right_shift``."""
    split = fp.requantization(ratio, 8)
    assert 127 / ratio / 2.0 ** float(split.right_shift[0]) <= 32767


@given(bias=st.integers(-(2**30), 2**30))
def test_split_bias_fits_16_bits_and_loses_less_than_its_last_bit(bias: int) -> None:
    value, shift = fp.split_bias(bias)
    assert abs(int(value)) <= 32767
    assert abs(bias - (int(value) << int(shift))) < 2 ** int(shift)


def test_residual_scale() -> None:
    scale, shift = fp.mantissa_and_shift(0.75)
    assert (int(scale), int(shift)) == (24576, -15)


@pytest.mark.parametrize("bits", [8, 16])
def test_multiplier_of_a_sum_has_one_shift(bits: int) -> None:
    """Also where that of a convolution keeps one bit more of the accumulator: multipliers above 32511."""
    for mantissa in (0.5001, 0.75, 0.9999):
        split = fp.requantization_of_pair(mantissa * 2.0**-15, bits)
        assert split.out_shift.tolist() == [{8: 22, 16: 14}[bits]]
        assert split.scale[0] * 2.0 ** -float(split.right_shift[0] + split.out_shift[0]) == pytest.approx(
            mantissa * 2.0**-15, rel=2.0**-14
        )


@pytest.mark.parametrize("exponent", [18, 20, 24])
def test_no_more_than_17_bits_are_taken_off_the_sum_of_two_int16_maps(exponent: int) -> None:
    split = fp.requantization_of_pair(0.75 * 2.0**-exponent, 16)
    assert (int(split.scale[0]), int(split.right_shift[0]), int(split.out_shift[0])) == (24576, 17, exponent - 2)


@pytest.mark.parametrize(("bits", "expected"), [(8, (16384, 9, 22)), (16, (32766, 17, 15))])
def test_power_of_two_is_just_below_itself_in_int16(bits: int, expected: tuple[int, int, int]) -> None:
    split = fp.requantization_of_pair(2.0**-17, bits)
    assert (int(split.scale[0]), int(split.right_shift[0]), int(split.out_shift[0])) == expected


def test_nothing_shifts_left_behind_a_multiplier() -> None:
    assert fp.requantization(1e7, 8).out_shift.tolist() == [0]


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(("ratio", "expected"), [(0.0, 0), (np.nan, 0), (1e-300, 0), (np.inf, 1), (1e300, 1)])
def test_ratios_beyond_all_shifts_give_0_or_saturate(bits: int, ratio: float, expected: int) -> None:
    with np.errstate(all="raise"):
        for split in (fp.requantization(ratio, bits), fp.requantization_of_pair(ratio, bits)):
            product = fp.round_shift(1000, split.right_shift) * split.scale
            largest = (1 << (bits - 1)) - 1
            assert fp.saturate(fp.round_shift(product, split.out_shift), bits).tolist() == [largest * expected]
