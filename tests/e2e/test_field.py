"""What people in the field met stays mended: every case of docs/evidence/field.md has its right value here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.simulate import Session
from tests.e2e.field_cases import converted, on_cpu, worst_cosine, worst_error


@pytest.mark.parametrize("network", ["last_relusqrt.onnx", "relu_sqrt.onnx"])
@pytest.mark.parametrize("march", ["bayes-e", "bayes"])
def test_a_root_of_zero_is_zero_in_int16(tmp_path: Path, network: str, march: str) -> None:
    options = "set_all_nodes_int16"
    result = converted(tmp_path, network, model__march=march, calibration__optimization=options)
    assert worst_cosine(result) > 0.9999
    session = Session(result.models["quantized"])
    zeros = {info.name: np.zeros(info.shape, np.float32) for info in session.inputs}
    (exact,) = Session(result.models["original_float"]).run(zeros).values()
    (found,) = session.run(zeros).values()
    np.testing.assert_allclose(found, exact, atol=0.02)


@pytest.mark.parametrize("network", ["yh", "yc_only", "y_yh_yc", "gru_yh_init"])
def test_recurrent_networks_give_their_states(tmp_path: Path, network: str) -> None:
    """The original converts them; the recurrence runs on the CPU."""
    result = converted(tmp_path, f"lstm_{network}.onnx")
    assert worst_cosine(result) > 0.999
    assert worst_error(result) < 0.03
    assert on_cpu(result) & {"LSTM", "GRU"}


@pytest.mark.parametrize("opset", [9, 10, 11])
def test_a_branch_on_a_shape_is_decided_at_every_opset(tmp_path: Path, opset: int) -> None:
    """As ``squeeze`` of a torch export; at opset 11 our own folding wrote an attribute of opset 12."""
    result = converted(tmp_path, f"if_o{opset}.onnx")
    assert worst_cosine(result) > 0.9999
    assert "If" not in {node.op_type for node in result.models["original_float"].graph}


@pytest.mark.parametrize("network", ["opset_8", "opset_22", "opset_24", "ir_13"])
def test_other_versions_are_converted(tmp_path: Path, network: str, caplog: pytest.LogCaptureFixture) -> None:
    result = converted(tmp_path, f"{network}.onnx")
    assert worst_cosine(result) > 0.999
    refused = {"opset_8": "opset version of the model is 8", "opset_22": "opset version of the model is 22"}
    assert refused.get(network, "of the model is") in caplog.text, "the original refuses the file that the user has"
