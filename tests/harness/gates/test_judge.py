"""Gates: verdicts on planted changes, and none without a change."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.gates.baseline import (
    Baseline,
    BaselineTrial,
    ExpectedFailure,
    updated_baseline,
)
from harness.gates.judge import judge, judge_sweep
from harness.gates.verdicts import Verdict
from harness.suites.settings import Settings
from harness.suites.suite import Gates
from harness.trials.trial import Accuracy, Outcome, TrialResult, TrialStore
from tests.harness import fakes
from tests.harness.finished import RIGHT, SAMPLES, predictions, suite, trial

SUITE = suite(version=3)


def verdict(result: TrialResult, found: dict[str, Any], accepted: Baseline, gates: Gates | None = None) -> Verdict:
    return judge(result, found, accepted, gates or SUITE.gates).verdict


def test_the_same_results_pass(baseline: Baseline) -> None:
    assert verdict(trial(), predictions(), baseline) is Verdict.PASS


@pytest.mark.parametrize(
    ("correct", "expected"),
    [
        (RIGHT - 5, Verdict.REGRESSION),  # one point
        (RIGHT - 3, Verdict.PASS),  # three lost, none gained: p = 0.125
        (RIGHT + 3, Verdict.PASS),
        (RIGHT + 5, Verdict.IMPROVEMENT),
    ],
)
def test_accuracy_is_judged_on_paired_predictions(correct: int, expected: Verdict, baseline: Baseline) -> None:
    assert verdict(trial(correct), predictions(correct), baseline) is expected


def test_as_many_gained_as_lost_is_no_change(baseline: Baseline) -> None:
    scores = np.roll(fakes.hits(RIGHT, SAMPLES), 25)
    assert verdict(trial(), {"per_sample": scores}, baseline) is Verdict.PASS


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cosine": 0.98}, Verdict.REGRESSION),
        ({"cosine": 0.999}, Verdict.IMPROVEMENT),
        ({"cosine": 0.99 - 0.00009}, Verdict.PASS),
        ({"latency": 1.02}, Verdict.REGRESSION),
        ({"latency": 0.9}, Verdict.IMPROVEMENT),
        ({"latency": 1.009}, Verdict.PASS),
        ({"cpu_nodes": 2}, Verdict.REGRESSION),
        ({"cpu_nodes": 0}, Verdict.IMPROVEMENT),
    ],
)
def test_each_figure_has_its_own_tolerance_and_direction(
    changes: dict[str, Any], expected: Verdict, baseline: Baseline
) -> None:
    found = judge(trial(**changes), predictions(), baseline, SUITE.gates)
    assert found.verdict is expected
    assert bool(found.message) == (expected is not Verdict.PASS)


def test_a_figure_that_the_baseline_lacks_is_missing(baseline: Baseline) -> None:
    (name, accepted), *_ = baseline.trials.items()
    figures = {key: value for key, value in accepted.figures.items() if key != "cosine.output"}
    poorer = baseline.model_copy(update={"trials": {name: accepted.model_copy(update={"figures": figures})}})
    found = judge(trial(), predictions(), poorer, SUITE.gates)
    assert found.verdict is Verdict.MISSING
    assert "cosine.output: MISSING: not in the baseline" in found.message


def test_trials_on_one_side_only_are_missing(baseline: Baseline, tmp_path: Path) -> None:
    other = fakes.result(fakes.spec("other"))
    verdicts = judge_sweep([other], baseline, SUITE.gates, TrialStore(tmp_path))
    assert [(v.trial, v.verdict) for v in verdicts] == [
        ("other/bayes-e/max", Verdict.MISSING),
        ("net/bayes-e/max", Verdict.MISSING),
    ]


def test_a_failed_trial_is_an_error(baseline: Baseline) -> None:
    found = judge(fakes.failed(fakes.spec()), {}, baseline, SUITE.gates)
    assert found.verdict is Verdict.ERROR
    assert "stage quantize: refused: no <b>rule</b> for Foo" in found.message


@pytest.mark.parametrize(("today", "expected"), [(date(2026, 6, 30), Verdict.PASS), (date(2026, 7, 1), Verdict.ERROR)])
def test_an_expected_failure_expires(today: date, expected: Verdict) -> None:
    known = ExpectedFailure(reason="rule to come", until=date(2026, 6, 30))
    accepted = Baseline(suite="mine", version=3, trials={"net/bayes-e/max": BaselineTrial(expected_failure=known)})
    assert judge(fakes.failed(fakes.spec()), {}, accepted, SUITE.gates, today).verdict is expected
    assert judge(fakes.result(fakes.spec()), {}, accepted, SUITE.gates, today).verdict is Verdict.IMPROVEMENT


def test_other_evaluation_data_are_compared_by_standard_errors(baseline: Baseline) -> None:
    other = fakes.spec(evaluation_samples=SAMPLES, data="other-data")
    assert verdict(fakes.result(other, value=0.9 - 0.019), predictions(440), baseline) is Verdict.PASS
    assert verdict(fakes.result(other, value=0.9 - 0.021), predictions(440), baseline) is Verdict.REGRESSION


def test_scores_of_an_older_version_are_not_paired(baseline: Baseline) -> None:
    """A metric whose resamples the baseline does not keep: its scores per image may mean something else."""
    kept = {**predictions(RIGHT - 5), "resampled": np.zeros(1050)}
    found = judge(trial(RIGHT - 5), kept, baseline, SUITE.gates)
    assert found.verdict is Verdict.PASS
    (accuracy,) = [check for check in found.checks if check.name == "accuracy.quantized"]
    assert "scores of an older version, accept them again: 2 standard errors are 0.0200" in accuracy.message


def test_the_metric_itself_is_tested_where_it_is_no_mean(tmp_path: Path) -> None:
    """mAP falls by 5 points while as many images score better as worse."""
    store, random = TrialStore(tmp_path), np.random.RandomState(0)
    before, now = np.ones(1050), 0.95 + 0.01 * random.randn(1050)
    accepted = trial()
    store.put(Outcome(accepted, (), {**predictions(), "resampled": before}))
    baseline = updated_baseline(None, SUITE, [accepted], store)
    scores = np.roll(fakes.hits(RIGHT, SAMPLES), 25)
    fallen = fakes.result(accepted.spec, value=RIGHT / SAMPLES - 0.05)
    found = judge(fallen, {"per_sample": scores, "resampled": now}, baseline, SUITE.gates)
    assert found.verdict is Verdict.REGRESSION
    noisy = 0.95 + 0.2 * random.randn(1050)
    assert verdict(fallen, {"per_sample": scores, "resampled": noisy}, baseline) is Verdict.PASS


def test_a_baseline_of_several_draws_allows_for_their_spread(tmp_path: Path) -> None:
    store, draws = TrialStore(tmp_path), []
    for seed, correct in enumerate((450, 446, 454)):  # standard deviation 4 of 500: 0.008
        spec = fakes.spec(settings=Settings(calibration_seed=seed), evaluation_samples=SAMPLES)
        draws.append(fakes.result(spec, value=correct / SAMPLES, cosine=0.99 - 0.001 * seed))
        store.put(Outcome(draws[-1], (), predictions(correct)))
    drawn = updated_baseline(None, SUITE, draws, store)
    figures = drawn.trials[draws[0].spec.id].figures
    assert (figures["accuracy.quantized"].spread, figures["cosine.output"].spread) == (0.008, 0.001)
    assert figures["latency.ms"].spread == 0

    def found(correct: int, cosine: float, gates: Gates) -> Verdict:
        result = fakes.result(draws[0].spec, value=correct / SAMPLES, cosine=cosine)
        return verdict(result, predictions(correct), drawn, gates)

    assert found(435, 0.99, SUITE.gates) is Verdict.PASS  # 3 points of 4 * 0.8
    assert found(430, 0.99, SUITE.gates) is Verdict.REGRESSION
    assert found(435, 0.99, Gates(spreads=3)) is Verdict.REGRESSION
    assert found(450, 0.9862, SUITE.gates) is Verdict.PASS
    assert found(450, 0.9858, SUITE.gates) is Verdict.REGRESSION
    assert found(445, 0.99, Gates(spreads=0)) is Verdict.REGRESSION


def test_trials_that_differ_in_more_than_their_seed_are_no_draws(tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    results = [fakes.result(fakes.spec(settings=s), cosine=c) for s, c in ((Settings(), 0.9), (fakes.KL, 0.99))]
    for result in results:
        store.put(Outcome(result, (), {"per_sample": fakes.hits(36)}))
    trials = updated_baseline(None, SUITE, results, store).trials.values()
    assert {figure.spread for trial in trials for figure in trial.figures.values()} == {0.0}


def test_the_floor_holds_with_and_without_a_baseline(baseline: Baseline) -> None:
    strict = Gates(min_ratio=0.96)
    assert judge(trial(), predictions(), baseline, strict).verdict is Verdict.REGRESSION
    assert judge(trial(), predictions(), None, strict).verdict is Verdict.REGRESSION
    assert judge(trial(), predictions(), None, Gates(min_ratio=0.94)).verdict is Verdict.NO_GATE


def test_the_floor_of_an_error_is_the_float_models_share() -> None:
    """Of an error rate less is better: half of the float model's keeps every floor, twice as much none above 0.5."""
    strict = Gates(min_ratio=0.96)
    for value, expected in ((0.05, Verdict.NO_GATE), (0.1, Verdict.NO_GATE), (0.2, Verdict.REGRESSION)):
        accuracy = Accuracy(
            metric="errors", float_value=0.1, value=value, stderr=0.0, delta_stderr=0.0, higher_is_better=False
        )
        result = trial().model_copy(update={"accuracy": accuracy})
        assert judge(result, predictions(), None, strict).verdict is expected
