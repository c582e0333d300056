"""Figures as axes of plots."""

from __future__ import annotations

import pytest

from harness.report.axes import LATENCY, Axis, buttons
from tests.harness import fakes


def test_a_figure_is_in_the_unit_of_its_title_and_none_where_a_trial_has_none() -> None:
    delta = Axis("accuracy.delta", "Δ", "points", 100)
    assert delta.of(fakes.result(fakes.spec(), value=0.90)) == pytest.approx(-5)
    assert LATENCY.of(fakes.failed(fakes.spec())) is None
    assert delta.margin(fakes.result(fakes.spec())) is None


def test_a_button_per_axis() -> None:
    made = buttons((LATENCY,), lambda axis: [axis.name])
    assert made["buttons"] == [{"label": "latency", "method": "update", "args": ["latency.total_ms"]}]
