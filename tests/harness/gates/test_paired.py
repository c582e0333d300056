"""Tests on paired predictions."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from harness.gates.baseline import updated_baseline
from harness.gates.paired import (
    MetricEvidence,
    error_of_lead,
    interval_of_lead,
    least_by_chance,
    p_ahead,
    p_apart,
    paired_p_value,
    paired_p_values,
)
from harness.metrics.resampling import RESAMPLES, means, sides, weightings
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes
from tests.harness.finished import suite

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


def test_what_random_signs_cannot_show_is_bounded() -> None:
    """Hoeffding's bound, where no drawn change of signs reaches the sum: above 0, and above the exact share."""
    differences = np.linspace(0.1, 1, 60)
    bound = np.exp(-(differences.sum() ** 2) / (2 * np.square(differences).sum()))
    assert 0.5**60 < bound < 1e-9
    assert paired_p_value(differences) == pytest.approx(bound)


def test_what_rounding_to_thousandths_leaves_is_no_change() -> None:
    assert paired_p_value(np.array([0.0005, 0.0005, 0.0004])) == 1.0
    assert paired_p_value(np.array([0.00051] * 5)) == pytest.approx(1 / 32)


def test_rows_are_tested_each_by_itself() -> None:
    rows = np.array([[0.0] * 6, [1.0] * 6, [1.0, 1.0, 1.0, -1.0, 0.0, 0.0], [0.3, 0.2, 0.1, 0.0, 0.0, 0.0]])
    assert paired_p_values(rows) == pytest.approx([paired_p_value(row) for row in rows])
    assert paired_p_values(np.zeros((2, 0))).tolist() == [1, 1]


def mean_of(scores: np.ndarray) -> MetricEvidence:
    return MetricEvidence(float(scores.mean()), scores, None, len(scores))


def ratio_of(parts: np.ndarray, wholes: np.ndarray) -> MetricEvidence:
    """A metric that is a ratio of sums: no mean of scores per image."""
    weights = weightings(len(parts))
    values = (weights @ parts) / (weights @ wholes)
    return MetricEvidence(float(parts.sum() / wholes.sum()), parts / wholes, values, len(parts))


def test_the_interval_is_196_standard_errors_around_the_lead() -> None:
    differences = np.array([0.0] * 90 + [1.0] * 7 + [-1.0] * 3)
    low, high = interval_of_lead(mean_of(differences), mean_of(np.zeros(100)))
    half = stats.norm.ppf(0.975) * stats.sem(differences)
    assert (low, high) == (pytest.approx(0.04 - half, rel=1e-6), pytest.approx(0.04 + half, rel=1e-6))
    assert interval_of_lead(mean_of(np.array([0.5])), mean_of(np.zeros(1))) == (0.5, 0.5)


def of_resamples(value: float, draws: np.ndarray) -> MetricEvidence:
    return MetricEvidence(value, np.ones(50), draws, 50)


def test_the_least_of_independent_pairs_is_tukeys_studentized_range() -> None:
    random = np.random.RandomState(0)
    by_resamples = [of_resamples(0.5, random.randn(RESAMPLES)) for _ in range(4)]
    by_scores = [mean_of(random.randn(4000)) for _ in range(4)]
    for models in (by_resamples, by_scores):
        least = least_by_chance(models)
        for first, count in enumerate((4, 3, 2)):
            each = np.quantile(least[first], 0.05)
            width = stats.norm.isf(each / 2) * 2**0.5
            assert stats.studentized_range.sf(width, count, np.inf) == pytest.approx(0.05, abs=0.01)
        assert least[3].tolist() == [1.0] * len(least[3])


def test_models_that_fail_together_are_nearly_one_comparison() -> None:
    """Two pairs that are alike: the p values of all four pairs across are one and the same."""
    random = np.random.RandomState(0)
    good, bad = random.randn(2, RESAMPLES)
    models = [of_resamples(0.9, good), of_resamples(0.9, good), of_resamples(0.5, bad), of_resamples(0.5, bad)]
    assert np.quantile(least_by_chance(models)[0], 0.05) == pytest.approx(0.05, abs=0.006)
    nearly = [
        of_resamples(model.value, draws + 0.01 * random.randn(RESAMPLES))
        for model in models
        for draws in [model.resampled]
    ]
    assert 0.05 / 6 < np.quantile(least_by_chance(nearly)[0], 0.05) < 0.05 / 2


def test_leads_that_are_the_same_on_all_resamples_are_independent() -> None:
    models = [of_resamples(value, np.full(RESAMPLES, value)) for value in (1.0, 0.5, 0.0)]
    least = least_by_chance(models)[0]
    assert np.quantile(least, 0.05) == pytest.approx(1 - 0.95 ** (1 / 3), abs=0.003)
    assert least_by_chance([models[0]] * 2).min() == 1.0


def test_undefined_resamples_take_no_part() -> None:
    random = np.random.RandomState(0)
    draws = random.randn(2, RESAMPLES)
    draws[0, :900] = np.nan
    assert np.quantile(least_by_chance([of_resamples(0.5, row) for row in draws])[0], 0.05) == pytest.approx(
        0.05, abs=0.006
    )
    draws[0] = np.nan
    assert least_by_chance([of_resamples(0.5, row) for row in draws]).min() == 1.0


