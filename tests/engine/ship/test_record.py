"""Thresholds and digests of integers that a ship folder records."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ir import calibration_nodes, constant_of
from engine.ship.record import count_integers, count_of, digest_of_integers, integers_of, thresholds_of
from tests.engine.ship.conftest import Shipped


def test_every_activation_has_a_threshold_and_no_weight(shipped: Shipped) -> None:
    calibrated = shipped.shipment.calibrated
    sources = [node.inputs[0] for node in calibration_nodes(calibrated)]
    expected = [str(value.name) for value in sources if value is not None and constant_of(value) is None]
    found = thresholds_of(calibrated)
    assert list(found) == expected
    assert all(threshold.type == "int8" and len(threshold.values) == 1 for threshold in found.values())


def test_integers_are_constants_and_lists_of_a_node() -> None:
    weight = ir.Value(name="w", const_value=ir.tensor(np.arange(6, dtype=np.int8).reshape(2, 3), name="w"))
    scale = ir.Value(name="s", const_value=ir.tensor(np.ones(2, np.float32), name="s"))
    node = ir.node("HzSQuantizedConv", [weight, scale], {"shift": [1, 2], "group": 1}, domain="horizon")
    assert [place for place, _ in integers_of(node)] == ["input 0", "shift"]
    assert count_of(node) == 8
    other = ir.node("HzSQuantizedConv", [weight, scale], {"shift": [1, 3], "group": 1}, domain="horizon")
    assert digest_of_integers(node) != digest_of_integers(other)
    assert digest_of_integers(ir.node("Relu", [scale])) is None


def test_the_record_counts_all_nodes(shipped: Shipped) -> None:
    assert shipped.record.integers == count_integers(shipped.shipment.quantized) > 900
    assert {"first", "second"} <= set(shipped.record.nodes)
