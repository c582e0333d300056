"""Which operators a recorded conversion shows."""

from __future__ import annotations

import pytest

from engine.chips import MEASURED_MARCHES
from engine.chips.coverage import is_measured, load_measured
from engine.ops.registry import RULE_BY_TYPE


def test_every_march_has_convolutions_of_maps() -> None:
    assert set(load_measured()) == set(MEASURED_MARCHES)
    assert all(is_measured(march, "Conv", 4) for march in MEASURED_MARCHES)


@pytest.mark.parametrize(
    ("march", "operator", "rank"),
    [("nash-e", "NoSuchOperator", 4), ("bayes", "NoSuchOperator", 4), ("bayes", "Conv", 2)],
)
def test_what_no_file_shows_is_not_measured(march: str, operator: str, rank: int) -> None:
    assert not is_measured(march, operator, rank)


def test_ranks_are_those_of_tensors() -> None:
    ranks = {rank for operators in load_measured().values() for found in operators.values() for rank in found}
    assert ranks <= set(range(7))
    measured = {operator for operators in load_measured().values() for operator in operators}
    assert len(measured & set(RULE_BY_TYPE)) > 20
