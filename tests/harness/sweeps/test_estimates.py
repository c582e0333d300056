"""How long trials take: from earlier ones, else from the speed of the float model; searches for nodes once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import MissingError
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.sweeps.estimates import SEARCH, Estimates
from harness.trials.trial import Outcome, TrialResult, TrialSpec, TrialStore
from tests.harness import fakes

TOP_1, TOP_2 = (Settings(int16=Int16Policy(kind=Int16Kind.TOP_K, count=count)) for count in (1, 2))


def took(spec: TrialSpec, seconds: float, search: float | None = None) -> TrialResult:
    stages = {"calibrate": seconds / 2, "simulate": seconds / 2}
    return fakes.result(spec).model_copy(update={"seconds": stages if search is None else {**stages, SEARCH: search}})


def test_the_closest_likeness_counts_and_the_middle_one_of_it() -> None:
    kl, other = fakes.spec(settings=fakes.KL), fakes.spec("other")
    times = [took(fakes.spec(), 2), took(fakes.spec(data="x"), 4), took(fakes.spec(data="y"), 60), took(kl, 9)]
    found = Estimates.of(times)
    assert found.seconds(fakes.spec()) == 4
    assert found.seconds(kl) == 9
    int16 = 4 * (15 + 2.2 * 40) / (15 + 1.5 * 40)
    assert found.seconds(fakes.spec(settings=fakes.INT16)) == int16, "those of the same settings without int16, scaled"
    assert found.seconds(other) is None
    assert found.total([fakes.spec(), kl], 1) == 13
    assert found.total([fakes.spec(), kl], 2) == 6.5
    assert found.total([kl, other], 1) == 18, "the unknown one as the mean of the others"
    assert found.total([other], 1) is None
    assert found.total([], 1) is None


def test_another_method_or_number_of_samples_is_scaled_by_what_it_usually_takes() -> None:
    found = Estimates.of([took(fakes.spec(), 10)])
    assert found.seconds(fakes.spec(settings=fakes.KL)) == pytest.approx(10 * (15 + 1.5 * 40 + 50) / (15 + 1.5 * 40))
    assert found.seconds(fakes.spec(evaluation_samples=400)) == pytest.approx(10 * (15 + 600) / (15 + 60))


def test_a_search_for_nodes_is_no_part_of_a_trial_and_counts_once_for_all_that_share_it() -> None:
    """A trial of 5 seconds whose search took 150 says nothing of others that do without."""
    first, second, plain = fakes.spec(settings=TOP_1), fakes.spec(settings=TOP_2), fakes.spec()
    found = Estimates.of([took(first, 5, search=150)])
    assert (found.seconds(plain), found.seconds(second), found.search(second), found.search(plain)) == (5, 5, 150, 0)
    assert found.total([plain, first, second], 1) == 3 * 5 + 150
    percentile = TOP_1.model_copy(update={"max_percentile": 0.9})
    assert found.searches([first, second, fakes.spec(settings=percentile)]) == 300
    assert found.running_search(second, 1) == 150
    assert found.running_search(fakes.spec("unknown", second.settings), 1) is None
    found.finished(took(first, 5, search=150), now=1.0)
    assert found.searches([second]) == 0, "this sweep has it now"


def test_a_new_model_is_estimated_by_the_speed_of_its_float_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.sweeps.estimates._nodes_in_file", lambda model: 100)
    found, plain, ranked = Estimates(), fakes.spec(), fakes.spec(settings=TOP_1)
    found.prepared(plain, {"statistics": 9.0, "float": 4.0})
    assert found.seconds(plain) == pytest.approx(1 + 0.1 * (15 + 1.5 * 40))
    assert found.search(ranked) == pytest.approx(0.1 * 0.5 * 8 * 100)
    assert found.probed(["net", "other"]) == ["net"]
    found.learn(took(plain, 30))
    assert found.search(ranked) == pytest.approx(0.1 * 0.5 * 8 * 100)
    assert found.probed(["net", "other"]) == []


def test_a_sweep_that_is_slower_than_its_stages_is_estimated_so() -> None:
    """One worker computed two trials of 10 seconds in 50: the third takes 25."""
    found = Estimates()
    found.prepared(fakes.spec(), {}, now=100.0)
    found.finished(took(fakes.spec(), 10), now=125.0)
    found.finished(took(fakes.spec(data="x"), 10), now=150.0)
    assert found.total([fakes.spec(data="y")], 1) == 25


def test_a_model_is_probed_once_and_what_it_needs_before_its_trials_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    clock = iter([0.0, 9.0, 9.0, 10.0, 10.0, 12.0, 12.0, 99.0])  # the faster of two, of 1 and of 3 samples
    monkeypatch.setattr("harness.sweeps.estimates.time.perf_counter", lambda: next(clock))
    monkeypatch.setattr("harness.zoo.cards.load_card", lambda name: None)
    monkeypatch.setattr("harness.zoo.float_baseline.float_outputs", lambda card, count: counts.append(count))
    found, spec = Estimates(), fakes.spec()
    found.probe(spec)
    found.probe(spec)
    assert counts == [1, 1, 1, 3, 3]
    assert found.seconds(spec) == pytest.approx(1 + 0.5 * (15 + 60))
    total = found.total([spec], 1)
    assert total == pytest.approx(1 + 0.5 * (15 + 60) + 0.5 * (40 + 5 * 10))
    found.prepared(spec, {})
    assert found.total([spec], 1) == pytest.approx(1 + 0.5 * (15 + 60))


def test_a_model_whose_first_sample_takes_as_long_as_several_still_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.zoo.cards.load_card", lambda name: None)
    monkeypatch.setattr("harness.zoo.float_baseline.float_outputs", lambda card, count: None)
    monkeypatch.setattr("harness.sweeps.estimates._timed", lambda run: 0.6)
    found, spec = Estimates(), fakes.spec()
    found.probe(spec)
    assert found.seconds(spec) == pytest.approx(1 + 0.2 * (15 + 60))


def test_a_model_that_cannot_be_run_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise MissingError(name)

    monkeypatch.setattr("harness.zoo.cards.load_card", missing)
    found = Estimates()
    found.probe(fakes.spec())
    assert found.total([fakes.spec()], 1) is None
    found.prepared(fakes.spec(), {"float": 40.0})
    assert found.search(fakes.spec(settings=TOP_1)) == pytest.approx(0.5 * 8 * 100), "a usual number of nodes"


def test_failures_and_reused_nothing_say_nothing() -> None:
    assert Estimates.of([fakes.failed(fakes.spec()), took(fakes.spec(), 0)]).seconds(fakes.spec()) == 0
    assert Estimates.of([fakes.failed(fakes.spec())]).seconds(fakes.spec()) is None


def test_the_store_is_where_earlier_trials_are(tmp_path: Path) -> None:
    assert Estimates.of_store(TrialStore(tmp_path / "none")).seconds(fakes.spec()) is None
    TrialStore(tmp_path).put(Outcome(took(fakes.spec(), 3)))
    assert Estimates.of_store(TrialStore(tmp_path)).seconds(fakes.spec()) == 3
