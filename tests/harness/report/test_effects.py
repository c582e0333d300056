"""Effects of settings: like is compared with like."""

from __future__ import annotations

import pytest

from harness.report.effects import effects_figures, in_order, level_of, levels_of, short_levels, varied
from harness.report.names import ShortNames
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.trials.trial import TrialResult
from tests.harness import fakes
from tests.harness.report.test_figures import RESULTS


def of(value: float, **settings: object) -> TrialResult:
    return fakes.result(fakes.spec(settings=Settings.model_validate(settings)), value=value)


def test_settings_in_which_trials_differ() -> None:
    assert set(varied(RESULTS)) == {"per_channel", "max_percentile"}
    assert level_of(fakes.result(fakes.spec(settings=fakes.INT16)), "int16") == "all"
    assert in_order(["1.0", "0.9999", "0.5"]) == ["0.5", "0.9999", "1.0"]


def test_a_main_effect_is_a_mean_over_all_other_settings() -> None:
    figures = effects_figures(RESULTS, ShortNames())
    assert [figure.layout.title.text for figure in figures] == varied(RESULTS)
    traces = {(trace.name, tuple(trace.x)): trace.y for figure in figures for trace in figure.data}
    assert traces["one", ("0.9999", "1.0")] == pytest.approx([-11.0, -4.0])
    assert traces["two", ("false", "true")] == pytest.approx([-9.0, -4.0])


def test_trials_that_a_setting_means_nothing_for_do_not_count() -> None:
    """kl has no percentile; its default, 1.0, once turned the order of two values round."""
    results = [
        of(0.90, max_percentile=1.0),
        of(0.85, max_percentile=0.999),
        of(0.50, calibration_type="kl"),
    ]
    levels = levels_of(results, "max_percentile")
    assert {level: [found.accuracy.value for found in group if found.accuracy] for level, group in levels.items()} == {
        "0.999": [0.85],
        "1.0": [0.90],
    }
    assert short_levels(results, "max_percentile", ShortNames()) == ["1.0", "0.999", "–"]
    assert varied(results[::2]) == ["calibration_type"]


def test_values_are_compared_where_all_other_settings_are_equal() -> None:
    """kl is compared with max at the percentile that both have, not with the mean of all percentiles."""
    results = [of(0.90), of(0.10, max_percentile=0.9), of(0.80, calibration_type="kl")]
    levels = levels_of(results, "calibration_type")
    assert {level: len(found) for level, found in levels.items()} == {"max": 1, "kl": 1}
    assert levels["max"] == [results[0]]


def test_where_no_trials_differ_in_one_setting_alone_all_count() -> None:
    results = [of(0.9, int16="all"), of(0.8, max_percentile=0.9), of(0.7, max_percentile=0.9, per_channel=True)]
    assert {level: len(found) for level, found in levels_of(results, "int16").items()} == {"all": 1, "none": 2}


def test_long_lists_have_short_names_on_the_axis() -> None:
    policy = Int16Policy(kind=Int16Kind.NODES, names=("a_long_name_of_a_node", "another_long_name"))
    results = [fakes.result(fakes.spec(settings=settings)) for settings in (Settings(), Settings(int16=policy))]
    (figure,) = effects_figures(results, ShortNames.of(results))
    assert list(figure.layout.xaxis.ticktext) == ["none", "list 1"]
    assert list(figure.data[0].x) == ["none", policy.label.removeprefix("int16.")]


def test_of_many_values_some_are_named_and_long_ones_are_cut_and_turned() -> None:
    numbers = [of(0.9, max_percentile=round(0.9 + 0.002 * step, 3)) for step in range(40)]
    (figure,) = effects_figures(numbers, ShortNames())
    assert len(figure.layout.xaxis.ticktext) <= 8
    named = [of(0.9, int16={"types": ["T" * length]}) for length in (6, 7, 8, 12, 14)]
    (figure,) = effects_figures(named, ShortNames())
    assert figure.layout.xaxis.tickangle == -35
    assert max(map(len, figure.layout.xaxis.ticktext)) == 14
