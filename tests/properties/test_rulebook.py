"""At most one rule decides each node and tensor, on networks of deployed forms; what it decides is kept on it."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chips import March
from engine.place import PlacementOptions, place
from engine.rulebook.book import BOOK, RULES, Book
from engine.rulebook.marks import rules_of
from engine.rulebook.rule import Rule, Table
from tests.properties.stages import MARCHES
from tests.properties.test_deployed import FEWER, stages_of
from tests.strategies.deployed import DeployedCase, deployed_cases


class Strict(Table[Any, Any]):
    """A table of which two rules must never fit one node or tensor."""

    def decide(self, site: Any, chip: March) -> Rule[Any, Any] | None:
        """As a table does, but for two rules that fit."""
        found = self.fitting(site, chip)
        assert len(found) <= 1, [rule.id for rule in found]
        return next(iter(found), None)


def strict() -> Book:
    """The book, with tables that allow no doubt."""
    changed = BOOK.without()
    for table in changed.tables:
        table.__class__ = Strict
    return changed


def marks(model: ir.Model) -> list[dict[str, str]]:
    return [dict(node.metadata_props) for node in model.graph]


@pytest.mark.parametrize("march", MARCHES)
@FEWER
@given(case=deployed_cases(), chosen=st.integers(1, 4))
def test_one_rule_decides_each_node_and_tensor(march: str, case: DeployedCase, chosen: int) -> None:
    """As the network is, and with requests for some nodes."""
    optimized = stages_of(case, march).optimized
    names = [str(node.name) for node in optimized.graph]
    for options in (
        PlacementOptions(),
        PlacementOptions(
            run_on_cpu=tuple(names[::chosen]), run_on_bpu=tuple(names[1 :: chosen + 1]), output_type="int8"
        ),
    ):
        found = place(optimized, march, options, strict()).model
        assert marks(found) == marks(place(optimized, march, options).model)
        assert {rule for node in found.graph for rule in rules_of(node)} <= RULES.keys()