def test_of_a_mean_scores_are_tested() -> None:
    first, second = mean_of(fakes.hits(36)), mean_of(fakes.hits(30))
    assert p_ahead(first, [second, first]).tolist() == [pytest.approx(1 / 64), 1.0]
    assert p_apart(second, [first]).tolist() == [pytest.approx(2 / 64)]
    assert p_ahead(first, []).tolist() == p_apart(first, []).tolist() == []


def test_of_any_other_metric_its_own_resamples_are() -> None:
    """Images count by their size: what is lost in the largest image counts most, as it does in the metric."""
    random = np.random.RandomState(0)
    wholes = random.randint(1, 30, 60).astype(np.float64)
    full = ratio_of(wholes, wholes)
    lost = ratio_of(wholes - (wholes > 20) * random.randint(0, 9, 60), wholes)
    error = error_of_lead(full, lost)
    draws = weightings(60)[:RESAMPLES]
    differences = 1 - (draws @ (lost.per_sample * wholes)) / (draws @ wholes)
    assert error == pytest.approx(differences.std(ddof=1), rel=1e-3)
    assert p_ahead(full, [lost])[0] == pytest.approx(stats.t.sf((full.value - lost.value) / error, 59))
    assert p_ahead(lost, [full])[0] > 0.99
    assert p_ahead(full, [full]).tolist() == [1.0]


def test_the_smallest_p_value_is_that_of_all_images_alike() -> None:
    """1.00 against 0 on every resample: all 19 images with objects decide for the first, and none can decide more."""
    constant = np.ones(RESAMPLES + 50)
    perfect = MetricEvidence(1.0, np.ones(50), constant, 19)
    nothing = MetricEvidence(0.0, np.zeros(50), 0 * constant, 19)
    assert p_ahead(perfect, [nothing]).tolist() == [0.5**19]
    one = MetricEvidence(1.0, np.ones(50), constant, 1)
    assert p_apart(one, [nothing]).tolist() == [1.0]


def test_resampled_chance_is_flagged_no_more_often_than_the_significance_allows() -> None:
    random, flags = np.random.RandomState(0), 0
    for _ in range(200):
        wholes = random.randint(1, 30, 25).astype(np.float64)
        first, second = (ratio_of(random.binomial(wholes.astype(int), 0.8).astype(float), wholes) for _ in range(2))
        flags += int(p_apart(first, [second])[0] < 0.05)
    assert flags <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)


def test_scores_of_another_kind_are_not_paired() -> None:
    scores = fakes.hits(30)
    assert mean_of(scores).pairs_with(mean_of(fakes.hits(36)))
    assert not mean_of(scores).pairs_with(mean_of(scores[:39]))
    assert not mean_of(scores).pairs_with(ratio_of(scores, np.ones(40)))


def test_the_sides_of_a_mean_are_means() -> None:
    scores = np.random.RandomState(0).rand(30)
    np.testing.assert_allclose(mean_of(scores).on_sides(), means(scores)[RESAMPLES:])
    resampled = MetricEvidence(0.5, scores, means(scores), 30)
    np.testing.assert_allclose(resampled.on_sides(), mean_of(scores).on_sides())
    assert len(mean_of(scores).on_sides()) == len(sides(30))


def test_of_an_error_less_is_more() -> None:
    result = fakes.result(fakes.spec(), value=0.25)
    assert result.accuracy is not None
    accuracy = result.accuracy.model_copy(update={"higher_is_better": False})
    result = result.model_copy(update={"accuracy": accuracy})
    found = MetricEvidence.of(result, {"per_sample": fakes.hits(10)})
    floats = MetricEvidence.of_float(result, {"float_per_sample": fakes.hits(20)})
    assert found is not None
    assert floats is not None
    assert (found.value, floats.value, found.changed_from(floats)) == (-0.25, -0.5, (10, 0))
    assert MetricEvidence.of(result, {}) is None
    assert MetricEvidence.of_float(result, {}) is None


def test_a_baseline_keeps_what_pairs(tmp_path: Path) -> None:
    """Of a metric that is no mean its draws too, bit for bit; on other data nothing pairs."""
    store, result = TrialStore(tmp_path), fakes.result(fakes.spec())
    values = means(np.random.RandomState(0).rand(40)).astype(np.float32)
    kept = {"per_sample": fakes.hits(36), "resampled": values}
    store.put(Outcome(result, (), kept))
    accepted = updated_baseline(None, suite(), [result], store).trials[result.spec.id]
    before, now = MetricEvidence.of_accepted(accepted, result), MetricEvidence.of(result, kept)
    assert before is not None
    assert now is not None
    assert before.pairs_with(now)
    assert error_of_lead(before, now) == 0
    assert p_apart(before, [now]).tolist() == [1.0]
    assert MetricEvidence.of_accepted(accepted, fakes.result(fakes.spec(data="other"))) is None
    old = accepted.model_copy(update={"resampled": None})
    older = MetricEvidence.of_accepted(old, result)
    assert older is not None
    assert not older.pairs_with(now)
