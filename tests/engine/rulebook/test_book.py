"""All rules together: they say what they do, and are found by id, and can be left out."""

from __future__ import annotations

import pytest

from engine.errors import ConfigError
from engine.rulebook.book import BOOK, RULES, chips_of, decision_of, find_rule


def test_every_rule_says_what_the_original_does_in_a_sentence() -> None:
    for rule in RULES.values():
        assert rule.says[0].isupper() or rule.says.startswith(("bernoulli2", "a / b", "x * ")), rule.id
        assert rule.says.endswith("."), rule.id
        assert all((rule.when.says, decision_of(rule), chips_of(rule))), rule.id


def test_an_unknown_rule_is_answered_with_one_that_is_near() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'device\.lacking'"):
        find_rule("device.lackin")


def test_a_book_without_a_rule_lacks_it_and_nothing_else() -> None:
    for name in RULES:
        found = {rule.id for table in BOOK.without(name).tables for rule in table}
        assert found == {rule.id for table in BOOK.tables for rule in table} - {name}
