"""``hb_mapper infer``: data like those for calibration through every stage of a conversion, outputs as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from typer.testing import CliRunner, Result

from engine.calibrate import open_folders
from engine.cli.named import join_pairs
from engine.cli.vendor.hb_mapper import app
from engine.cli.vendor.infer import _check_layout
from engine.config import InputSpec, load_config
from engine.errors import ConfigError
from engine.ir import load_model
from engine.simulate import Session, TensorInfo
from engine.terms import Layout

STAGES = ("original_float", "optimized_float", "calibrated", "quantized")
HEIGHT, WIDTH = 8, 6


def network() -> onnx.ModelProto:
    """An image and a feature map, a convolution each, and their sum; the indices of its largest channels."""
    rng = np.random.default_rng(0)
    constants = {
        "w": (rng.standard_normal((8, 3, 3, 3)) / 500).astype(np.float32),
        "v": rng.standard_normal((8, 2, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["a"], "conv_image", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["map", "v"], ["b"], "conv_map"),
        helper.make_node("Add", ["a", "b"], ["sum"], "add"),
        helper.make_node("ArgMax", ["sum"], ["best"], "best", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "infer",
        [
            helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, HEIGHT, WIDTH)),
            helper.make_tensor_value_info("map", TensorProto.FLOAT, (1, 2, HEIGHT, WIDTH)),
        ],
        [
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, (1, 8, HEIGHT, WIDTH)),
            helper.make_tensor_value_info("best", TensorProto.INT64, (1, 1, HEIGHT, WIDTH)),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Model and data, as the working directory."""
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "m.onnx")
    rng = np.random.default_rng(1)
    for name, pixels in (
        ("images", rng.integers(0, 256, (3, HEIGHT, WIDTH)).astype(np.uint8)),
        ("maps", rng.standard_normal((2, HEIGHT, WIDTH)).astype(np.float32)),
    ):
        (tmp_path / name).mkdir()
        pixels.tofile(tmp_path / name / "0.bin")
    return tmp_path


def convert(runtime: str = "rgb", **model: Any) -> None:
    content = {
        "model_parameters": {
            "onnx_model": "m.onnx",
            "march": "bayes-e",
            "output_model_file_prefix": "m",
            "working_dir": "out",
            **model,
        },
        "input_parameters": {
            "input_name": "image; map",
            "input_type_train": "rgb; featuremap",
            "input_layout_train": "NCHW; NCHW",
            "input_type_rt": f"{runtime}; featuremap",
            "input_layout_rt": f"{'None' if runtime == 'nv12' else 'NHWC'}; NCHW",
            "norm_type": "data_scale; no_preprocess",
            "scale_value": "0.5; None",
        },
        "calibration_parameters": {
            "cal_data_dir": "images; maps",
            "cal_data_type": "uint8; float32",
            "calibration_type": "max",
        },
    }
    Path("c.yaml").write_text(yaml.safe_dump(content))
    result = CliRunner().invoke(app, ["makertbin", "--model-type", "onnx", "-c", "c.yaml"])
    assert result.exit_code == 0, result.output


def infer(model: str, *more: str, image: str = "images/0.bin", names: tuple[str, str] = ("image", "map")) -> Result:
    arguments = ["infer", "-c", "c.yaml", "--model-file", model, "--model-type", "onnx", "--output-dir", "found"]
    arguments += ["--image-file", names[0], image, "--image-file", names[1], "maps/0.bin", *more]
    return CliRunner().invoke(app, join_pairs(arguments))


def outputs() -> dict[str, NDArray[Any]]:
    kinds = {"sum_float.bin": np.float32, "best_int64.bin": np.int64}
    assert {path.name for path in Path("found").iterdir()} == set(kinds)
    return {name.split("_")[0]: np.fromfile(Path("found") / name, kind) for name, kind in kinds.items()}


