"""Small networks that were recorded for one rule each: all that the original makes of them, ptqlab makes too.

A folder of ``recorded`` is one rule; its cases were asked for with version 1.24.3 of the original, varying one thing
at a time. Reasons of refusals are in our words.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.measures import measure
from engine.ir import load_model
from engine.quantize import quantize
from engine.quantize.diff import diff
from engine.toolchain.log import tidied
from tests.parity.estimates import are_recorded_ones

RECORDED = Path(__file__).parent / "recorded"
LARGEST = 50_000
"""Bytes of a case."""
ESTIMATED = frozenset({"norm_on_bernoulli2"})
"""Cases with a scale that has other last bits on CPUs that estimate reciprocal roots otherwise."""


@pytest.mark.parametrize("case", find_cases(RECORDED), ids=lambda case: case.name)
def test_a_recorded_case_is_converted_as_the_original_converts_it(case: RecordedCase, tmp_path: Path) -> None:
    row = measure(case, tmp_path)
    departure = str(row.departure or "")
    assert departure == "" or (case.name in ESTIMATED and not are_recorded_ones() and ": floats " in departure)
    assert row.converts
    assert row.simulator is not False
    assert row.outputs is not False


@pytest.mark.parametrize("case", find_cases(RECORDED / "averages"), ids=lambda case: case.name)
def test_averages_in_steps_in_calibrated_files_of_the_original_become_its_integers(case: RecordedCase) -> None:
    """Such a file has no mark that says so."""
    assert list(diff(quantize(load_model(case.calibrated), case.march), load_model(case.quantized))) == []


@pytest.mark.parametrize("path", sorted(RECORDED.rglob("result.json")), ids=lambda path: path.parent.name)
def test_a_recorded_case_names_no_folder_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert list(tidied(text)) == text.splitlines()
    assert not re.search(r"/(?:home|root|Users|tmp)/", text)


@pytest.mark.parametrize("case", find_cases(RECORDED), ids=lambda case: case.name)
def test_a_recorded_case_is_small(case: RecordedCase) -> None:
    assert sum(path.stat().st_size for path in case.folder.rglob("*") if path.is_file()) <= LARGEST
