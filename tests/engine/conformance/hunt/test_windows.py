"""Windows out of a user's network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.chips import MEASURED_MARCHES
from engine.conformance.hunt.windows import MOST_NODES, UserNetwork
from engine.errors import ModelError
from tests.engine.conformance.hunt.test_shrinking import network


@pytest.fixture
def net(tmp_path: Path) -> UserNetwork:
    onnx.save(network().model(), tmp_path / "mine.onnx")
    return UserNetwork.read(tmp_path / "mine.onnx")


def test_windows_are_parts_with_the_networks_weights(net: UserNetwork) -> None:
    whole = {each.name: each.raw_data for each in net.whole.model.graph.initializer}
    seen = set()
    for index in range(6):
        part = net.window(1, index, MEASURED_MARCHES)
        names = [node.name for node in part.model.graph.node]
        seen.add(tuple(names))
        assert 1 <= len(names) <= 2 * MOST_NODES
        assert all(whole[each.name] == each.raw_data for each in part.model.graph.initializer)
        assert {"Conv", "Relu", "Softmax"} >= set(part.blocks)
        assert part.name == f"window_1_{index}"
        assert set(part.parameters["input_parameters"]["input_type_rt"].split(";")) == {"featuremap"}
        onnx.checker.check_model(part.model, full_check=True)
    assert len(seen) > 3


def test_the_same_window_at_every_call(net: UserNetwork) -> None:
    first, second = (net.window(2, 5, MEASURED_MARCHES) for _ in range(2))
    assert first.model == second.model
    assert all(np.array_equal(first.data[name], second.data[name]) for name in first.data)


def test_a_network_of_integers_has_none(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.INT64, [1, 4])
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    graph = helper.make_graph([node], "n", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), tmp_path / "n.onnx")
    with pytest.raises(ModelError, match="x"):
        UserNetwork.read(tmp_path / "n.onnx")
