"""How much work trials are, and in which order a sweep hands them out."""

from __future__ import annotations

from harness.backends.stages.rank import SENSITIVITY_SAMPLES
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.trials.work import SEARCH_SAMPLES, longest_first, search_work, usual_work
from tests.harness import fakes

TOP_1, TOP_2 = (Settings(int16=Int16Policy(kind=Int16Kind.TOP_K, count=count)) for count in (1, 2))
ALL = Settings(int16=Int16Policy(kind=Int16Kind.ALL))


def test_int16_and_methods_with_searches_take_longer() -> None:
    plain, wide, kl = (fakes.spec(settings=settings) for settings in (Settings(), ALL, fakes.KL))
    assert usual_work(plain) < usual_work(wide)
    assert usual_work(plain) < usual_work(kl)
    assert search_work(plain) == 0 < search_work(fakes.spec(settings=TOP_1))
    assert SEARCH_SAMPLES == SENSITIVITY_SAMPLES, "estimates name what the stage takes"


def test_the_longest_come_first_and_equal_ones_keep_their_order() -> None:
    plain, wide, kl = (fakes.spec(settings=settings) for settings in (Settings(), ALL, fakes.KL))
    percentile = fakes.spec(settings=Settings(max_percentile=0.999))
    assert longest_first([plain, percentile, wide, kl]) == [kl, wide, plain, percentile]


def test_trials_per_channel_do_not_wait_for_those_per_tensor() -> None:
    """Many networks give both the same integers, which the second then finds."""
    kinds = [Settings(max_percentile=share, per_channel=each) for share in (1.0, 0.999) for each in (True, False)]
    trials = [fakes.spec(settings=settings) for settings in kinds]
    assert longest_first(trials) == [trials[1], trials[3], trials[0], trials[2]]


def test_only_the_first_that_needs_a_search_comes_early_for_it() -> None:
    first, second, wide = (fakes.spec(settings=settings) for settings in (TOP_1, TOP_2, ALL))
    assert longest_first([wide, first, second]) == [first, wide, second]
