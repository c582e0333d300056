"""Evidence for names: what the original's models have of the names that rules give."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.chips import load_chip
from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.name_evidence import NameVerdict, name_verdicts, names_of
from engine.conformance.rule_evidence import subject_of
from engine.ir import load_model
from engine.rulebook.name import NamedKind, Naming

CASES = Path(__file__).resolve().parents[2] / "parity" / "recorded" / "means"


@pytest.fixture(scope="module")
def case() -> RecordedCase:
    return find_cases(CASES)[0]


def verdicts(case: RecordedCase) -> list[NameVerdict]:
    naming = Naming(load_chip(case.march).family)
    placed = subject_of(case).placed(names=naming)
    return list(name_verdicts(case, naming, placed))


def test_names_are_counted_in_both_models(case: RecordedCase) -> None:
    found = verdicts(case)
    assert all(each.agrees for each in found)
    assert {"name.calibration", "name.calibrated", "name.quantizes", "name.integers"} <= {each.rule for each in found}


def test_what_a_name_would_be_otherwise_is_not_the_original_s(case: RecordedCase) -> None:
    found = [each for each in verdicts(case) if each.rule == "name.calibration"]
    assert found
    assert all((each.gained, each.name) == (2, f"{each.other}_HzCalibration") for each in found)


def test_nodes_tensors_and_constants_have_names_of_their_own(case: RecordedCase) -> None:
    names = names_of(load_model(case.quantized))
    assert {kind for kind, _ in names} == set(NamedKind)
