"""Evidence for rules: what recorded conversions show, contradict and need."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import helper

from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.rule_evidence import PlacedSubject, gather, needed_by, subject_of, verdicts, write_evidence
from engine.optimize import optimize
from engine.place import PlacementOptions
from engine.rulebook.book import RULES
from engine.rulebook.evidence import RuleEvidence
from tests.engine.place.networks import network, one

CASES = Path(__file__).resolve().parents[2] / "parity" / "recorded"


@pytest.fixture(scope="module")
def case() -> RecordedCase:
    found = [case for case in find_cases(CASES) if not case.refusal and not case.damage]
    return min(found, key=lambda case: sum(file.stat().st_size for file in case.folder.iterdir() if file.is_file()))


def test_what_the_original_did_agrees_with_the_rules_and_is_counted(case: RecordedCase) -> None:
    found = gather([case], most_nodes=100)
    assert found.keys() == RULES.keys()
    shown = {rule for rule, evidence in found.items() if evidence.cases}
    assert "calibrated.input" in shown
    assert all(evidence.cases <= {case.name} for evidence in found.values())
    assert any(evidence.needed == [case.name] for evidence in found.values())


def test_a_device_that_the_original_chose_otherwise_is_a_contradiction(case: RecordedCase) -> None:
    placed = subject_of(case).placed()
    name = next(str(node.name) for node in placed.graph if node.metadata_props.get("hz.on") == "BPU")
    for device, agrees in (("BPU", True), ("CPU", False)):
        found = [each for each in verdicts(placed, replace(case, devices={name: device})) if each.where == name]
        assert [each.agrees for each in found if each.rule.startswith("device.")] == [agrees]


def test_a_rule_is_needed_where_another_placement_follows_without_it() -> None:
    model = optimize(network([helper.make_node("Max", ["c0", "c1"], ["m"], name="Middle")], before=2), "bernoulli2")
    subject = PlacedSubject(model, "bernoulli2", PlacementOptions())
    asked = ("device.late-operator", "device.product-tail", "device.made-up")
    assert needed_by(subject, asked) == ["device.late-operator"]


def test_evidence_is_written_as_the_rulebook_reads_it(case: RecordedCase, tmp_path: Path) -> None:
    path = write_evidence(gather([case], most_nodes=0), tmp_path / "evidence.json")
    content = {rule: RuleEvidence.model_validate(found) for rule, found in json.loads(path.read_text()).items()}
    assert content.keys() == RULES.keys()
    assert content["calibrated.input"].networks == 1
    assert content["calibrated.input"].provisional
    assert all(found.needed == () for found in content.values())


def test_a_network_of_one_relu_needs_its_operator() -> None:
    model = optimize(network([one("Relu", "c0")]), "bayes-e")
    assert needed_by(PlacedSubject(model, "bayes-e", PlacementOptions()), ["device.bpu"]) == ["device.bpu"]


def test_networks_kept_apart_are_counted_without_their_names(case: RecordedCase) -> None:
    seen, apart = gather([case], most_nodes=0), gather([case], most_nodes=100, apart=[case.family])
    assert {rule: each.apart for rule, each in apart.items()} == {rule: each.nodes for rule, each in seen.items()}
    assert {rule: each.apart_contradicted for rule, each in apart.items()} == {
        rule: len(each.contradicted) for rule, each in seen.items()
    }
    assert not any(each.cases or each.nodes or each.contradicted or each.needed for each in apart.values())
