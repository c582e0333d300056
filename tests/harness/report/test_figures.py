"""Plots of the page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.report.axes import LATENCY
from harness.report.effects import varied
from harness.report.figures import (
    HEATS,
    MOST_ERROR_BARS,
    QUALITIES,
    _normalised,
    _show_heat,
    drift_figure,
    heat_figure,
    parallel_figure,
    pareto_figure,
)
from harness.report.names import ShortNames
from harness.report.results import Sweep
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from tests.harness import fakes

RESULTS = [
    fakes.result(fakes.spec(model, Settings(max_percentile=percentile, per_channel=per_channel)), value=value)
    for model, offset in (("one", 0.0), ("two", 0.01))
    for percentile, per_channel, value in (
        (1.0, False, 0.90 + offset),
        (1.0, True, 0.92 + offset),
        (0.9999, False, 0.80 + offset),
        (0.9999, True, 0.88 + offset),
    )
]


def test_parallel_coordinates_have_model_settings_and_figures() -> None:
    (lines,) = parallel_figure(RESULTS, ShortNames()).data
    assert [axis.label for axis in lines.dimensions] == [
        "model",
        *varied(RESULTS),
        "Δ accuracy",
        "cosine",
        "latency",
    ]
    assert len(lines.dimensions[0]["values"]) == len(RESULTS)


def test_an_axis_of_many_values_shows_as_many_as_can_be_read() -> None:
    many = [
        fakes.result(fakes.spec(settings=Settings(max_percentile=round(float(value), 6))))
        for value in np.linspace(0.9, 1, 300)
    ]
    (lines,) = parallel_figure(many, ShortNames()).data
    assert len(lines.dimensions[0].ticktext) <= 20


def test_a_column_is_coloured_from_its_worst_to_its_best() -> None:
    assert _normalised([1.0, None, 3.0, 2.0], less_is_better=False) == [0.0, None, 1.0, 0.5]
    assert _normalised([1.0, None, 3.0, 2.0], less_is_better=True) == [1.0, None, 0.0, 0.5]
    assert _normalised([2.0, None, 2.0], less_is_better=True) == [1.0, None, 1.0]
    assert _normalised([None], less_is_better=False) == [None]


def test_heat_is_normalised_within_a_column_and_latency_the_other_way() -> None:
    fast, slow = (fakes.result(fakes.spec(), value=value, latency=ms) for value, ms in ((0.9, 1.0), (0.95, 3.0)))
    cells = [[fast, slow], [slow, None]]
    found = _show_heat(HEATS[0], cells)
    assert found["z"] == [[0.0, 1.0], [1.0, None]]
    assert found["text"] == [["-5.00", "+0.00"], ["+0.00", ""]]
    assert _show_heat(LATENCY, cells)["z"] == [[1.0, 1.0], [0.0, None]]


def test_quality_stands_over_the_time_of_bpu_and_cpu(sweep: Sweep) -> None:
    links = {result.spec.key: f"link-{result.spec.id}" for result in sweep.results}
    figure = pareto_figure(sweep.results, sweep.front, links)
    assert figure.layout.yaxis.automargin is False, "labels of another width would draw all points twice"
    assert figure.layout.xaxis.rangemode is None, "points are not squeezed by an axis that begins at 0"
    front, points = figure.data[2], figure.data[3]
    usable = [result for result in sweep.results if result.spec.model == "two" and result.ok]
    assert list(points.x) == [result.footprint.total_ms for result in usable if result.footprint]
    assert list(points.y) == [result.accuracy.value for result in usable if result.accuracy]
    assert list(points.customdata) == [links[result.spec.key] for result in usable]
    assert list(points.marker.size) == [13 if result.spec.key in sweep.front else 9 for result in usable]
    assert list(front.x) == sorted(front.x)
    labels = [button.label for button in figure.layout.updatemenus[0].buttons]
    assert labels == [axis.label for axis in QUALITIES]
    share = figure.layout.updatemenus[0].buttons[1].args[0]["y"][3]
    bars = figure.layout.updatemenus[0].buttons[1].args[0]["error_y.array"][3]
    assert list(bars) == [pytest.approx(100 * r.accuracy.margin / r.accuracy.float_value) for r in usable if r.accuracy]
    margins = [1.959964 * r.accuracy.stderr for r in usable if r.accuracy]
    assert list(points.error_y.arrayminus) == pytest.approx(margins)
    up = [min(margin, 1 - r.accuracy.value) for margin, r in zip(margins, usable, strict=True) if r.accuracy]
    assert list(points.error_y.array) == pytest.approx(up), "no metric is above 1"
    assert list(share) == [pytest.approx(100 * r.accuracy.ratio) for r in usable if r.accuracy]


def test_of_very_many_points_only_the_best_have_error_bars() -> None:
    many = [fakes.result(fakes.spec("one", Settings(calibration_samples=n + 1))) for n in range(MOST_ERROR_BARS + 1)]
    best = many[7].spec.key
    figure = pareto_figure(many, [best], {result.spec.key: "" for result in many})
    (_, others, points) = figure.data
    assert (len(others.x), len(points.x)) == (MOST_ERROR_BARS, 1)
    assert others.error_y.array is None
    assert (others.showlegend, points.showlegend) == (True, False)
    assert points.error_y.array[0] is not None
    assert [bars is None for bars in figure.layout.updatemenus[0].buttons[1].args[0]["error_y.array"]] == [
        True,
        True,
        False,
    ]


def test_names_are_text_in_plots_too() -> None:
    hostile = Settings(int16=Int16Policy(kind=Int16Kind.NODES, names=("<b>n</b>",)))
    result = fakes.result(fakes.spec("<i>net</i>", hostile))
    drawn = str(pareto_figure([result], [], {result.spec.key: ""}).to_json()) + str(
        heat_figure([result], ShortNames()).to_json()
    )
    for name in ("i{}net", "b{}n"):
        assert f"&lt;{name.format('&gt;')}" in drawn
        assert f"<{name.format('>')}" not in drawn.replace("\\u003c", "<").replace("\\u003e", ">")


def test_rows_of_long_lists_have_short_names() -> None:
    policy = Int16Policy(kind=Int16Kind.TYPES, names=("Conv", "Add", "GlobalAveragePool"))
    results = [fakes.result(fakes.spec(settings=settings)) for settings in (fakes.Settings(), Settings(int16=policy))]
    names = ShortNames.of(results)
    assert list(heat_figure(results, names).data[0].y) == ["max", "max-int16 list 1"]
    (lines,) = parallel_figure(results, names).data
    assert list(lines.dimensions[0].ticktext) == ["none", "list 1"]


def test_drift_is_drawn_from_the_anchor_with_a_diamond_where_it_began() -> None:
    drifts: Any = [
        SimpleNamespace(trial="a", figure="accuracy", anchor=0.9, values=np.array([0.9, np.nan, 0.8]), began=2),
        SimpleNamespace(trial="b", figure="accuracy", anchor=None, values=np.array([0.9]), began=None),
        SimpleNamespace(trial="a", figure="cosine", anchor=0.5, values=np.array([0.5, 0.5, 0.5]), began=None),
    ]
    nights: Any = [SimpleNamespace(started_at=f"day {day}") for day in range(3)]
    figure = drift_figure(drifts, nights)
    assert [(trace.name, trace.visible) for trace in figure.data] == [("a", True), ("a", False)]
    assert figure.data[0].y[1] is None or np.isnan(figure.data[0].y[1])
    assert figure.data[0].y[2] == pytest.approx(-0.1)
    assert list(figure.data[0].marker.symbol) == ["circle", "circle", "diamond"]
    buttons = figure.layout.updatemenus[0].buttons
    assert [(button.label, list(button.args[0]["visible"])) for button in buttons] == [
        ("accuracy", [True, False]),
        ("cosine", [False, True]),
    ]
