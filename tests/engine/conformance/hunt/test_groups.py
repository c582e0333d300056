"""Groups on disk: kept whole, replaced whole, read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.conformance.hunt.groups import (
    FILE,
    GROUPS,
    DepartureGroup,
    counts,
    group_name,
    keep_group,
    operators_of,
    read_groups,
)
from engine.conformance.hunt.signatures import Signature
from engine.errors import ConfigError
from tests.engine.conformance.hunt.test_agreement import outcome
from tests.engine.conformance.hunt.test_cutting import chain

SIGNATURE = Signature(stage="placement", operator="MatMul", readers=("Softmax",), cause="quantised to nothing | int8")


def group(**values: object) -> DepartureGroup:
    known = {
        "name": group_name(SIGNATURE),
        "signature": SIGNATURE,
        "first": 3,
        "operators": ("Split", "MatMul"),
        "departure": "placement: v: quantised to nothing | int8",
        "march": "bayes",
        "options": "calibration_type max",
    }
    return DepartureGroup.model_validate({**known, **values})


def case(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "result.json").write_text(text)
    return folder


def test_a_group_is_kept_replaced_and_read(tmp_path: Path) -> None:
    keep_group(group(), case(tmp_path / "a", "first"), tmp_path)
    smaller = keep_group(group(operators=("MatMul",), shrunk=True), case(tmp_path / "b", "second"), tmp_path)
    folder = tmp_path / GROUPS / smaller.name
    assert {path.name for path in folder.iterdir()} == {FILE, smaller.name}
    assert (folder / smaller.name / "result.json").read_text() == "second"
    assert read_groups(tmp_path) == {SIGNATURE: smaller}
    keep_group(smaller.model_copy(update={"asked": 9}), folder / smaller.name, tmp_path)
    assert (folder / smaller.name / "result.json").read_text() == "second"


def test_a_damaged_group_is_named(tmp_path: Path) -> None:
    folder = tmp_path / GROUPS / "g"
    folder.mkdir(parents=True)
    (folder / FILE).write_text("{}")
    with pytest.raises(ConfigError, match=r"g/group.json: is no group of a hunt; remove its folder"):
        read_groups(tmp_path)


def test_names_tell_signatures_apart() -> None:
    other = SIGNATURE.model_copy(update={"readers": ()})
    assert group_name(SIGNATURE).startswith("placement_MatMul_")
    assert group_name(SIGNATURE) != group_name(other)


def test_a_sentence_says_how_often_where_and_with_what() -> None:
    assert group(shrunk=True).sentence(12, 400) == (
        "12 of 400 draws depart at placement at MatMul, read by Softmax: quantised to nothing | int8; smallest network "
        "that does has 2 nodes (Split, MatMul), on bayes with calibration_type max: placement: v: quantised to nothing "
        "| int8."
    )
    many = group(operators=("Conv",) * 30)
    assert "a network that does has 30 nodes" in many.sentence(1, 2)
    assert "and 18 more" in many.sentence(1, 2)


def test_counts_and_operators() -> None:
    outcomes = [outcome(0, False, signatures=(SIGNATURE,)), outcome(1, True)]
    assert counts(outcomes) == {SIGNATURE: 1}
    assert operators_of(chain().model()) == ("Conv", "Relu", "Conv", "Sigmoid", "Mul")
