"""Evidence as a sentence, and the file of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.rulebook.book import RULES
from engine.rulebook.evidence import RuleEvidence, evidence_for, evidence_text, is_provisional, load_evidence


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        (RuleEvidence(), "no recorded conversion shows it"),
        (RuleEvidence(cases=1, networks=1, nodes=3), "3 nodes in 1 case of 1 network, so it is provisional"),
        (
            RuleEvidence(cases=2, networks=2, nodes=3, apart=4, apart_contradicted=1),
            "3 nodes in 2 cases of 2 networks; kept apart: 4 nodes, 1 otherwise",
        ),
        (
            RuleEvidence(cases=4, networks=2, nodes=9, contradicted=1, contradictions=("a: b",), needed=("c", "d")),
            "9 nodes in 4 cases of 2 networks; the original did otherwise at 1: a: b; "
            "the smallest case that needs it: c; agreement gained: 0",
        ),
    ],
)
def test_evidence_reads_as_a_sentence(evidence: RuleEvidence, says: str) -> None:
    assert str(evidence) == says


def test_the_file_has_every_rule_and_no_other() -> None:
    """``ptqlab rules evidence CASES... -o engine/rulebook/evidence.json`` writes it anew."""
    assert load_evidence().keys() == RULES.keys()
    assert evidence_for("calibrated.input").cases > 0


def test_what_no_case_says_anything_of_has_no_evidence() -> None:
    assert evidence_for("device.made-up") == RuleEvidence()


def test_what_no_replay_shows_was_measured_apart() -> None:
    replayed, apart = RULES["calibrated.input"], RULES["method.kl-decimals"]
    assert evidence_text(replayed) == str(evidence_for(replayed.id))
    assert apart.measured is not None
    assert evidence_text(apart) == apart.measured.how
    once = replace(apart, measured=replace(apart.measured, networks=1))
    assert evidence_text(once).endswith("; one network, so it is provisional")
    assert [is_provisional(rule) for rule in (replayed, apart, once)] == [False, False, True]
