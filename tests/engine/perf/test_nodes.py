"""What each node of the float network costs: layers are mapped back, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.convert import ConversionResult, Draft, check
from engine.ir import MARK_PART_OF
from engine.perf.nodes import NodeCost, _is_part, _Owners, _stripped, node_costs
from engine.terms import InputType


def squeeze_excite(path: Path) -> Path:
    """A convolution, an average over 12 x 12 (steps on bernoulli2), a dense branch with a table, a product."""
    rng = np.random.default_rng(0)
    weights = {
        "w0": rng.normal(size=(16, 3, 3, 3)),
        "w1": rng.normal(size=(4, 16, 1, 1)),
        "w2": rng.normal(size=(16, 4, 1, 1)),
        "w3": rng.normal(size=(16, 16, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], "stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], "pool"),
        helper.make_node("Conv", ["g", "w1"], ["s"], "squeeze"),
        helper.make_node("Conv", ["s", "w2"], ["e"], "excite"),
        helper.make_node("Sigmoid", ["e"], ["a"], "gate"),
        helper.make_node("Mul", ["r", "a"], ["m"], "scale"),
        helper.make_node("Conv", ["m", "w3"], ["y"], "last"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 12, 12))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 16, 12, 12))],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), path)
    return path


def costs_of(result: ConversionResult) -> tuple[NodeCost, ...]:
    models = result.models
    return node_costs(result.performance, result.compiled.schedules, models["original_float"], models["calibrated"])


@pytest.mark.parametrize("march", ["bernoulli2", "bayes", "bayes-e"])
def test_costs_of_nodes_are_those_of_the_model(march: str, tmp_path: Path) -> None:
    result = check(squeeze_excite(tmp_path / "m.onnx"), Draft(march))
    costs = costs_of(result)
    assert sum(cost.latency_us for cost in costs) == pytest.approx(result.performance.latency_us)
    assert sum(cost.ddr_bytes for cost in costs) == result.performance.ddr_bytes
    assert [cost.latency_us for cost in costs] == sorted((cost.latency_us for cost in costs), reverse=True)
    assert sum(len(cost.layers) for cost in costs) == len(result.performance.layers)


@pytest.mark.parametrize("march", ["bernoulli2", "bayes-e"])
def test_helpers_count_for_the_node_that_they_serve(march: str, tmp_path: Path) -> None:
    """The average of bernoulli2 runs in steps whose names are made from the node's."""
    result = check(squeeze_excite(tmp_path / "m.onnx"), Draft(march))
    found = {cost.node: cost for cost in costs_of(result)}
    network = {str(node.name): node.op_type for node in result.models["original_float"].graph}
    assert found.keys() <= network.keys()
    assert {"stem", "pool", "squeeze", "excite", "gate", "scale", "last"} <= found.keys()
    assert all(cost.op_type == network[name] for name, cost in found.items())
    assert (len(found["pool"].layers) > 1) == (march == "bernoulli2")


def test_preprocessing_belongs_to_itself(tmp_path: Path) -> None:
    result = check(squeeze_excite(tmp_path / "m.onnx"), Draft("bayes-e", input_type=InputType.NV12))
    assert "HZ_PREPROCESS_FOR_x" in {cost.node for cost in costs_of(result)}


def test_layers_of_which_nothing_is_known_count_for_their_reader(tmp_path: Path) -> None:
    result = check(squeeze_excite(tmp_path / "m.onnx"), Draft("bayes-e"))
    nothing = ir.Model(ir.Graph([], [], nodes=[], name="g", opset_imports={"": 11}), ir_version=7)
    costs = node_costs(result.performance, result.compiled.schedules, nothing, nothing)
    assert [cost.node for cost in costs] == ["last"]


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("conv_1", "conv", True),
        ("pre_conv", "conv", True),
        ("a_conv_b", "conv", True),
        ("conv1", "conv", False),
        ("x", "", False),
    ],
)
def test_a_part_has_the_name_between_underscores(name: str, known: str, expected: bool) -> None:
    assert _is_part(name, known) is expected


def test_what_the_conversion_adds_is_taken_off_in_any_order() -> None:
    assert list(_stripped("t_calibrated_Requantize_requantized_output")) == [
        "t_calibrated_Requantize_requantized_output",
        "t_calibrated_Requantize",
        "t_calibrated",
        "t",
    ]
    assert list(_stripped("plain")) == ["plain"]


def graph_of(*names: str, **marks: str) -> ir.Model:
    """Nodes ``names``, each of which gives ``<name>_out``."""
    nodes = [ir.node("Conv", [], outputs=[ir.Value(name=f"{name}_out")], name=name) for name in names]
    for node in nodes:
        if str(node.name) in marks:
            node.metadata_props[MARK_PART_OF] = marks[str(node.name)]
    return ir.Model(ir.Graph([], [], nodes=nodes, name="g"), ir_version=8)


@pytest.mark.parametrize(
    ("layer", "output", "owner"),
    [
        ("conv", "t", "conv"),
        ("UNIT_CONV_FOR_conv_1_x", "t", "conv_1"),
        ("part", "t", "whole"),
        ("made", "conv_out_quantized", "conv"),
        ("added", "t", "added"),
        ("nothing", "t", None),
    ],
)
def test_the_owner_has_the_longest_name_that_fits(layer: str, output: str, owner: str | None) -> None:
    owners = _Owners(graph_of("conv", "conv_1", "whole"), graph_of("conv", "conv_1", "part", "added", part="whole"))
    assert owners._own(layer, output) == owner
