"""ONNX Runtime says nothing of every image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.onboarding.network_file import read_network
from harness.zoo.float_session import float_session
from tests.harness.onboarding.networks import colour_classifier


def test_other_shapes_than_declared_are_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime's ``VerifyOutputSizes`` prints a line per image of such a file."""
    path = colour_classifier(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 7
    onnx.save(model, path)
    session = float_session(path, threads=1)
    for _ in range(3):
        session.run(None, {"image": np.zeros((1, 3, 16, 16), np.float32)})
    network = read_network(path)
    assert "".join(capfd.readouterr()) == ""
    assert network.remarks == ("output scores: the file declares 1x7, it has 1x3, which is what counts",)
