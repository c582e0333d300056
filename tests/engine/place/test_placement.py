"""Placement: chains, marks, ties, fixed thresholds, refusals, tails."""

from __future__ import annotations

import pytest

from engine.chips import load_chip as load_chip
from engine.place import NodeTypes, PlacementOptions
from engine.place.placement import place
from tests.engine.place.networks import calibrated, network, one, qtype


@pytest.mark.parametrize(
    ("asked", "said"),
    [("Midle", "; did you mean 'Middle'?"), ("Conv", "; it is computed by Conv_0, Conv_9"), ("gone", "")],
)
def test_an_unknown_name_is_reported_with_what_it_may_be(asked: str, said: str) -> None:
    placement = place(network([one("Sigmoid", "c0")]), "bayes-e", PlacementOptions(run_on_cpu=frozenset({asked})))
    (refusal,) = placement.refusals
    assert (refusal.node, refusal.reason) == (asked, f"the optimised model has no such node{said}")


@pytest.mark.parametrize(("op_type", "refused"), [("Softmax", True), ("Sigmoid", False)])
def test_an_output_of_a_cpu_node_stays_in_float(op_type: str, refused: bool) -> None:
    attributes = {"axis": 1} if op_type == "Softmax" else {}
    model = network([one(op_type, "c0", **attributes)], tail=False)
    (found,) = place(model, "bayes-e", PlacementOptions(output_type="int8")).refusals or (None,)
    assert (found is not None) is refused
    if found is not None:
        assert (found.node, found.request) == ("Middle", "set_model_output_int8")


@pytest.mark.parametrize(
    ("types", "request_", "reason"),
    [
        (NodeTypes(on="CPU", input_type="int16"), "int16", "it runs on the CPU: run_on_cpu is set"),
        (NodeTypes(input_types={3: "int16"}), "InputType3: int16", "its quantised inputs are 0; weights are int8"),
    ],
)
def test_types_that_nothing_can_take_are_reported(types: NodeTypes, request_: str, reason: str) -> None:
    placement = place(network([one("Sigmoid", "c0")]), "bayes-e", PlacementOptions(node_info={"Middle": types}))
    (refusal,) = placement.refusals
    assert (refusal.node, refusal.request, refusal.reason) == ("Middle", request_, reason)
    assert "int16" not in {qtype(calibration) for calibration in calibrated(placement).values()}


def test_the_model_that_is_placed_is_not_changed() -> None:
    model = network([one("Relu", "c0")])
    before = [(node.op_type, dict(node.metadata_props)) for node in model.graph]
    place(model, "bayes-e", PlacementOptions())
    assert [(node.op_type, dict(node.metadata_props)) for node in model.graph] == before
