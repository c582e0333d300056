"""The table of quirks."""

from __future__ import annotations

import pytest

from engine.errors import ConfigError
from engine.parity.quirks import QUIRKS, Quirk, quirk
from engine.terms import Compatibility


def test_every_quirk_says_what_shows_it() -> None:
    assert QUIRKS
    for code, item in QUIRKS.items():
        assert code == item.code
        assert item.rule.endswith("."), code
        assert item.evidence.endswith("."), code
        assert item.networks > 0, code


def test_a_rule_of_one_network_is_provisional_until_others_confirm_it() -> None:
    assert Quirk("a", "Rule.", "Seen.", networks=1).provisional
    assert Quirk("a", "Rule.", "Seen.", networks=1, confirmed=False).provisional
    assert not Quirk("a", "Rule.", "Seen.", networks=1, confirmed=True).provisional
    assert not Quirk("a", "Rule.", "Seen.", networks=2).provisional


def test_clean_leaves_out_only_what_costs_accuracy() -> None:
    harmless, costly = Quirk("a", "Rule.", "Seen.", 2), Quirk("b", "Rule.", "Seen.", 2, instead="another")
    assert [item.imitated(Compatibility.ORIGINAL) for item in (harmless, costly)] == [True, True]
    assert [item.imitated(Compatibility.CLEAN) for item in (harmless, costly)] == [True, False]


def test_an_unknown_code_is_refused() -> None:
    with pytest.raises(ConfigError, match="no quirk 'hard-sigmoid'; known: "):
        quirk("hard-sigmoid")
