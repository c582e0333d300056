"""Rules that are kept on nodes."""

from __future__ import annotations

from dataclasses import replace

from onnx import helper

from engine.place import place
from engine.rulebook.book import RULES
from engine.rulebook.marks import costly, note, remark, rules_behind, rules_of, told
from tests.engine.place.networks import network, one


def test_a_rule_is_noted_once_behind_the_others() -> None:
    node = next(iter(network([one("Relu", "c0")]).graph))
    for rule in ("a.b", "c.d", "a.b"):
        note(node, rule)
    assert rules_of(node) == ("a.b", "c.d")


def test_every_node_of_a_placed_model_carries_the_rules_that_decided_it() -> None:
    middle = [helper.make_node("Reshape", ["c0", "k"], ["r"], name="There"), one("Reshape", "r", "l")]
    constants = {"k": [1, 4, 64], "l": [1, 4, 8, 8]}
    for march in ("bayes-e", "bernoulli2"):
        placed = place(network(middle, constants=constants), march).model
        found = {str(node.name): rules_of(node) for node in placed.graph}
        weights = {f"{name}_HzCalibration" for name in ("w0", "w9")}
        named = {name for name, rules in found.items() if all(rule.startswith("name.") for rule in rules)}
        assert named == weights
        assert {rule for rules in found.values() for rule in rules} <= RULES.keys()
    nodes = {node.name: node for node in placed.graph}
    assert rules_of(nodes["There"])[0] == "device.late-operator"
    assert "calibrated.input" in rules_behind(nodes["There"])
    assert not any(rule.startswith("name.") for rule in rules_behind(nodes["There"]))


def test_what_costs_accuracy_is_told_by_node_and_by_rule() -> None:
    first, second = RULES["arithmetic.hard-sigmoid-slope"], RULES["method.bias-correction-sample"]
    model = network([one("HardSigmoid", "c0")])
    nodes = list(model.graph)
    for node, rules in zip(nodes, ((second,), (first, second), ()), strict=False):
        for rule in rules:
            note(node, rule.id)
    note(nodes[0], "device.late-operator")
    note(nodes[0], "arithmetic.of-another-version")
    assert costly(model) == {first: (nodes[1].name,), second: (nodes[0].name, nodes[1].name)}
    assert second.measured is not None
    once = replace(second, measured=replace(second.measured, networks=1))
    assert (told(first), told(second)) == (f"rule {first.id}", f"rule {second.id}")
    assert told(once) == f"rule {second.id} (provisional)"
    assert [remark(node) for node in nodes[:3]] == [told(second), f"{told(first)}, {told(second)}", ""]
