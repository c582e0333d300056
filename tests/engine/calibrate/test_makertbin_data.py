"""Every form of calibration data through ``hb_mapper makertbin``: the same pixels give the same thresholds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from PIL import Image

from engine.ir import calibration_nodes, load_model, read_calibration
from tests.e2e import test_hb_mapper
from tests.e2e.test_hb_mapper import assert_one_error, call, write_config

workspace = test_hb_mapper.workspace
"""The fixture: a small network in ``small.onnx`` and five uint8 images, 3x16x16, in ``images``."""

Pixels = NDArray[np.uint8]


def _save_png(path: Path, pixels: Pixels) -> None:
    Image.fromarray(pixels.transpose(1, 2, 0)).save(path.with_suffix(".png"))


FORMS: dict[str, tuple[str, dict[str, Any], Callable[[Path, Pixels], object]]] = {
    "uint8 said": ("data", {"cal_data_type": "uint8"}, lambda path, pixels: pixels.tofile(path)),
    "uint8 by default": ("data", {}, lambda path, pixels: pixels.tofile(path)),
    "float32 said": ("data", {"cal_data_type": "float32"}, lambda path, p: p.astype(np.float32).tofile(path)),
    "float32 by suffix": ("data_f32", {}, lambda path, p: p.astype(np.float32).tofile(path)),
    "suffix overruled": ("data_f32", {"cal_data_type": "uint8"}, lambda path, pixels: pixels.tofile(path)),
    "npy uint8": ("data", {}, lambda path, pixels: np.save(path.with_suffix(".npy"), pixels)),
    "npy float32": ("data", {}, lambda path, p: np.save(path.with_suffix(".npy"), p.astype(np.float32))),
    "images": ("data", {"preprocess_on": True}, _save_png),
}


@pytest.fixture
def pixels(workspace: Path) -> list[Pixels]:
    files = sorted((workspace / "images").iterdir())
    images = [np.fromfile(file, np.uint8).reshape(3, 16, 16) for file in files]
    shutil.rmtree(workspace / "images")
    return images


def convert(workspace: Path, folder: str, **parameters: Any) -> tuple[dict[str, Any], str]:
    """The quant_info of a conversion and its log."""
    write_config(workspace, calibration_parameters={"cal_data_type": "", "cal_data_dir": folder, **parameters})
    finished = call(workspace, "makertbin", "-c", "config.yaml", "--model-type", "onnx")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return json.loads((workspace / "out" / "small_quant_info.json").read_text()), finished.stdout


@pytest.mark.parametrize(("folder", "parameters", "write"), FORMS.values(), ids=FORMS.keys())
def test_all_forms_of_data_mean_the_same(
    workspace: Path, pixels: list[Pixels], folder: str, parameters: dict[str, Any], write: Callable[[Path, Pixels], Any]
) -> None:
    for name in ("wanted", folder):
        (workspace / name).mkdir()
    for index, image in enumerate(pixels):
        image.tofile(workspace / "wanted" / f"{index}.bin")
        write(workspace / folder / f"{index}.bin", image)
    wanted, _ = convert(workspace, "wanted", cal_data_type="uint8")
    found, log = convert(workspace, folder, **parameters)
    assert found == wanted
    assert "5 calibration samples are few" in log


@pytest.mark.parametrize(
    ("value", "warning"),
    [(np.nan, "holds NaN"), (np.inf, "holds infinity"), (0.0, "holds only zeros")],
)
def test_doubtful_data_are_warned_of_by_file(workspace: Path, pixels: list[Pixels], value: float, warning: str) -> None:
    (workspace / "data_f32").mkdir()
    for index, image in enumerate(pixels):
        samples = image.astype(np.float32)
        if index == 3:
            samples[...] = value
        samples.tofile(workspace / "data_f32" / f"{index}.bin")
    _, log = convert(workspace, "data_f32")
    warnings = [line for line in log.splitlines() if "WARNING" in line and warning in line and "3.bin" in line]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("name", "content", "parameters", "message"),
    [
        ("0.bin", b"1234", {}, "cannot reshape array of size 4"),
        ("0.npy", b"1234", {}, "not a readable .npy file"),
        ("0.png", b"1234", {"preprocess_on": True}, "not a readable image"),
        (".hidden", b"1234", {}, "is empty"),
    ],
)
def test_unreadable_data_are_one_error(
    workspace: Path, name: str, content: bytes, parameters: dict[str, Any], message: str
) -> None:
    (workspace / "data").mkdir()
    (workspace / "data" / name).write_bytes(content)
    write_config(workspace, calibration_parameters={"cal_data_type": "", "cal_data_dir": "data", **parameters})
    assert_one_error(call(workspace, "makertbin", "-c", "config.yaml", "--model-type", "onnx"), message)
    assert not (workspace / "out").exists()


@pytest.mark.parametrize("runtime", ["rgb", "nv12"])
def test_channels_last_networks_take_channels_last_data(workspace: Path, pixels: list[Pixels], runtime: str) -> None:
    thresholds = []
    for layout, axes in (("NCHW", (0, 1, 2)), ("NHWC", (1, 2, 0))):
        (workspace / layout).mkdir()
        for index, image in enumerate(pixels):
            image.transpose(axes).tofile(workspace / layout / f"{index}.bin")
        write_config(
            workspace,
            input_parameters={"input_layout_train": layout, "input_type_rt": runtime, "input_layout_rt": "NHWC"},
            calibration_parameters={"cal_data_type": "uint8", "cal_data_dir": layout},
        )
        finished = call(workspace, "makertbin", "-c", "config.yaml", "--model-type", "onnx")
        assert finished.returncode == 0, finished.stdout + finished.stderr
        nodes = calibration_nodes(load_model(workspace / "out" / "small_calibrated_model.onnx"))
        found = {str(node.name): read_calibration(node).thresholds.tolist() for node in nodes}
        thresholds.append({name: values for name, values in found.items() if "PREPROCESS" not in name})
        _take_channels_last(workspace / "small.onnx")
    first, last = thresholds
    assert {name: last.get(name) for name in first} == first
    assert last.keys() - first.keys() == {"nchw_HzCalibration"}


def _take_channels_last(path: Path) -> None:
    model = onnx.load(path)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(dims, (1, 16, 16, 3), strict=True):
        dim.dim_value = size
    model.graph.node[0].input[0] = "nchw"
    model.graph.node.insert(0, helper.make_node("Transpose", ["image"], ["nchw"], "to_nchw", perm=[0, 3, 1, 2]))
    onnx.save(model, path)


def test_skip_looks_at_no_data(workspace: Path) -> None:
    write_config(workspace, calibration_parameters={"calibration_type": "skip", "cal_data_dir": "absent"})
    finished = call(workspace, "makertbin", "-c", "config.yaml", "--model-type", "onnx")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "cal_data_dir has no effect, calibration_type is skip" in finished.stdout
    assert "The quantized model output" not in finished.stdout


@pytest.mark.parametrize("option", ["mse_thresholds", "nodewise_methods"])
def test_options_that_do_not_fit_are_refused_before_anything_is_written(workspace: Path, option: str) -> None:
    write_config(workspace, calibration_parameters={"calibration_type": "default", "optimization": option})
    finished = call(workspace, "makertbin", "-c", "config.yaml", "--model-type", "onnx")
    assert_one_error(finished, f"optimization: {option} need calibration_type max or kl; it is 'default'")
    assert not (workspace / "out").exists()
