"""All tables of types, in their order."""

from __future__ import annotations

from engine.rulebook.book import BOOK
from engine.rulebook.rule import Table
from engine.rulebook.width import WidthRules


def test_the_tables_make_the_rules_again_in_their_order() -> None:
    rules = WidthRules()
    assert WidthRules(*rules.tables) == rules
    assert len(rules.tables) == len(set(map(id, rules.tables)))


def test_every_rule_of_a_type_stands_in_one_of_the_tables() -> None:
    found = [rule.id for table in WidthRules().tables for rule in table]
    assert sorted(found) == sorted(rule.id for table in BOOK.tables for rule in table if rule.id.startswith("width."))
    assert all(isinstance(table, Table) for table in WidthRules().tables)
