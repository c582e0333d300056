"""Bounds of stages as texts."""

from __future__ import annotations

import math

import pytest

from engine.debug.bisection.stages import ALLOWED, FLOAT_STAGES, INTEGER_STAGES, Bounds, StageName, parse_bounds
from engine.errors import ConfigError


def test_bounds_are_read_per_stage() -> None:
    found = parse_bounds(["quantized:sqnr=30", "quantized:requantisation=2", "bin:lsb=1"])
    assert found == {StageName.QUANTIZED: Bounds(sqnr=30.0, requantisation=2.0), StageName.BIN: Bounds(lsb=1.0)}
    for text in ("sqnr=30", "quantized:speed=1", "optimized:lsb=1", "source:sqnr=1", "bin:lsb=one", "binary:lsb=1"):
        with pytest.raises(ConfigError, match="bound"):
            parse_bounds([text])


def test_bounds_where_nobody_says() -> None:
    assert Bounds() == Bounds(relative=1e-4, threshold=20.0, lsb=0.0)


def test_stages_compute_in_floats_or_integers() -> None:
    assert {"source", "original", "optimized", "calibrated"} == FLOAT_STAGES
    assert {"quantized", "bin", "dumps", "foreign"} == INTEGER_STAGES


@pytest.mark.parametrize(
    ("bound", "stages"),
    [
        ("relative", {"original", "optimized", "calibrated"}),
        ("threshold", {"calibrated"}),
        ("lsb", {"quantized", "bin", "dumps", "foreign"}),
        ("requantisation", {"quantized"}),
        ("sqnr", set(StageName) - {"source"}),
    ],
)
def test_stages_that_a_bound_may_be_given_for(bound: str, stages: set[str]) -> None:
    assert ALLOWED[bound] == stages
    for stage in StageName:
        if stage in stages:
            assert getattr(parse_bounds([f"{stage}:{bound}=3"])[stage], bound) == 3
        else:
            with pytest.raises(ConfigError, match="expected STAGE:BOUND=NUMBER; allowed are"):
                parse_bounds([f"{stage}:{bound}=3"])


def test_what_is_no_number() -> None:
    with pytest.raises(ConfigError, match=r"bound 'bin:lsb=': '' is no number"):
        parse_bounds(["bin:lsb="])
    with pytest.raises(ConfigError, match=r"bound 'bin:lsb=nan': nothing keeps a bound of NaN"):
        parse_bounds(["bin:lsb=nan"])
    assert parse_bounds(["quantized:sqnr=-inf"])[StageName.QUANTIZED].sqnr == -math.inf
