"""Measures over many cases: shares of cases and of things, percentiles, columns of seen and held-out networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.conformance.cases import RecordedCase
from engine.conformance.conversion import Ending
from engine.conformance.measures import Row, Share
from engine.conformance.run import held_out
from engine.conformance.table import MEASURES, group, groups, parts


def row(name: str, **fields: object) -> Row:
    known = {"family": name, "march": "bayes-e", "outcome": Ending.CONVERTED, "converts": True}
    return Row.model_validate({"case": name, **known, **fields})


def case(name: str, *, reduced: bool = False) -> RecordedCase:
    return RecordedCase(Path(name), name, name, "bayes-e", Path("config.yaml"), reduced, True, "", {}, ())


def test_shares_of_cases_leave_out_what_cannot_be_said() -> None:
    found = group("", [row("a", outputs=True), row("b", outputs=False), row("c")])
    assert found.values["outputs"] == 0.5
    assert found.values["simulator"] is None


def test_shares_of_things_are_pooled() -> None:
    rows = [row("a", thresholds=Share(equal=9, total=9)), row("b", thresholds=Share(equal=0, total=1))]
    found = group("", rows).values
    assert found["thresholds"] == 0.9
    assert found["thresholds_mean"] == 0.5
    assert found["thresholds_all"] == 0.5


def test_latency_errors_are_relative_to_the_original() -> None:
    found = group("", [row("a", latency_us=10.0, predicted_us=5.0), row("b", latency_us=10.0, predicted_us=11.0)])
    assert found.values["latency_median"] == pytest.approx(0.3)
    assert MEASURES["latency_median"].reaches(0.3, 0.4)
    assert not MEASURES["outputs"].reaches(0.3, 0.4)


def test_columns_and_groups() -> None:
    rows = [row("a"), row("b", held_out=True), row("b", march="bayes", held_out=True)]
    assert [(part.name, part.cases) for part in parts(rows)] == [("seen", 1), ("held out", 2)]
    assert [(found.name, found.cases) for found in groups(rows, lambda row: row.family)] == [("a", 1), ("b", 2)]
    assert [part.name for part in parts(rows[:1])] == ["all"]


def test_every_nth_recorded_network_is_held_out() -> None:
    cases = [case(name) for name in "fedcba"] + [case("aa", reduced=True)]
    assert held_out(cases, 3) == {"c", "f"}
    assert held_out(cases, None) == frozenset()
