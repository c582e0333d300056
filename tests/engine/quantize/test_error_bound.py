"""Which float nodes, scales and tensors the bound of a quantised node is found from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from engine.convert import Draft, check
from engine.ir import constant_of, save_model
from engine.quantize import quantize
from engine.quantize.error_bound import node_error_bounds
from tests.engine.place.networks import SHAPE, network, one
from tests.engine.quantize.quantized import calibrated


def test_bound_of_a_table_is_half_a_unit() -> None:
    source = calibrated(network([one("Sigmoid", "c0")]))
    bounds = {
        str(bound.node.name): bound for bound in node_error_bounds(source, quantize(source, "bayes-e"), "bayes-e")
    }
    assert set(bounds) == {"Conv_0", "Middle", "Conv_9"}
    table = bounds["Middle"]
    assert 0.45 < table.bound[0] / table.scale[0] < 0.51


def test_an_average_in_steps_has_no_bound_of_its_own(tmp_path: Path) -> None:
    """On bernoulli2 a map of 4 x 11 pixels is halved first: the last node reads what no float node gives."""
    model = network([one("GlobalAveragePool", "c0")], shapes=((*SHAPE[:2], 4, 11), (*SHAPE[:2], 1, 1)))
    save_model(model, tmp_path / "net.onnx")
    models = check(tmp_path / "net.onnx", Draft("bernoulli2")).models
    assert [node.op_type for node in models["quantized"].graph].count("HzQuantizedGlobalAveragePool") == 1
    found = node_error_bounds(models["calibrated"], models["quantized"], "bernoulli2")
    assert {bound.node.op_type for bound in found} == {"HzSQuantizedConv"}


def test_bound_of_a_convolution_grows_with_a_wrong_weight() -> None:
    source = calibrated(network([one("Sigmoid", "c0")]))
    model = quantize(source, "bayes-e")
    (before,) = [b.bound for b in node_error_bounds(source, model, "bayes-e") if b.node.name == "Conv_9"]
    weight = next(value for name, value in model.graph.initializers.items() if name.startswith("Conv_9_w9"))
    array = np.array(constant_of(weight))
    array[2, 0, 0, 1] = -array[2, 0, 0, 1]
    weight.const_value = ir.tensor(array, name=weight.name)
    (after,) = [b.bound for b in node_error_bounds(source, model, "bayes-e") if b.node.name == "Conv_9"]
    assert after[2] > 2 * before[2]
    np.testing.assert_array_equal(np.delete(after, 2), np.delete(before, 2))
