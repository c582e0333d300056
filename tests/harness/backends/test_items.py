"""Items of trials: a run knows them by name, so that no two may share one."""

from __future__ import annotations

from collections import Counter

from engine.convert import items as conversion
from engine.convert.runner import Item
from harness.backends import items


def test_names_are_unique_among_those_of_conversions_too() -> None:
    found = [item.name for module in (items, conversion) for item in vars(module).values() if isinstance(item, Item)]
    assert len(found) > 25
    assert [name for name, count in Counter(found).items() if count > 1] == []


def test_an_item_is_called_as_its_constant() -> None:
    named = {name: item.name for name, item in vars(items).items() if isinstance(item, Item)}
    assert {name.lower(): item for name, item in named.items()} == {item: item for item in named.values()}
