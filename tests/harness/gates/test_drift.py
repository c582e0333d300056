"""Drift since the anchor: its significance over all nights, and where it began."""

from __future__ import annotations

import numpy as np
import pytest

from harness.gates.drift import drifts, holm, looks, steps
from harness.gates.nights import Night, TrialNight
from harness.gates.verdicts import Verdict

TRIAL = "net/bayes-e/max"


def series(values: list[float], p: list[float | None] | None = None, version: int = 1) -> list[Night]:
    """Nights of one trial with these accuracies; equal accuracies are equal predictions."""
    return [
        Night(
            sweep=str(index),
            started_at=f"2026-01-{index + 1:02}T03:00:00+00:00",
            version=version,
            verdict=Verdict.PASS,
            engine="1",
            anchor={"accuracy.quantized": {TRIAL: values[0]}},
            trials={
                TRIAL: TrialNight(
                    figures={"accuracy.quantized": value}, predictions=str(value), p=None if p is None else p[index]
                )
            },
        )
        for index, value in enumerate(values)
    ]


def test_nights_of_equal_predictions_are_one_look() -> None:
    nights = series([0.9, 0.9, 0.8, 0.9, 0.8], [1.0, 1.0, 0.001, 1.0, 0.001])
    assert looks(nights, TRIAL) == 2
    (drift,) = drifts(nights)
    assert drift.p == pytest.approx(0.001 * 2 * 3)


def test_shares_of_all_looks_add_up_to_one() -> None:
    assert sum(1 / (k * (k + 1)) for k in range(1, 100_000)) == pytest.approx(1.0, abs=1e-4)


def test_chance_alone_is_rarely_called_drift() -> None:
    """500 series of 90 nights without drift: at 5 % no more than 5 % of them may ever be significant."""
    random = np.random.default_rng(0)
    alarms = 0
    for _ in range(500):
        p = random.random(90)
        counts = np.arange(1, 91)
        alarms += bool((p * counts * (counts + 1) < 0.05).any())
    assert alarms / 500 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 500)


def test_holm() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


def test_the_night_in_which_a_loss_began_is_named() -> None:
    (drift,) = drifts(series([0.9] * 5 + [0.88] * 4 + [0.87] * 3))
    assert [(step.night, round(step.after, 3)) for step in drift.steps] == [(5, 0.88), (9, 0.87)]
    assert drift.began == 5
    assert drift.change == pytest.approx(-0.03)


def test_a_loss_that_was_made_up_for_did_not_begin_then() -> None:
    (drift,) = drifts(series([0.9] * 5 + [0.86] * 4 + [0.9] * 5 + [0.89] * 4))
    assert drift.began == 14


def test_what_is_better_than_the_anchor_is_no_loss() -> None:
    (drift,) = drifts(series([0.9] * 5 + [0.92] * 4))
    assert not drift.is_loss
    assert drift.began is None


@pytest.mark.nightly
def test_jumps_are_found_in_noise_and_noise_is_no_jump() -> None:
    random = np.random.default_rng(1)
    noise = random.normal(0, 0.002, (40, 90))
    jumps = np.zeros(90)
    jumps[30:], jumps[55:], jumps[75:] = -0.01, 0.01, -0.005
    quiet = [steps(0.9 + row) for row in noise]
    found = [[step.night for step in steps(0.9 + jumps + row)] for row in noise]
    assert sum(map(bool, quiet)) <= 4
    assert sum(nights == [30, 55, 75] for nights in found) >= 36


def test_a_trial_that_was_missing_for_nights_keeps_its_place() -> None:
    found = steps(np.array([1.0, 1.0, np.nan, np.nan, 2.0, 2.0]))
    assert [(step.night, step.before, step.after) for step in found] == [(4, 1.0, 2.0)]


def test_another_version_of_the_suite_begins_anew() -> None:
    (drift,) = drifts([*series([0.5, 0.5]), *series([0.9, 0.9], version=2)])
    assert drift.values.tolist() == [0.9, 0.9]
    assert drifts([]) == []
