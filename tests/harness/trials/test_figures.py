"""Figures of a trial: differences, shares, intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from harness.trials.figures import Accuracy, Footprint, HalfScore, delta_stderr


def accuracy(value: float, float_value: float, **changes: Any) -> Accuracy:
    fields = {"metric": "m", "float_value": float_value, "value": value, "stderr": 0.1, "delta_stderr": 0.02}
    return Accuracy.model_validate({**fields, **changes})


def test_differences_and_their_interval() -> None:
    found = accuracy(0.75, 0.8)
    assert found.delta == pytest.approx(-0.05)
    assert found.ratio == pytest.approx(0.9375)
    assert found.margin == pytest.approx(stats.norm.ppf(0.975) * 0.02, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "float_value", "higher", "expected"),
    [
        (0.6, 0.8, True, 0.75),
        (0.0, 0.8, True, 0.0),
        (0.5, 0.0, True, 1.0),
        (0.0, 0.0, True, 1.0),
        (0.8, 0.6, False, 0.75),
        (0.0, 0.0, False, 1.0),
        (0.0, 0.6, False, math.inf),
        (0.6, 0.0, False, 0.0),
    ],
)
def test_goodness_is_below_one_where_the_quantised_model_is_worse(
    value: float, float_value: float, higher: bool, expected: float
) -> None:
    found = accuracy(value, float_value, higher_is_better=higher)
    assert found.goodness == pytest.approx(expected)
    assert found.chosen_by == pytest.approx(expected)


def test_settings_are_chosen_by_their_half() -> None:
    half, other = HalfScore(float_value=0.5, value=0.4), HalfScore(float_value=0.5, value=0.1)
    assert accuracy(0.9, 0.9, selection=half, test=other).chosen_by == pytest.approx(0.8)
    assert accuracy(0.9, 0.9, selection=half, test=other, higher_is_better=False).chosen_by == pytest.approx(1.25)


def test_times_add_up() -> None:
    assert Footprint(latency_ms=1.5, cpu_ms=0.25, ddr_mb=1, cpu_nodes=1, subgraphs=1).total_ms == 1.75


def test_the_standard_error_is_that_of_the_mean_difference() -> None:
    random = np.random.RandomState(0)
    ours, floats = random.rand(50), random.rand(50)
    assert delta_stderr(ours, floats) == pytest.approx(stats.sem(ours - floats))
    assert delta_stderr(ours, ours) == 0
    assert delta_stderr(ours[:1], floats[:1]) == 0
