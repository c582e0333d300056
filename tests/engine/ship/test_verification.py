"""What the toolchain made, beside what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from engine.config import load_config
from engine.convert import conversion
from engine.convert.items import CALIBRATED, QUANTIZED
from engine.ir import load_model, save_model
from engine.ship.verification import Count, FirstDifference, Verification, verify
from tests.engine.ship.conftest import Shipped


def test_our_engine_arrives_at_the_same_integers(shipped: Shipped) -> None:
    run = conversion(load_config(shipped.folder / "net.yaml"))
    found = verify(shipped.folder, run[QUANTIZED], run[CALIBRATED])
    assert found.equal, found.differences
    assert found.integers == Count(shipped.record.integers, shipped.record.integers)
    assert found.thresholds == Count(len(shipped.record.thresholds), len(shipped.record.thresholds))
    assert str(found).startswith("EQUAL: ")


def test_the_first_node_that_differs_is_named(shipped: Shipped) -> None:
    other = load_model(shipped.folder / "expected_quantized.onnx")
    for name in ("second", "first"):
        node = next(node for node in other.graph if node.name == name)
        bias = node.inputs[2]
        assert bias is not None
        assert bias.const_value is not None
        bias.const_value = ir.tensor(bias.const_value.numpy() + np.int32(1), name=bias.name)
    found = verify(shipped.folder, other)
    assert not found.equal
    assert found.first is not None
    assert found.first.node == "first"
    assert found.integers.total - found.integers.equal == 18
    assert str(found).startswith("DIFFERENT: ")
    assert found.thresholds is None


def test_thresholds_are_read_beside_the_quantised_file(shipped: Shipped, tmp_path: Path) -> None:
    save_model(shipped.shipment.calibrated, tmp_path / "x_calibrated_model.onnx")
    path = save_model(shipped.shipment.quantized, tmp_path / "x_quantized_model.onnx")
    found = verify(shipped.folder, path)
    assert found.thresholds == Count(len(shipped.record.thresholds), len(shipped.record.thresholds))


def test_a_threshold_that_differs_is_the_reason(shipped: Shipped) -> None:
    other, calibrated = shipped.shipment.quantized.clone(), shipped.shipment.calibrated.clone()
    for node in other.graph:
        if node.name == "first":
            node.attributes["scale"] = ir.AttrInt64s("scale", [1] * 8)
    assert verify(shipped.folder, other).first == replace_reason(verify(shipped.folder, other, calibrated), "unknown")
    for node in calibrated.graph:
        if node.name == "r0_HzCalibration":
            node.attributes["thresholds"] = ir.AttrFloat32s("thresholds", [3.0])
    found = verify(shipped.folder, other, calibrated)
    assert found.first is not None
    assert found.first.node == "first"
    assert found.first.reason.startswith("another threshold of r0: ")
    assert found.thresholds == Count(len(shipped.record.thresholds) - 1, len(shipped.record.thresholds))


def replace_reason(found: Verification, reason: str) -> FirstDifference | None:
    return None if found.first is None else replace(found.first, reason=reason)


def test_nodes_that_are_not_reached_count_as_different(shipped: Shipped) -> None:
    other = load_model(shipped.folder / "expected_quantized.onnx")
    last = next(node for node in other.graph if node.name == "second")
    last.op_type = "HzOther"
    found = verify(shipped.folder, other)
    assert found.integers.equal < found.integers.total / 2
    assert found.first is not None
    assert found.first.reason == "another operator in its place"
    assert "HzOther second" in found.first.what
