"""The stages in order: each behind what it reads, those without data among them."""

from __future__ import annotations

import pytest

from engine.convert.items import DATA, SOURCE, SPECS, STATISTICS, THREADS
from engine.convert.pipeline import CONVERSION, DEFAULTS, WITHOUT_DATA, conversion
from engine.convert.runner import Given, Stage
from tests.engine.convert.work import configured


@pytest.mark.parametrize(
    ("stages", "given"),
    [(CONVERSION, {STATISTICS, THREADS}), (WITHOUT_DATA, {STATISTICS, THREADS, SOURCE, SPECS, DATA})],
)
def test_every_stage_stands_behind_what_it_reads(stages: tuple[Stage, ...], given: set) -> None:
    known = set(given)
    for stage in stages:
        assert set(stage.reads) <= known, stage.name
        known |= set(stage.gives)


def test_a_check_leaves_out_reading_data_and_comparing() -> None:
    names = [stage.name for stage in CONVERSION if stage.name not in {other.name for other in WITHOUT_DATA}]
    assert names == ["read", "open data", "compare", "measure"]


def test_statistics_and_threads_have_defaults_that_others_replace() -> None:
    assert {item.name: each for item, each in DEFAULTS.items()} == {
        "statistics": Given(None, "collected"),
        "threads": Given(None, "any"),
    }
    run = conversion(configured(), {THREADS: Given(2, "any"), SOURCE: Given("model", "key")})
    assert (run[THREADS], run[STATISTICS], run[SOURCE]) == (2, None, "model")
    assert conversion(configured())[THREADS] is None
