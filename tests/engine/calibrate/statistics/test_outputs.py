"""Outputs that a pass over calibration data leaves."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate.forward.float_model import FloatSession, Kernels
from engine.calibrate.statistics import outputs
from engine.calibrate.statistics.collection import StatisticsOptions, collect
from engine.calibrate.statistics.outputs import FloatOutputs
from engine.frontend.onnx import load_onnx
from tests.conftest import ROOT

SAMPLES = 11


@pytest.fixture(scope="module")
def model() -> ir.Model:
    return load_onnx(ROOT / "suites" / "zoo" / "mnist_lenet.onnx")


@pytest.mark.parametrize("kept", [SAMPLES, 9, 0])
def test_outputs_are_those_of_a_pass_over_single_samples(
    model: ir.Model, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fed,), (output,) = model.graph.inputs, model.graph.outputs
    monkeypatch.setattr(outputs, "OUTPUTS_LIMIT", kept * 4 * 10)
    x = np.random.default_rng(0).normal(size=(SAMPLES, *list(fed.shape)[1:])).astype(np.float32)
    first = next(str(node.outputs[0].name) for node in model.graph)
    seen = FloatOutputs()
    collect(model, [first], {str(fed.name): x}, StatisticsOptions(kernels=Kernels.PLAIN), outputs=seen)
    alone = FloatSession(model, kernels=Kernels.PLAIN, max_batch=1)
    for index in range(SAMPLES):
        found, expected = seen.of(index), alone.run({str(fed.name): x[index : index + 1]})
        assert (found is not None) is (index < kept)
        assert found is None or found[str(output.name)].tobytes() == expected[str(output.name)].tobytes()


def test_nothing_is_kept_of_outputs_of_other_types(model: ir.Model) -> None:
    changed, seen = model.clone(), FloatOutputs()
    changed.graph.outputs[0].dtype = ir.DataType.INT64
    assert seen.wanted(changed) == ()
    seen.see(0, str(changed.graph.outputs[0].name), np.zeros((1, 10), np.float32))
    assert seen.of(0) is None
