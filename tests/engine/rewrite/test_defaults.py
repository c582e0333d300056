"""The list of rewrites."""

from __future__ import annotations

from engine.rewrite.base import Rewrite
from engine.rewrite.defaults import REWRITES


def test_names_are_unique_and_every_rewrite_says_what_it_does_in_one_sentence() -> None:
    names = [each.name for each in REWRITES]
    assert len(set(names)) == len(names)
    for each in REWRITES:
        assert issubclass(each, Rewrite)
        assert each.says.endswith(".")
        assert ". " not in each.says
