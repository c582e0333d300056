"""One pass over the calibration data for all settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.convert.items import DATA, OPTIMIZED, STATISTICS
from harness.backends.items import STATISTICS_FILE, STATISTICS_OPTIONS, TENSORS
from harness.backends.stages import statistics
from harness.backends.stages.statistics import COLLECT
from tests.harness.backends.stages import work

GIVEN: dict[Any, Any] = {
    OPTIMIZED: "optimized",
    DATA: "data",
    TENSORS: ("b", "a"),
    STATISTICS_OPTIONS: "options",
    STATISTICS_FILE: Path("file"),
}


def test_what_is_collected_is_read_back_from_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(statistics, "collect_into", lambda *arguments: asked.append(arguments))
    monkeypatch.setattr(statistics.Statistics, "load", lambda path: ("loaded", path))
    assert work.given_by(COLLECT, GIVEN)[STATISTICS] == ("loaded", Path("file"))
    assert asked == [(Path("file"), "optimized", ["b", "a"], "data", "options")]


def test_nothing_is_collected_without_data() -> None:
    with pytest.raises(LookupError, match="collected of data"):
        work.given_by(COLLECT, {**GIVEN, DATA: None})
