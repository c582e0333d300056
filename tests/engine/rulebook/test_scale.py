"""The rules of scales, alone: what each demands."""

from __future__ import annotations

import pytest
from onnx import helper

from engine.chips import ChipFamily, load_chip
from engine.graph.scales import Gate
from engine.place.devices import mark_placement
from engine.rulebook.scale import STEPS, ScaleSite
from engine.rulebook.solve import FixedThreshold, GateOf, How, ScaleOf
from tests.engine.place.networks import network, one


def demands(op_type: str, *inputs: str, **attributes: object) -> dict[str, list[object]]:
    """What the rules that fit the node ``Middle`` demand, by rule."""
    middle = [one(op_type, *inputs, **attributes)]
    if "c1" in inputs:
        middle.insert(0, helper.make_node("Neg", ["c0"], ["c1"], name="Other"))
    model = network(middle)
    mark_placement(model, load_chip("bayes-e"))
    (node,) = (node for node in model.graph if node.name == "Middle")
    site = ScaleSite(node, calibrations={"m": node})
    rules = [step.table.decide(site, ChipFamily.BAYES) for step in STEPS]
    return {rule.id: list(rule.then(site)) for rule in rules if rule is not None and rule.id != "scale.fixed"}


@pytest.mark.parametrize(
    ("op_type", "inputs", "found"),
    [
        ("MaxPool", ("c0",), {"scale.moved": [ScaleOf("m", "c0", How.TAKES)]}),
        ("LeakyRelu", ("c0",), {"scale.of-result": [ScaleOf("c0", "m", How.IF_FREE)]}),
        (
            "Concat",
            ("c0", "c1"),
            {"scale.joined": [ScaleOf("c0", "m", How.WITH_HEAD), ScaleOf("c1", "m", How.WITH_HEAD)]},
        ),
        ("Sigmoid", ("c0",), {"scale.gated": [GateOf("m", "c0", Gate.SIGMOID)]}),
    ],
)
def test_what_a_node_demands(op_type: str, inputs: tuple[str, ...], found: dict[str, list[object]]) -> None:
    attributes = {"MaxPool": {"kernel_shape": [1, 1]}, "Concat": {"axis": 1}}.get(op_type, {})
    assert demands(op_type, *inputs, **attributes) == found


def test_fixed_thresholds_compare_by_value() -> None:
    assert FixedThreshold("a", 1.0) == FixedThreshold("a", 1.0)
    assert len({FixedThreshold("a", 1.0), FixedThreshold("a", 2.0)}) == 2
