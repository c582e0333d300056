"""How long trials take, from earlier ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.estimates import Estimates, in_words
from harness.trials.trial import Outcome, TrialResult, TrialSpec, TrialStore
from tests.harness import fakes


def took(spec: TrialSpec, seconds: float) -> TrialResult:
    return fakes.result(spec).model_copy(update={"seconds": {"calibrate": seconds / 2, "simulate": seconds / 2}})


def test_the_closest_likeness_counts_and_the_middle_one_of_it() -> None:
    kl, other = fakes.spec(settings=fakes.KL), fakes.spec("other")
    times = [took(fakes.spec(), 2), took(fakes.spec(data="x"), 4), took(fakes.spec(data="y"), 60), took(kl, 9)]
    found = Estimates.of(times)
    assert found.seconds(fakes.spec()) == 4
    assert found.seconds(kl) == 9
    assert found.seconds(fakes.spec(settings=fakes.INT16)) == 6.5  # any of the model and march
    assert found.seconds(other) is None
    assert found.total([fakes.spec(), kl], 1) == 13
    assert found.total([fakes.spec(), kl], 2) == 6.5
    assert found.total([kl, other], 1) == 18  # the unknown one as the mean of the others
    assert found.total([other], 1) is None
    assert found.total([], 1) is None


def test_failures_and_reused_nothing_say_nothing() -> None:
    assert Estimates.of([fakes.failed(fakes.spec()), took(fakes.spec(), 0)]).seconds(fakes.spec()) == 0
    assert Estimates.of([fakes.failed(fakes.spec())]).seconds(fakes.spec()) is None


def test_the_store_is_where_earlier_trials_are(tmp_path: Path) -> None:
    assert Estimates.of_store(TrialStore(tmp_path / "none")).seconds(fakes.spec()) is None
    TrialStore(tmp_path).put(Outcome(took(fakes.spec(), 3)))
    assert Estimates.of_store(TrialStore(tmp_path)).seconds(fakes.spec()) == 3


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (180, "3 min"), (4800, "80 min"), (9000, "2 h 30 min")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert in_words(seconds) == text
