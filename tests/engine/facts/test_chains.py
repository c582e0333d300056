"""Which float nodes become one quantised node, and what is an exact sum."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx import helper

from engine.calibrate import apply_thresholds
from engine.chips import load_chip
from engine.facts.chains import chain_of, chains, joins
from engine.place import PlacementOptions, place
from engine.quantize import quantize
from tests.engine.place.networks import calibrated, network, one


def test_convolution_absorbs_sum_and_relu() -> None:
    middle = [helper.make_node("Add", ["c0", "c1"], ["s"], name="Sum"), one("Relu", "s")]
    placement = place(network(middle, before=2), "bayes-e", PlacementOptions())
    names = [[node.name for node in chain] for chain in chains(placement.model, load_chip("bayes-e"))]
    assert names == [["Conv_0"], ["Conv_1", "Sum", "Middle"], ["Conv_9"]]
    assert set(calibrated(placement)) == {"x", "c0", "m"}


def test_convolution_absorbs_sum_with_an_operand_that_is_computed_later() -> None:
    middle = [helper.make_node("Sigmoid", ["x"], ["s"], name="Later"), one("Add", "c0", "s")]
    found = place(network(middle), "bayes-e", PlacementOptions()).model
    names = [[node.name for node in chain] for chain in chains(found, load_chip("bayes-e"))]
    assert names == [["Conv_0", "Middle"], ["Later"], ["Conv_9"]]
    lowered = [node.name for node in quantize(apply_thresholds(found, None), "bayes-e").graph]
    assert lowered.index("Later") < lowered.index("Conv_0")


def test_tensor_added_to_itself_is_not_absorbed() -> None:
    placement = place(network([one("Add", "c0", "c0")]), "bayes-e", PlacementOptions())
    names = [[node.name for node in chain] for chain in chains(placement.model, load_chip("bayes-e"))]
    assert names == [["Conv_0"], ["Middle"], ["Conv_9"]]


def test_clip_from_zero_is_the_activation_of_its_convolution() -> None:
    constants = {"low": np.float32(0), "high": np.float32(255)}
    placed = place(
        network([one("Clip", "c0", "low", "high")], constants=constants), "bayes-e", PlacementOptions()
    ).model
    names = [[node.name for node in chain] for chain in chains(placed, load_chip("bayes-e"))]
    assert names == [["Conv_0", "Middle"], ["Conv_9"]]


def test_mean_over_the_map_is_its_int32_sum_at_the_end() -> None:
    middle = [helper.make_node("Sigmoid", ["c0"], ["s"], name="Sigmoid"), one("GlobalAveragePool", "s")]
    model = network(middle, tail=False)
    model.graph.outputs[0].shape = ir.Shape((1, 4, 1, 1))
    placed = place(model, "bayes-e", PlacementOptions())
    assert "m" not in calibrated(placed)
    found = quantize(apply_thresholds(placed.model, None), "bayes-e")
    (pool,) = (node for node in found.graph if node.name == "Middle")
    assert pool.attributes["output_bit"].as_int() == 32
    assert pool.outputs[0].dtype == ir.DataType.INT32


def test_the_sum_of_two_convolutions_joins_the_one_that_is_computed_last() -> None:
    placed = place(network([helper.make_node("Add", ["c1", "c0"], ["m"], name="Sum")], before=2), "bayes-e").model
    march = load_chip("bayes-e")
    order = {node: index for index, node in enumerate(placed.graph)}
    heads = {node.name: node for node in placed.graph}
    found = [[node.name for node in chain_of(heads[name], march, order)] for name in ("Conv_0", "Conv_1")]
    assert found == [["Conv_0"], ["Conv_1", "Sum"]]


def test_two_operands_join() -> None:
    x = ir.Value(name="x")
    assert [joins(ir.node(kind, [x, x])) for kind in ("Add", "Mul", "Relu", "Conv", "Hardmax")] == [True, True] + [
        False
    ] * 3
