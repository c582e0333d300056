"""The network that is shipped: standard operators, a pair on every calibrated activation, names as they were."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from engine.ir import constant_of, load_model
from engine.ship.network import network_with_pairs, scale_of
from tests.engine.ship.conftest import Shipped


def test_the_file_is_valid_and_of_standard_operators(shipped: Shipped) -> None:
    model = onnx.load(shipped.folder / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 11)]
    assert not model.metadata_props


def network_constant(node: ir.Node, index: int) -> NDArray[np.float32]:
    array = constant_of(node.inputs[index])
    assert array is not None
    return array


def test_every_threshold_is_127_times_the_scale_of_a_pair(shipped: Shipped) -> None:
    network = load_model(shipped.folder / "net.onnx")
    found = {
        str(node.inputs[0].name): float(network_constant(node, 1)) * 127
        for node in network.graph
        if node.op_type == "QuantizeLinear" and node.inputs[0] is not None
    }
    expected = {name: each.values[0] for name, each in shipped.record.thresholds.items()}
    assert expected.pop("image") == 127, "pixels as they are have no pair"
    expected["image"] = expected.pop("HZ_PREPROCESS_FOR_image")
    assert found == {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()}


def test_a_pool_is_a_mean(shipped: Shipped) -> None:
    network = network_with_pairs(shipped.shipment.calibrated)
    kinds = {str(node.name): node.op_type for node in network.graph}
    assert kinds["pool"] == "ReduceMean"
    assert "GlobalAveragePool" not in kinds.values()


def test_the_scale_gives_the_threshold_back_in_float32() -> None:
    for threshold in np.random.default_rng(0).uniform(0.01, 100, 200):
        scale = scale_of(float(np.float32(threshold)))
        assert np.float32(np.float32(scale * np.float32(127)) / np.float32(127)) == scale
