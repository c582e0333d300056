"""Networks that are fed with arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.errors import CalibrationDataError, ConfigError
from harness.datasets import ArrayFormat
from harness.datasets.own_arrays import NO_IMAGE
from harness.onboarding.array_network import holds_arrays, read_array_network
from tests.harness.onboarding.networks import array_files, colour_images, fusing_network, sound_classifier


def test_open_dimensions_are_those_of_the_arrays(tmp_path: Path) -> None:
    model = sound_classifier(tmp_path / "net.onnx", ["batch", 4, "bands", "frames"])
    folder = array_files(tmp_path / "arrays", (4, 10, 8), 5)
    network = read_array_network(model, folder)
    assert network.inputs == {"x": ArrayFormat(shape=(4, 10, 8))}
    assert (network.size, network.samples) == (NO_IMAGE, 5)
    assert [output.shape for output in network.outputs] == [(1, 3)]
    assert read_array_network(model, array_files(tmp_path / "batched", (1, 4, 10, 8), 2)).inputs == network.inputs


def test_every_input_has_a_folder(tmp_path: Path) -> None:
    model = fusing_network(tmp_path / "net.onnx")
    for name in ("left", "right"):
        array_files(tmp_path / "arrays" / name, (3, 8, 8), 4)
    network = read_array_network(model, tmp_path / "arrays")
    assert list(network.inputs) == ["left", "right"]
    assert network.size == NO_IMAGE
    with pytest.raises(CalibrationDataError, match=r"no folder .*left/left: expected one per part"):
        read_array_network(model, tmp_path / "arrays/left")


def test_an_input_of_the_shape_of_an_image_has_a_size(tmp_path: Path) -> None:
    for shape, size in (((3, 10, 8), (10, 8)), ((10, 8, 1), (10, 8)), ((4, 10, 8), NO_IMAGE), ((40,), NO_IMAGE)):
        name = "-".join(map(str, shape))
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *shape])
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, *shape])
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result])
        model = tmp_path / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
        assert read_array_network(model, array_files(tmp_path / name, shape, 2)).size == size


def test_folders_of_arrays(tmp_path: Path) -> None:
    assert not holds_arrays(tmp_path)
    array_files(tmp_path / "arrays/x", (3,), 1)
    assert holds_arrays(tmp_path / "arrays")
    colour_images(tmp_path / "arrays/masks", each=1)
    assert holds_arrays(tmp_path / "arrays", tmp_path / "arrays/masks")
    for labels in (None, tmp_path / "arrays", tmp_path):
        assert not holds_arrays(tmp_path / "arrays", labels)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    model = sound_classifier(tmp_path / "net.onnx", [1, 4, 10, 8])
    several = array_files(tmp_path / "several", (2, 4, 10, 8), 2)
    with pytest.raises(CalibrationDataError, match=r"0\.npy: holds shape \(2, 4, 10, 8\), .* one sample per file"):
        read_array_network(model, several)
    with pytest.raises(CalibrationDataError, match=r"holds shape \(4, 10, 9\), but .* has shape 1x4x10x8"):
        read_array_network(model, array_files(tmp_path / "other", (4, 10, 9), 2))
    pixels = array_files(tmp_path / "pixels", (4, 10, 8), 2)
    np.save(pixels / "0.npy", np.zeros((4, 10, 8), np.uint8))
    with pytest.raises(CalibrationDataError, match="holds uint8, but input x takes float32: arrays are fed as they"):
        read_array_network(model, pixels)
    (pixels / "0.npy").write_text("no array")
    with pytest.raises(CalibrationDataError, match=r"0\.npy: cannot be read as an array"):
        read_array_network(model, pixels)
    pairs = sound_classifier(tmp_path / "pairs.onnx", [2, 4, 10, 8])
    with pytest.raises(ConfigError, match="expected a first dimension of 1, one sample at a time"):
        read_array_network(pairs, several)
    whole = onnx.load(model)
    whole.graph.input[0].type.tensor_type.elem_type = TensorProto.BOOL
    onnx.save(whole, model)
    with pytest.raises(ConfigError, match="input x has type BOOL, expected FLOAT, FLOAT16, DOUBLE, INT32 or INT64"):
        read_array_network(model, several)
