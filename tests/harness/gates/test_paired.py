"""Tests on paired predictions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from harness.gates.paired import paired_interval, paired_p_value, paired_p_values

SAMPLES = 500


def test_p_values_by_hand() -> None:
    assert paired_p_value(np.zeros(10)) == 1.0
    assert paired_p_value(np.array([1.0] * 5 + [0.0] * 95)) == pytest.approx(1 / 32)
    assert paired_p_value(np.array([1.0] * 4 + [-1.0])) == pytest.approx(6 / 32)
    # Of the 8 equally likely signs of (3, 2, 1), one sum reaches 6 and two reach 4.
    assert paired_p_value(np.array([0.3, 0.2, 0.1])) == pytest.approx(1 / 8, abs=0.02)
    assert paired_p_value(np.array([0.3, 0.2, -0.1])) == pytest.approx(2 / 8, abs=0.02)


def test_chance_alone_is_flagged_no_more_often_than_the_significance_allows() -> None:
    rng = np.random.default_rng(0)
    sure = rng.random(SAMPLES) < 0.9
    undecided = rng.random(SAMPLES) < 0.05
    flags = 0
    for _ in range(200):
        first, second = (np.where(undecided, rng.random(SAMPLES) < 0.5, sure) for _ in range(2))
        flags += paired_p_value(second.astype(float) - first.astype(float)) < 0.05
    assert flags <= 200 * 0.05


@pytest.mark.parametrize(("won", "lost"), [(1, 0), (7, 2), (2, 7), (20, 20)])
def test_changes_of_one_size_are_a_binomial_test(won: int, lost: int) -> None:
    """McNemar's, exact and one-sided; ties take no part."""
    differences = np.array([1.0] * won + [-1.0] * lost + [0.0] * 30)
    expected = stats.binomtest(won, won + lost, alternative="greater").pvalue
    assert paired_p_value(differences) == pytest.approx(expected)
    assert paired_p_value(differences / 4) == pytest.approx(expected)


def test_changes_of_several_sizes_are_a_test_of_signs_at_random() -> None:
    differences = np.array([0.9, 0.5, 0.3, -0.2, 0.25, -0.1, 0.05, 0.7])
    sums = [np.dot(signs, np.abs(differences)) for signs in itertools.product((-1, 1), repeat=8)]
    exact = np.mean(np.array(sums) >= differences.sum() - 1e-9)
    assert paired_p_value(differences) == pytest.approx(exact, abs=4 * np.sqrt(exact / 10_000))
    assert paired_p_value(differences) == paired_p_value(differences.copy())
    assert paired_p_value(np.linspace(0.1, 1, 60)) == 1 / 10_001  # never 0, however many were drawn


def test_what_rounding_to_thousandths_leaves_is_no_change() -> None:
    assert paired_p_value(np.array([0.0005, 0.0005, 0.0004])) == 1.0
    assert paired_p_value(np.array([0.00051] * 5)) == pytest.approx(1 / 32)


def test_rows_are_tested_each_by_itself() -> None:
    rows = np.array([[0.0] * 6, [1.0] * 6, [1.0, 1.0, 1.0, -1.0, 0.0, 0.0], [0.3, 0.2, 0.1, 0.0, 0.0, 0.0]])
    assert paired_p_values(rows) == pytest.approx([paired_p_value(row) for row in rows])
    assert paired_p_values(np.zeros((2, 0))).tolist() == [1, 1]


def test_the_interval_is_196_standard_errors_around_the_mean() -> None:
    differences = np.array([0.0] * 90 + [1.0] * 7 + [-1.0] * 3)
    low, high = paired_interval(differences)
    half = stats.norm.ppf(0.975) * stats.sem(differences)
    assert (low, high) == (pytest.approx(0.04 - half, rel=1e-6), pytest.approx(0.04 + half, rel=1e-6))
    assert paired_interval(np.array([0.5])) == (0.5, 0.5)
