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
