"""What a sweep chooses: on samples that choose, told on samples that did not, and no star in the noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.gates.choice import Choice, choose
from harness.gates.paired import paired_p_value, paired_p_values
from harness.suites.settings import Settings
from harness.trials.figures import HalfScore
from harness.trials.halves import selection_samples
from harness.trials.trial import Outcome, TrialResult, TrialStore
from tests.harness import fakes

SAMPLES = 400


def settings(count: int) -> list[Settings]:
    return [Settings(max_percentile=1 - 1e-4 * index) for index in range(count)]


def put(store: TrialStore, setting: Settings, scores: np.ndarray, total: float = 1.0, cpu: float = 0.0) -> TrialResult:
    chosen = selection_samples(SAMPLES)
    result = fakes.result(
        fakes.spec(settings=setting, evaluation_samples=SAMPLES), value=scores.mean(), latency=total - cpu, cpu=cpu
    )
    halves = {
        name: HalfScore(float_value=0.95, value=scores[part].mean())
        for name, part in (("selection", chosen), ("test", ~chosen))
    }
    assert result.accuracy is not None
    result = result.model_copy(update={"accuracy": result.accuracy.model_copy(update=halves)})
    store.put(Outcome(result, (), {"per_sample": scores}))
    return result


def right(correct: int) -> np.ndarray:
    """As many of ``correct`` hits in both halves, on the same samples for all."""
    chosen, found = selection_samples(SAMPLES), np.zeros(SAMPLES)
    for part in (np.flatnonzero(chosen), np.flatnonzero(~chosen)):
        found[part[: correct // 2]] = 1
    return found


def one(results: list[TrialResult], store: TrialStore) -> Choice:
    (choice,) = choose(results, store)
    return choice


def test_a_star_within_the_noise_is_no_star(tmp_path: Path) -> None:
    """The slower setting is right on two images of 400 more: by chance. With 40 more it earns its time."""
    store, (first, second) = TrialStore(tmp_path), settings(2)
    fast = put(store, first, right(360), total=1.0)
    lucky, better = (put(store, second, right(correct), total=2.0) for correct in (362, 400))
    store.put(Outcome(lucky, (), {"per_sample": right(362)}))
    assert one([fast, lucky], store).front == (fast.spec.key,)
    store.put(Outcome(better, (), {"per_sample": right(400)}))
    assert one([fast, better], store).front == (fast.spec.key, better.spec.key)


def test_time_is_that_of_bpu_and_cpu_together(tmp_path: Path) -> None:
    """1.2 ms on the BPU with 5.5 ms on the CPU are slower than 2 ms on the BPU alone."""
    store, (first, second) = TrialStore(tmp_path), settings(2)
    much_cpu = put(store, first, right(360), total=6.7, cpu=5.5)
    bpu_only = put(store, second, right(360), total=2.0)
    choice = one([much_cpu, bpu_only], store)
    assert choice.front == (bpu_only.spec.key,)
    assert choice.best == bpu_only.spec.key


def test_the_best_is_chosen_on_one_half_only(tmp_path: Path) -> None:
    """A setting that is lucky on the test half is not chosen for it, and one lucky on the other half shows its loss."""
    store, (first, second) = TrialStore(tmp_path), settings(2)
    chosen = selection_samples(SAMPLES)
    lucky_there, lucky_here = right(300), right(300)
    lucky_there[np.flatnonzero(chosen)[150:170]] = 1
    lucky_here[np.flatnonzero(~chosen)[150:190]] = 1
    a, b = put(store, first, lucky_there), put(store, second, lucky_here)
    choice = one([a, b], store)
    assert choice.best == a.spec.key
    assert choice.samples == SAMPLES // 2
    assert a.accuracy is not None
    assert a.accuracy.selection is not None
    assert a.accuracy.test is not None
    assert a.accuracy.selection.value - a.accuracy.test.value == pytest.approx(0.1)


def test_settings_that_cannot_be_told_apart_are_named_together(tmp_path: Path) -> None:
    """Nine settings whose differences are chance, and one that loses a tenth of all images."""
    random, store = np.random.RandomState(1), TrialStore(tmp_path)
    results = []
    for setting in settings(9):
        scores = right(360)
        scores[random.choice(SAMPLES, 6, replace=False)] = random.randint(2, size=6)
        results.append(put(store, setting, scores))
    bad = put(store, fakes.KL, right(320))
    choice = one([*results, bad], store)
    assert set(choice.alike) == {result.spec.key for result in results}
    assert choice.compared == 10


def test_forty_equal_settings_are_rarely_told_apart(tmp_path: Path) -> None:
    """All errors are chance: without a correction a sweep of 40 would nearly always name a loser."""
    told_apart = 0
    for seed in range(20):
        random, store = np.random.RandomState(seed), TrialStore(tmp_path / str(seed))
        results = [put(store, setting, (random.rand(SAMPLES) < 0.9).astype(float)) for setting in settings(40)]
        told_apart += len(one(results, store).alike) < 40
    assert told_apart <= 3


def test_a_choice_that_the_test_half_refutes(tmp_path: Path) -> None:
    """One image more where it is chosen, a tenth of the images fewer on the others."""
    store, chosen = TrialStore(tmp_path), selection_samples(SAMPLES)
    steady, lucky = right(360), right(362)
    lucky[np.flatnonzero(~chosen)[:20]] = 0
    first, second = (put(store, setting, scores) for setting, scores in zip(settings(2), (steady, lucky), strict=True))
    choice = one([first, second], store)
    assert choice.best == second.spec.key
    assert (choice.alike, choice.better) == ((second.spec.key,), (first.spec.key,))


def test_of_equal_trials_the_first_is_the_pareto_point(tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    equal = [put(store, setting, right(360)) for setting in settings(2)]
    assert one(equal, store).front == (equal[0].spec.key,)


def test_models_marches_and_failures_keep_apart(tmp_path: Path) -> None:
    store = TrialStore(tmp_path)
    results = [fakes.result(fakes.spec(model)) for model in ("one", "two")]
    assert [choice.model for choice in choose([*results, fakes.failed(fakes.spec("three"))], store)] == ["one", "two"]


def test_p_values_of_many_are_those_of_each() -> None:
    random = np.random.RandomState(0)
    rows = np.stack([random.randint(-1, 2, size=60), np.zeros(60), random.randn(60) + 0.5, random.randn(60) - 0.5])
    for row, p in zip(rows, paired_p_values(rows), strict=True):
        assert p == pytest.approx(paired_p_value(row), abs=0.02)
