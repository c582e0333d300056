"""From a network that departs to the smallest one, without asking more often than allowed."""

from __future__ import annotations

import pytest

from engine.conformance.hunt.draws import Draw
from engine.conformance.hunt.shrinking import AskBudget, Shrinker, neighbours
from engine.conformance.questions.network import SmallNetwork
from tests.engine.conformance.hunt.test_cutting import item


def network() -> SmallNetwork:
    """Twelve layers with a Softmax of rank 4 in the middle."""
    net = SmallNetwork("n", (1, 8, 16, 16), 1)
    x = "x"
    for layer in range(12):
        x = net.conv(x, 8, 8)
        x = net.op("Softmax", x, axis=3) if layer == 6 else net.op("Relu", x)
    net.output(x)
    return net


def has_softmax_behind_convolution(draw: Draw) -> bool:
    made = {name: node.op_type for node in draw.model.graph.node for name in node.output}
    return any(node.op_type == "Softmax" and made.get(node.input[0]) == "Conv" for node in draw.model.graph.node)


def test_two_nodes_of_24_are_left_and_few_rows_and_columns() -> None:
    asked: list[Draw] = []

    def departs(draw: Draw) -> bool:
        asked.append(draw)
        return has_softmax_behind_convolution(draw)

    whole = item(network(), per_channel=True, max_percentile=0.99)
    shrinker = Shrinker(departs, AskBudget(60))
    found = shrinker.smallest(whole, "softmax_13")
    assert [node.op_type for node in found.model.graph.node] == ["Conv", "Softmax"]
    assert found.parameters["calibration_parameters"] == {"calibration_type": "max"}
    (shape,) = {samples.shape for samples in found.data.values()}
    assert shape[0] == 8, "samples"
    assert shape[3] * shape[4] < 16 * 16
    assert shrinker.budget.asked == len(asked) <= 60


def test_without_a_place_the_ends_are_halved() -> None:
    shrinker = Shrinker(has_softmax_behind_convolution, AskBudget(80))
    found = shrinker.smallest(item(network()), "")
    assert [node.op_type for node in found.model.graph.node] == ["Conv", "Softmax"]


@pytest.mark.nightly
def test_a_budget_is_kept_and_what_departs_is_returned() -> None:
    shrinker = Shrinker(has_softmax_behind_convolution, AskBudget(2))
    found = shrinker.smallest(item(network()), "")
    assert shrinker.budget.asked == 2
    assert has_softmax_behind_convolution(found)


def test_an_option_that_the_departure_needs_stays() -> None:
    def departs(draw: Draw) -> bool:
        return has_softmax_behind_convolution(draw) and "per_channel" in draw.parameters["calibration_parameters"]

    found = Shrinker(departs, AskBudget(40)).smallest(
        item(network(), per_channel=True, max_percentile=0.9), "softmax_13"
    )
    assert found.parameters["calibration_parameters"] == {"calibration_type": "max", "per_channel": True}


def test_neighbours_of_nodes_and_tensors() -> None:
    model = network().model()
    assert neighbours(model, "Softmax_13", 0) == ["Softmax_13"]
    assert neighbours(model, "conv_12", 1) == ["Relu_11", "Conv_12", "Softmax_13"]
    assert neighbours(model, "x", 0) == ["Conv_0"]
    assert neighbours(model, "nothing", 3) == []
