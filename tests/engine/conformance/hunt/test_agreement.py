"""The figure and its interval, by march, option and block."""

from __future__ import annotations

import pytest

from engine.conformance.conversion import Ending
from engine.conformance.hunt.agreement import (
    TABLES,
    DrawOutcome,
    Figure,
    by,
    figure,
    headline,
    rows_of,
    share_of_things,
)
from engine.conformance.measures import Row, Share


def outcome(index: int, outputs: bool | None, **values: object) -> DrawOutcome:
    march = ("bayes", "bayes-e")[index % 2]
    row = Row(
        case=f"d{index}",
        family="n",
        march=march,
        outcome=Ending.CONVERTED,
        converts=True,
        outputs=outputs,
        operators=True,
        thresholds=Share(equal=3 + bool(outputs), total=4),
    )
    known = {"index": index, "march": march, "options": ("max",), "blocks": ("c2f",), "nodes": 9, "row": row}
    return DrawOutcome.model_validate({**known, **values})


def test_the_interval_is_wilsons() -> None:
    low, high = Figure(90, 100).interval
    z = 1.959963984540054
    centre = (0.9 + z**2 / 200) / (1 + z**2 / 100)
    half = z * ((0.9 * 0.1 / 100 + z**2 / 40000) ** 0.5) / (1 + z**2 / 100)
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=1e-9)
    assert str(Figure(90, 100)) == "90.0 % (82.6 to 94.5)"


def test_nothing_says_nothing() -> None:
    assert Figure(0, 0).share is None
    assert Figure(0, 0).interval == (0.0, 1.0)
    assert str(Figure(0, 0)) == "-"


def test_all_equal_is_not_certain() -> None:
    low, high = Figure(20, 20).interval
    assert high == pytest.approx(1.0)
    assert 0.8 < low < 0.9


def test_draws_without_an_answer_or_outputs_do_not_count() -> None:
    outcomes = [outcome(0, True), outcome(1, False), outcome(2, None), outcome(3, True, row=None, failure="late")]
    rows = rows_of(outcomes)
    assert figure(rows, "outputs") == Figure(1, 2)
    assert figure(rows, "converts") == Figure(3, 3)
    assert figure(rows, "thresholds_all") == Figure(1, 3)
    assert figure(rows, "simulator") == Figure(0, 0)
    assert share_of_things(rows, lambda row: row.thresholds) == Figure(10, 12)


def test_without_a_runtime_the_figure_is_of_operators() -> None:
    assert headline(rows_of([outcome(0, True)])) == "outputs"
    assert headline(rows_of([outcome(0, None)])) == "operators"
    assert headline([]) == "outputs"


def test_tables_begin_with_what_agrees_least() -> None:
    outcomes = [
        outcome(0, True, blocks=("c2f", "fpn")),
        outcome(1, False, blocks=("fpn",)),
        outcome(2, True, options=("kl", "int16")),
    ]
    found = {title: by(outcomes, keys, "outputs") for title, keys in TABLES.items()}
    assert list(found["march"].items()) == [("bayes-e", Figure(0, 1)), ("bayes", Figure(2, 2))]
    assert list(found["block"].items()) == [("fpn", Figure(1, 2)), ("c2f", Figure(2, 2))]
    assert found["option"] == {"max": Figure(1, 2), "int16": Figure(1, 1), "kl": Figure(1, 1)}
