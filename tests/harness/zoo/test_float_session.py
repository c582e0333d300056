"""ONNX Runtime says nothing of every image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.onboarding.network_file import read_network
from harness.zoo.float_session import float_session
from tests.harness.onboarding.networks import colour_classifier


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_floats_are_computed_in_float32(kind: type, tmp_path: Path) -> None:
    path = colour_classifier(tmp_path / "net.onnx")
    image = np.random.default_rng(0).random((1, 3, 16, 16), np.float32)
    (expected,) = float_session(path).run(None, {"image": image})
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(kind), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    onnx.save(model, path)
    (found,) = float_session(path).run(None, {"image": image})
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-3)


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