def expected(model: str) -> dict[str, NDArray[Any]]:
    """The model on the calibration data, as calibration reads them."""
    config = load_config("c.yaml")
    specs = config.input_specs(["image", "map"])
    folders = config.calibration_parameters.cal_data_dir
    feed = open_folders(load_model("out/m_original_float_model.onnx"), specs, folders, ["uint8", "float32"]).read(0, 1)
    session = Session(model)
    given = {}
    for info in session.inputs:
        array = feed[info.name]
        if info.dtype == np.int8:
            array = np.clip(np.rint(array), -128, 127)
            array = array if array.shape == info.shape else array.transpose(0, 2, 3, 1)
        given[info.name] = array.astype(info.dtype)
    return {name: array.reshape(-1) for name, array in session.run(given).items()}


@pytest.mark.parametrize("runtime", ["rgb", "bgr", "yuv444", "nv12"])
def test_all_stages_run_on_calibration_data(folder: Path, runtime: str) -> None:
    convert(runtime)
    for model in (*(f"out/m_{stage}_model.onnx" for stage in STAGES), "out/m.bin"):
        result = infer(model)
        assert result.exit_code == 0, result.output
        found, wanted = outputs(), expected(model)
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)
    assert "End hb_mapper infer." in Path("hb_mapper_infer.log").read_text()


def test_removed_nodes_are_made_up_for(folder: Path) -> None:
    convert()
    infer("out/m.bin")
    wanted = outputs()
    convert(remove_node_type="Dequantize")
    result = infer("out/m.bin")
    assert result.exit_code == 0, result.output
    (file,) = Path("found").glob("conv_map_*_float.bin")
    np.testing.assert_array_equal(np.fromfile(file, np.float32), wanted["sum"])


def test_images_and_npy_are_taken(folder: Path) -> None:
    convert()
    pixels = np.fromfile("images/0.bin", np.uint8).reshape(3, HEIGHT, WIDTH)
    infer("out/m_quantized_model.onnx")
    wanted = outputs()
    Image.fromarray(pixels.transpose(1, 2, 0)).save("image.png")
    np.save("image.npy", pixels[np.newaxis])
    for file in ("image.png", "image.npy"):
        result = infer("out/m_quantized_model.onnx", image=file)
        assert result.exit_code == 0, result.output
        np.testing.assert_array_equal(outputs()["sum"], wanted["sum"])


def test_the_layout_is_that_of_the_model(folder: Path) -> None:
    convert("nv12")
    assert infer("out/m_quantized_model.onnx", "--input-layout", "NHWC").exit_code == 0
    other = infer("out/m_quantized_model.onnx", "--input-layout", "NCHW")
    assert other.exit_code != 0
    message = f"{other.output}{other.exception}"
    assert "--input-layout NCHW: input image has shape [1, 8, 6, 3], which is NHWC" in message


def test_wrong_data_are_refused(folder: Path) -> None:
    convert()
    model = "out/m_quantized_model.onnx"
    np.zeros(7, np.uint8).tofile("short.bin")
    np.save("complex.npy", np.zeros((1, 3, HEIGHT, WIDTH), np.complex64))
    for result, text in (
        (infer(model, image="short.bin"), "cannot reshape array of size 7 into shape (1, 3, 8, 6)"),
        (infer(model, image="absent.bin"), "absent.bin: no such file"),
        (infer(model, names=("image", "mop")), "--image-file names ['image', 'mop'], the inputs of"),
        (infer("m.onnx"), "input image is not an image of rgb (input_type_train)"),
        (infer(model, image=""), "--image-file image : give the name of an input and its file"),
    ):
        assert result.exit_code == 255
        assert text in result.output.replace("\n", "")
    assert not Path("found").exists()


@pytest.mark.parametrize(
    ("kind", "wanted", "refused"),
    [("rgb", "NHWC", True), ("rgb", "NCHW", False), ("rgb", None, False), ("featuremap", "NHWC", False)],
)
def test_a_layout_that_contradicts_the_shape_of_an_image_is_refused(
    kind: str, wanted: str | None, refused: bool
) -> None:
    info = TensorInfo("image", (1, 3, 8, 6), np.dtype(np.float32))
    spec = InputSpec(name="image", type_train=kind, type_rt=kind)
    layout = None if wanted is None else Layout(wanted)
    if refused:
        with pytest.raises(
            ConfigError, match=r"--input-layout NHWC: input image has shape \[1, 3, 8, 6\], which is NCHW"
        ):
            _check_layout(info, spec, layout)
    else:
        assert _check_layout(info, spec, layout) is None
