"""What is refused before any image is scored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static

from engine.chips import March
from engine.errors import ModelError, UnsupportedError
from harness.onboarding.convertible import read_float_model, refuse_unconvertible
from harness.onboarding.network_file import Runner
from harness.onboarding.proposal import propose
from tests.harness.onboarding.networks import colour_classifier, colour_images, save_network


class _OneImage(CalibrationDataReader):
    def __init__(self) -> None:
        self._left = [{"image": np.zeros((1, 3, 16, 16), np.float32)}]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def test_quantised_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ONNX Runtime's three forms; nothing is run."""
    source = colour_classifier(tmp_path / "net.onnx")
    assert read_float_model(source).graph.node
    dynamic, pairs, integer = (tmp_path / f"{name}.onnx" for name in ("dynamic", "pairs", "integer"))
    quantize_dynamic(source, dynamic)
    for path, form in ((pairs, QuantFormat.QDQ), (integer, QuantFormat.QOperator)):
        quantize_static(source, path, _OneImage(), quant_format=form)

    def run(*_: object) -> None:
        raise AssertionError("an image was run")

    monkeypatch.setattr(Runner, "run", run)
    images = colour_images(tmp_path / "images")
    with pytest.raises(
        UnsupportedError, match=r"dynamic.onnx: is dynamically quantised already .*1 ConvInteger.*float"
    ):
        propose(dynamic, images)
    with pytest.raises(UnsupportedError, match=r"is quantised already \(.*QuantizeLinear, .*calibration_type: load"):
        propose(pairs, images)
    with pytest.raises(UnsupportedError, match=r"integer.onnx: is quantised already \(.*QLinear"):
        propose(integer, images)


def test_quantised_operators_in_branches_are_found(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["image"], ["q", "s", "z"])],
        "then",
        [],
        [helper.make_tensor_value_info("q", TensorProto.UINT8, None)],
    )
    node = helper.make_node("If", ["condition"], ["y"], then_branch=inner, else_branch=inner)
    path = save_network(tmp_path / "net.onnx", [node], {"y": [1]}, [1], condition=[1])
    with pytest.raises(UnsupportedError, match="is dynamically quantised already"):
        read_float_model(path)


def test_what_the_board_lacks(tmp_path: Path) -> None:
    """A detector with its suppression is refused as every trial would refuse it, and the remedy is said."""
    nodes = [
        helper.make_node("NonMaxSuppression", ["image", "scores"], ["chosen"]),
        helper.make_node("Cast", ["chosen"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save_network(tmp_path / "net.onnx", nodes, {"y": ["n", 3]}, [1, 8, 4], scores=np.ones((1, 2, 8)))  # type: ignore[dict-item]
    with pytest.raises(
        UnsupportedError, match=r"net.onnx: output 'y' has the shape \[n,3\], which depends on the data"
    ):
        refuse_unconvertible(path, {"image": (1, 8, 4)}, March("bayes-e"))
    node = helper.make_node("Hardmax", ["image"], ["y"])
    path = save_network(tmp_path / "hard.onnx", [node], {"y": [1, 8, 4]}, [1, 8, 4])
    with pytest.raises(UnsupportedError, match=r"hard.onnx: HorizonRT not .*Hardmax; export the network without what"):
        refuse_unconvertible(path, {"image": (1, 8, 4)}, March("bayes-e"))
    refuse_unconvertible(colour_classifier(tmp_path / "plain.onnx"), {}, March("bayes-e"))


def test_files_that_are_no_models(tmp_path: Path) -> None:
    for content, said in ((b"\xff\xff nothing", "copy the file again, or write it with"), (b"", "the file is empty")):
        (tmp_path / "net.onnx").write_bytes(content)
        with pytest.raises(ModelError, match=said):
            read_float_model(tmp_path / "net.onnx")
    onnx.save(onnx.ModelProto(ir_version=8), tmp_path / "empty.onnx")
    with pytest.raises(ModelError, match="it has no nodes"):
        read_float_model(tmp_path / "empty.onnx")
