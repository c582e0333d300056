"""Rules that are kept on nodes."""

from __future__ import annotations

from onnx import helper

from engine.place import place
from engine.rulebook.book import RULES
from engine.rulebook.marks import note, rules_behind, rules_of
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
        assert {name for name, rules in found.items() if not rules} == weights
        assert {rule for rules in found.values() for rule in rules} <= RULES.keys()
    nodes = {node.name: node for node in placed.graph}
    assert rules_of(nodes["There"])[0] == "device.late-operator"
    assert "calibrated.input" in rules_behind(nodes["There"])
