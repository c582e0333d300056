"""Files of other versions of ONNX are converted, and what they compute is checked."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.errors import UnsupportedError
from engine.frontend import versions
from engine.frontend.onnx import load_onnx, read_onnx
from engine.frontend.versions import MAX_IR_VERSION, MAX_OPSET, MIN_OPSET, at_supported_versions, file_versions
from engine.simulate import Session
from tests.engine.frontend.networks import convolution, network, saved


@pytest.mark.parametrize("opset", [7, 8, 20, 21, 22, 23, 24])
def test_other_opsets_are_converted(tmp_path: Path, opset: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model = load_onnx(saved(convolution(opset), tmp_path))
    assert MIN_OPSET <= model.opset_imports[""] <= MAX_OPSET
    assert file_versions(model)[0] == opset
    assert f"opset {opset} was converted" in caplog.text
    assert "outputs on random inputs are equal" in caplog.text
    x = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    same = load_onnx(saved(convolution(13), tmp_path))
    np.testing.assert_array_equal(Session(model).run({"x": x})["y"], Session(same).run({"x": x})["y"])


@pytest.mark.parametrize("ir_version", [11, 12, 13])
def test_newer_file_formats_are_read(tmp_path: Path, ir_version: int) -> None:
    model = load_onnx(saved(convolution(13, ir_version=ir_version), tmp_path))
    assert model.ir_version == MAX_IR_VERSION
    assert file_versions(model) == (13, ir_version)


def test_supported_versions_stay(tmp_path: Path) -> None:
    model = read_onnx(saved(convolution(17), tmp_path))
    assert at_supported_versions(model, Path("m.onnx")) is model
    assert file_versions(model) == (17, model.ir_version)


def test_what_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("TensorScatter", ["x", "w"], ["y"])
    model = network([node], {"x": [1, 4, 4]}, ["y"], {"w": np.ones((1, 2, 4), np.float32)}, opset=24)
    with pytest.raises(UnsupportedError, match=r"is 24; 9 to 19 are supported.* cannot bring it to 19.*export the net"):
        load_onnx(saved(model, tmp_path))


@pytest.mark.parametrize(("opset", "op_type"), [(18, "GroupNormalization"), (20, "Gelu"), (23, "RMSNormalization")])
def test_operators_without_an_older_form_are_written_as_they_are_defined(
    tmp_path: Path, opset: int, op_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    constants = {"GroupNormalization": ["two", "two"], "Gelu": [], "RMSNormalization": ["two"]}[op_type]
    attributes = {"num_groups": 2} if op_type == "GroupNormalization" else {}
    node = helper.make_node(op_type, ["x", *constants], ["y"], **attributes)
    model = load_onnx(saved(network([node], {"x": [1, 4, 2]}, ["y"], {"two": np.ones(2, np.float32)}, opset), tmp_path))
    assert op_type not in {each.op_type for each in model.graph}
    assert file_versions(model)[0] == opset
    assert f"its {op_type} was written with older operators" in caplog.text


def test_a_conversion_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(proto: onnx.ModelProto, target: int) -> onnx.ModelProto:
        proto.graph.node[0].op_type = "Abs"
        proto.opset_import[0].version = target
        return proto

    monkeypatch.setattr(versions.onnx.version_converter, "convert_version", wrong)
    model = network([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 4]}, ["y"], opset=22)
    with pytest.raises(UnsupportedError, match="output 'y' differs from that of the file"):
        load_onnx(saved(model, tmp_path))


def test_dynamic_inputs_are_checked_at_the_given_shape(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = saved(network([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", 4]}, ["y"], opset=22), tmp_path)
    load_onnx(path, {"x": (2, 4)})
    assert "are equal" in caplog.text
