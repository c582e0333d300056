"""Values of columns, ptqlab's own and the user's, and what happens where a user's column fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.extensions import COLUMNS
from harness.report.columns import FIGURES, Column, Value, columns, own_columns
from harness.trials.trial import TrialResult, TrialStore
from tests.harness import fakes
from tests.registered import registered

HEADINGS = [
    "accuracy",
    "Δ pt",
    "agree",
    "cosine",
    "min",
    "SQNR",
    "BPU ms",
    "CPU ms",
    "MB",
    "CPU",
    "BPU",
    "±",
    "unmet",
    "s",
]


class Word(Column):
    """Text."""

    heading, decimals = "word", None

    def value(self, result: TrialResult, store: TrialStore) -> Value:
        return result.spec.model


class Broken(Column):
    """Divides by zero."""

    heading = "broken"

    def value(self, result: TrialResult, store: TrialStore) -> Value:
        return 1 / 0


@pytest.fixture(autouse=True, scope="module")
def _extensions() -> Iterator[None]:
    with registered(COLUMNS, word_of_tests=Word, broken_of_tests=Broken):
        yield


def test_figures_in_the_units_of_their_columns(tmp_path: Path) -> None:
    result, store = fakes.result(fakes.spec()), TrialStore(tmp_path)
    figures = result.metrics()
    assert list(FIGURES) == HEADINGS
    assert FIGURES["Δ pt"].value(result, store) == 100 * figures["accuracy.delta"]
    assert FIGURES["SQNR"].value(result, store) == figures.get("sqnr")
    assert FIGURES["unmet"].value(result, store) == 0
    assert FIGURES["s"].value(result, store) == sum(result.seconds.values())
    assert result.accuracy is not None
    assert FIGURES["±"].value(result, store) == 100 * result.accuracy.margin
    assert FIGURES["±"].value(fakes.failed(fakes.spec()), store) is None


def test_columns_of_the_user_stand_last_and_cannot_lose_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result, store = fakes.result(fakes.spec()), TrialStore(tmp_path)
    own = own_columns()
    assert [column.heading for column in columns()][: len(HEADINGS)] == HEADINGS
    assert own["word_of_tests"].value(result, store) == result.spec.model
    with caplog.at_level(logging.WARNING):
        assert own["broken_of_tests"].value(result, store) is None
    assert "broken_of_tests' raised ZeroDivisionError" in caplog.text
    assert "the cell stays empty" in caplog.text
