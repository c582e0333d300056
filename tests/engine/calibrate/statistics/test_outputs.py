"""Outputs that a pass over calibration data leaves."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate.statistics import collection, outputs
from engine.calibrate.statistics.collection import StatisticsOptions, collect
from engine.calibrate.statistics.outputs import FloatOutputs
from engine.floats.float_model import FloatSession, Kernels
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


def test_outputs_are_kept_where_inputs_fill_a_chunk(model: ir.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "BUFFER_LIMIT", 1)
    (fed,) = model.graph.inputs
    x, first = np.ones(list(fed.shape), np.float32), next(str(node.outputs[0].name) for node in model.graph)
    seen = FloatOutputs()
    collect(model, [str(fed.name), first], {str(fed.name): x}, outputs=seen)
    assert seen.of(0) is not None


def test_outputs_too_large_to_be_kept_are_not_computed(model: ir.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "OUTPUTS_LIMIT", 39)
    assert FloatOutputs().wanted(model) == ()
    monkeypatch.setattr(outputs, "OUTPUTS_LIMIT", 40)
    assert FloatOutputs().wanted(model) == (model.graph.outputs[0].name,)


def test_nothing_is_kept_of_outputs_of_other_types(model: ir.Model) -> None:
    changed, seen = model.clone(), FloatOutputs()
    changed.graph.outputs[0].dtype = ir.DataType.INT64
    assert seen.wanted(changed) == ()
    seen.see(0, str(changed.graph.outputs[0].name), np.zeros((1, 10), np.float32))
    assert seen.of(0) is None
