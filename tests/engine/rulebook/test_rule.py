"""Patterns, rules and tables of rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.chips import ChipFamily
from engine.rulebook.rule import BAYES, BERNOULLI, Pattern, Rule, Table
from engine.terms import Compatibility

EVEN = Pattern[int]("is even", lambda number: number % 2 == 0)
LARGE = Pattern[int]("is large", lambda number: number > 10)


def rule(name: str, when: Pattern[int] = EVEN, *over: str) -> Rule[int, str]:
    return Rule(f"number.{name}", f"{name}.", when, name, over=tuple(f"number.{each}" for each in over))


@pytest.mark.parametrize(
    ("pattern", "says", "size", "holds"),
    [
        (EVEN & LARGE, "is even and is large", 2, [12]),
        (EVEN | LARGE, "(is even or is large)", 2, [2, 12, 13]),
        (~EVEN, "not (is even)", 1, [3, 13]),
        (EVEN & ~LARGE, "is even and not (is large)", 2, [2]),
    ],
)
def test_patterns_combine_and_print(pattern: Pattern[int], says: str, size: int, holds: list[int]) -> None:
    assert (pattern.says, pattern.size) == (says, size)
    assert [number for number in (2, 3, 12, 13) if pattern.holds(number)] == holds


def test_the_rule_that_is_over_the_others_decides_also_by_way_of_a_third() -> None:
    table = Table("number", [rule("low"), rule("high", EVEN, "middle"), rule("middle", LARGE, "low")])
    found = {number: table.decide(number, ChipFamily.BAYES) for number in (2, 12, 13, 3)}
    assert {number: each and each.then for number, each in found.items()} == {
        2: "high",
        12: "high",
        13: "middle",
        3: None,
    }


def test_what_is_beaten_is_not_looked_at() -> None:
    def fails(number: int) -> bool:
        raise AssertionError(number)

    table = Table("number", [rule("beaten", Pattern("fails", fails)), rule("over", EVEN, "beaten")])
    decided = table.decide(2, ChipFamily.BAYES)
    assert decided is not None
    assert decided.then == "over"


def test_two_rules_of_which_none_is_over_the_other_both_fit() -> None:
    table = Table("number", [rule("one"), rule("two", LARGE)])
    assert [each.then for each in table.fitting(12, ChipFamily.BAYES)] == ["one", "two"]
    assert len(table.fitting(2, ChipFamily.BAYES)) == 1


def test_rules_hold_for_chips() -> None:
    table = Table("number", [Rule("number.a", "A.", EVEN, "a", BERNOULLI), Rule("number.b", "B.", EVEN, "b", BAYES)])
    found = {family: [each.then for each in table.fitting(2, family)] for family in ChipFamily}
    assert found == {ChipFamily.BERNOULLI: ["a"], ChipFamily.BAYES: ["b"]}


def test_a_table_without_a_rule_lets_the_next_one_decide() -> None:
    table = Table("number", [rule("low"), rule("high", EVEN, "low")]).without("number.high")
    assert [each.id for each in table] == ["number.low"]
    without_low = Table("number", [rule("low"), rule("high", EVEN, "low")]).without("number.low")
    assert [(each.id, each.over) for each in without_low] == [("number.high", ())]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ([rule("a"), rule("a")], "two rules of table number have one id"),
        ([rule("a", EVEN, "b")], r"over \['number.b'\], which table number does not have"),
        ([rule("a", EVEN, "b"), rule("b", EVEN, "a")], "is over itself"),
        ([Rule("other.a", "A.", EVEN, "a")], "rule other.a is in table number"),
    ],
)
def test_tables_that_do_not_hold_together_are_refused(rules: list[Rule[int, str]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Table("number", rules)


def test_a_rule_that_costs_accuracy_is_followed_unless_something_else_is_done() -> None:
    free, fixed, right = rule("a"), replace(rule("b"), advice="Avoid it"), replace(rule("c"), instead="the right thing")
    assert [each.costs_accuracy for each in (free, fixed, right)] == [False, True, True]
    assert all(each.imitated(Compatibility.ORIGINAL) for each in (free, fixed, right))
    assert [each.imitated(Compatibility.CLEAN) for each in (free, fixed, right)] == [True, True, False]
