"""The command ``hb_mapper`` on real networks: files, tables, exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from engine import HB_ONNXRuntime, Session
from engine.cli.named import join_pairs
from engine.cli.vendor.hb_mapper import app
from harness.zoo.cards import load_card
from tests.card_images import trained

STAGES = ("original_float", "optimized_float", "calibrated", "quantized")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in ``folder``, in a process of its own."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", "from engine.cli.vendor.hb_mapper import main; main()", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "120"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in ``folder``, in this process."""
    with chdir(folder):
        done = CliRunner(env={"COLUMNS": "120"}).invoke(app, join_pairs(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """See :func:`write_workspace`."""
    return write_workspace(tmp_path)


@dataclass(frozen=True)
class Made:
    """A workspace in which ``makertbin`` ran as configured, in a process of its own."""

    folder: Path
    finished: subprocess.CompletedProcess[str]
    log: str

    @property
    def bytes(self) -> dict[str, bytes]:
        """Contents of the files that are there now."""
        return {path.name: path.read_bytes() for path in (self.folder / "out").iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = write_workspace(tmp_path_factory.mktemp("made"))
    finished = run(folder, "makertbin", "--config", "config.yaml", "--model-type", "onnx")
    return Made(folder, finished, (folder / "hb_mapper_makertbin.log").read_text())


def write_workspace(folder: Path) -> Path:
    """A small image network (8-channel convolution, residual sum, 10 classes), calibration data and a YAML file."""
    rng = np.random.default_rng(0)
    arrays = {
        "w0": rng.normal(0, 0.3, (8, 3, 3, 3)),
        "w1": rng.normal(0, 0.2, (8, 8, 3, 3)),
        "w2": rng.normal(0, 0.3, (10, 8)),
        "b2": rng.normal(0, 0.1, 10),
    }
    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["c0"], "first", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c0"], ["r0"], "first_relu"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "r0"], ["s"], "sum"),
        helper.make_node("GlobalAveragePool", ["s"], ["g"], "pool"),
        helper.make_node("Flatten", ["g"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["logits"], "classes", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    onnx.save(model, folder / "small.onnx")
    (folder / "images").mkdir()
    for index in range(5):
        rng.integers(0, 256, (3, 16, 16)).astype(np.uint8).tofile(folder / "images" / f"{index}.bin")
    write_config(folder)
    return folder


def write_config(folder: Path, **changes: dict[str, Any]) -> Path:
    """``config.yaml`` of the small network, with keys of groups replaced."""
    content: dict[str, dict[str, Any]] = {
        "model_parameters": {
            "onnx_model": "small.onnx",
            "march": "bayes-e",
            "output_model_file_prefix": "small",
            "working_dir": "out",
        },
        "input_parameters": {
            "input_name": "image",
            "input_type_train": "rgb",
            "input_layout_train": "NCHW",
            "norm_type": "data_mean_and_scale",
            "mean_value": "127 127 127",
            "scale_value": 0.0078125,
            "input_type_rt": "rgb",
            "input_layout_rt": "NCHW",
        },
        "calibration_parameters": {"cal_data_dir": "images", "cal_data_type": "uint8", "calibration_type": "max"},
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O2"},
    }
    for group, keys in changes.items():
        content[group].update(keys)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_makertbin_writes_every_file_and_prints_both_tables(made: Made) -> None:
    workspace, finished = made.folder, made.finished
    assert finished.returncode == 0, finished.stdout + finished.stderr
    expected = {f"small_{stage}_model.onnx" for stage in STAGES} | {"small.bin", "small_quant_info.json"}
    assert {path.name for path in (workspace / "out").iterdir()} == expected
    lines = finished.stdout.splitlines()
    assert lines[-2].endswith("INFO Convert to runtime bin file successfully!")
    assert lines[-1].endswith("INFO End Model Convert")
    assert made.log == finished.stdout
    header = next(line for line in lines if line.startswith("Node"))
    assert header.split() == ["Node", "ON", "Subgraph", "Type", "Cosine", "Similarity", "Threshold", "DataType"]
    table = [line.split() for line in lines[lines.index(header) + 2 :]]
    rows = {words[0]: words[1:] for words in table if words[1:2] == ["BPU"]}
    assert list(rows) == ["HZ_PREPROCESS_FOR_image", "first", "second", "pool", "classes"]
    assert rows["HZ_PREPROCESS_FOR_image"][:3] == ["BPU", "id(0)", "HzSQuantizedPreprocess"]
    assert all(float(row[3]) > 0.99 and float(row[4]) > 0 and row[5] == "int8" for row in rows.values())
    output = next(line for line in lines if line.startswith("logits"))
    assert float(output.split()[1]) > 0.99
    assert any("md5 of the first calibration file" in line for line in lines)


def test_the_bin_computes_what_the_quantized_model_computes(made: Made) -> None:
    workspace = made.folder
    images = np.random.default_rng(1).integers(-128, 128, (4, 3, 16, 16)).astype(np.int8)
    quantized = Session(workspace / "out" / "small_quantized_model.onnx").run({"image": images})
    binary = Session(workspace / "out" / "small.bin").run({"image": images})
    np.testing.assert_array_equal(binary["logits"], quantized["logits"])
    floats = Session(workspace / "out" / "small_original_float_model.onnx").run({"image": images.astype(np.float32)})
    cosine = np.sum(floats["logits"] * binary["logits"]) / (
        np.linalg.norm(floats["logits"]) * np.linalg.norm(binary["logits"])
    )
    assert cosine > 0.99


def test_quant_info_holds_thresholds_and_similarities(made: Made) -> None:
    info = json.loads((made.folder / "out" / "small_quant_info.json").read_text())
    assert info["first"]["type"] == "HzSQuantizedConv"
    assert info["first"]["inputs"] == ["HZ_PREPROCESS_FOR_image"]
    assert info["first"]["outputs"] == ["r0"]
    assert set(info["first"]["thresholds"]) == {"HZ_PREPROCESS_FOR_image", "r0"}
    assert info["first"]["cosine_similarity"] > 0.99


@pytest.mark.parametrize("march", ["bernoulli2", "bayes", "bayes-e"])
@pytest.mark.parametrize("method", ["max", "kl"])
def test_all_marches_and_methods_convert(workspace: Path, march: str, method: str) -> None:
    write_config(workspace, model_parameters={"march": march}, calibration_parameters={"calibration_type": method})
    finished = call(workspace, "makertbin", "-c", "config.yaml", "--model-type", "onnx")
    assert finished.returncode == 0, finished.stdout


@pytest.mark.nightly
def test_converting_twice_gives_the_same_bytes(made: Made) -> None:
    first = made.bytes
    assert run(made.folder, "makertbin", "-c", "config.yaml", "--model-type", "onnx").returncode == 0
    assert made.bytes == first


def test_checker_prints_placement_and_speed(workspace: Path) -> None:
    finished = call(
        workspace, "checker", "--model-type", "onnx", "--march", "bayes-e", "--model", "small.onnx",
        "--input-shape", "image", "1x3x16x16",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout
    assert "Cosine" not in finished.stdout
    assert " HzSQuantizedConv " in finished.stdout
    assert "FPS=" in finished.stdout
    assert "latency = " in finished.stdout
    assert "DDR = " in finished.stdout
    assert "for optimize_level O0, at which the original's checker compiles." in finished.stdout
    first = float(re.search(r"latency = ([0-9.]+) us", finished.stdout)[1])
    assert float(re.search(r"all BPU subgraphs take ([0-9.]+) us", finished.stdout)[1]) < first
    assert finished.stdout.splitlines()[-1].endswith("End model checking....")
    assert (workspace / "hb_mapper_checker.log").read_text() == finished.stdout


def test_version(tmp_path: Path) -> None:
    finished = run(tmp_path, "--version")
    assert finished.returncode == 0
    assert finished.stdout.startswith("hb_mapper, version ")
    assert not list(tmp_path.iterdir())


USAGE_ERRORS = {
    "no configuration": ("makertbin", "--model-type", "onnx"),
    "missing configuration": ("makertbin", "--model-type", "onnx", "-c", "none.yaml"),
    "no model type": ("makertbin", "-c", "config.yaml"),
    "unknown model type": ("makertbin", "-c", "config.yaml", "--model-type", "tflite"),
    "unknown march": ("checker", "--model-type", "onnx", "--march", "nash", "--model", "small.onnx"),
    "unknown option": ("checker", "--fast"),
    "options of another mode": ("makertbin", "-c", "config.yaml", "--model-type", "onnx", "--march", "bayes"),
}


@pytest.mark.parametrize("arguments", USAGE_ERRORS.values(), ids=USAGE_ERRORS.keys())
def test_wrong_options_exit_2(workspace: Path, arguments: tuple[str, ...]) -> None:
    assert_usage_error(call(workspace, *arguments))


def test_a_wrong_option_ends_the_process_with_2(workspace: Path) -> None:
    assert_usage_error(run(workspace, *USAGE_ERRORS["missing configuration"]))


def assert_usage_error(finished: subprocess.CompletedProcess[str]) -> None:
    assert finished.returncode == 2
    assert "Traceback" not in finished.stderr


INCOMPLETE_CAFFE = {
    "conversion": (("makertbin", "-c", "config.yaml", "--model-type", "caffe"), "Missing keys: 'caffe_model'"),
    "check": (
        ("checker", "--model-type", "caffe", "--march", "bayes", "--model", "small.onnx"),
        "--proto is needed with --model-type caffe",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), INCOMPLETE_CAFFE.values(), ids=INCOMPLETE_CAFFE.keys())
def test_a_caffe_model_has_two_files(workspace: Path, arguments: tuple[str, ...], message: str) -> None:
    assert_one_error(call(workspace, *arguments), message)


def test_fast_perf(workspace: Path) -> None:
    finished = call(
        workspace, "makertbin", "--fast-perf", "--model", "small.onnx", "--model-type", "onnx", "--march", "bayes"
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert (workspace / ".fast_perf" / "small_config.yaml").is_file()
    assert (workspace / "model_output" / "small.bin").is_file()


WRONG_CONFIGURATIONS: dict[str, tuple[dict[str, dict[str, Any]], str]] = {
    "missing data": ({"calibration_parameters": {"cal_data_dir": "nowhere"}}, "Cal_data_dir does not exist"),
    "wrong data type": ({"calibration_parameters": {"cal_data_type": "float32"}}, "cannot reshape array"),
    "march": ({"model_parameters": {"march": "nash-e"}}, "User input march invalid"),
    "unknown key": ({"calibration_parameters": {"asymmetric": True}}, "Wrong key 'asymmetric'"),
    "missing model": ({"model_parameters": {"onnx_model": "none.onnx"}}, "none.onnx"),
    "two cores": ({"compiler_parameters": {"core_num": 2}}, "core"),
    "function calls": ({"compiler_parameters": {"max_time_per_fc": 500}}, "max_time_per_fc"),
    "input source": (
        {"compiler_parameters": {"input_source": {"other": "ddr"}}},
        "'other' is not an input of the model",
    ),
}


@pytest.mark.parametrize(("changes", "message"), WRONG_CONFIGURATIONS.values(), ids=WRONG_CONFIGURATIONS.keys())
def test_wrong_input_exits_255_with_one_message(
    workspace: Path, changes: dict[str, dict[str, Any]], message: str
) -> None:
    write_config(workspace, **changes)
    assert_one_error(call(workspace, "makertbin", "-c", "config.yaml", "--model-type", "onnx"), message)
    assert not (workspace / "out" / "small.bin").exists()


def test_garbage_models_are_refused(workspace: Path) -> None:
    """In a process of its own: nothing but the two lines may leave it."""
    (workspace / "small.onnx").write_bytes(b"not a model")
    finished = run(workspace, "checker", "--model-type", "onnx", "--march", "bayes", "--model", "small.onnx")
    assert_one_error(finished, "Error parsing message")


def assert_one_error(finished: subprocess.CompletedProcess[str], message: str) -> None:
    assert finished.returncode == 255, finished.stdout
    errors = [line for line in finished.stdout.splitlines() if " ERROR " in line]
    assert len(errors) == 2
    assert message in errors[0]
    assert "exception in command" in errors[1]
    assert "Traceback" not in finished.stdout + finished.stderr


@pytest.mark.reference
@pytest.mark.parametrize("name", ["p_rgb", "res", "p_nv12", "b2_se"])
def test_golden_conversions(name: str, reference_dir: Path, tmp_path: Path) -> None:
    """The original's own YAML and data convert, and the output is the original's, bit for bit."""
    golden = reference_dir / "golden" / "conversions"
    for suffix in (".float.onnx", ".yaml"):
        shutil.copy(golden / f"{name}{suffix}", tmp_path)
    with np.load(golden / f"{name}.npz") as arrays:
        for key in arrays:
            if key.startswith("cal__"):
                folder, file = key.removeprefix("cal__").split("__", 1)
                (tmp_path / folder).mkdir(exist_ok=True)
                arrays[key].tofile(tmp_path / folder / file)
        feed = {key.removeprefix("in0__"): arrays[key] for key in arrays if key.startswith("in0__")}
        expected = {key.removeprefix("out0__"): arrays[key] for key in arrays if key.startswith("out0__")}
    finished = call(tmp_path, "makertbin", "-c", f"{name}.yaml", "--model-type", "onnx")
    assert finished.returncode == 0, finished.stdout
    outputs = Session(tmp_path / "out" / f"{name}.bin").run(feed)
    for key, array in expected.items():
        np.testing.assert_array_equal(outputs[key], array)


@pytest.mark.nightly
@pytest.mark.reference
def test_tables_of_a_real_network_are_those_of_the_original(reference_dir: Path, tmp_path: Path) -> None:
    """EfficientNet-Lite0, 50 images, ``max``: every row of both tables; the original's sums are float32."""
    model = reference_dir.parent / "models" / "efficientnet_lite0.onnx"
    if not model.is_file():
        pytest.skip(f"no model {model}")
    (tmp_path / "images").mkdir()
    with np.load(reference_dir / "calibration" / "efficientnet_lite0_calibration_images.npz") as archive:
        for index, image in enumerate(archive["images"]):
            image.transpose(2, 0, 1).astype(np.float32).tofile(tmp_path / "images" / f"{index:03}.bin")
    write_config(
        tmp_path,
        model_parameters={"onnx_model": str(model)},
        input_parameters={"input_name": "data"},
        calibration_parameters={"cal_data_type": "float32"},
        compiler_parameters={"optimize_level": "O0"},
    )
    finished = call(tmp_path, "makertbin", "-c", "config.yaml", "--model-type", "onnx")
    assert finished.returncode == 0, finished.stdout
    lines = [line.split() for line in finished.stdout.splitlines()]
    printed = {cells[0]: cells[1:] for cells in lines if len(cells) == 7 and cells[1] in ("BPU", "CPU")}
    reference = json.loads((reference_dir / "calibration" / "max.json").read_text())
    assert list(printed) == [row["node"] for row in reference["nodes"]]
    for row in reference["nodes"]:
        on, subgraph, kind, cosine, threshold, dtype = printed[row["node"]]
        expected = (row["on"], row["subgraph"], row["type"], row["threshold"], row["dtype"])
        assert (on, subgraph, kind, threshold, dtype) == expected
        assert float(cosine) == pytest.approx(float(row["cosine"]), abs=2e-5)
    (output,) = (cells for cells in lines if cells[0] == "prob" and len(cells) == 5)
    expected_output = [reference["output"][key] for key in ("cosine", "l1", "l2", "chebyshev")]
    assert [float(cell) for cell in output[1:]] == pytest.approx(expected_output, abs=1e-6)


@pytest.mark.parametrize("name", ["mnist_lenet"])
@pytest.mark.parametrize("march", ["bernoulli2", "bayes-e"])
def test_bundled_networks_keep_their_accuracy(name: str, march: str, tmp_path: Path) -> None:
    """A trained network, 50 calibration images, 200 others: the ``.bin`` classifies as well as the float model."""
    card = load_card(name)
    dataset = card.open_dataset()
    (tmp_path / "images").mkdir()
    for index, image in enumerate(trained(card, dataset.split("calibration").images(0, 50))):
        image.tofile(tmp_path / "images" / f"{index:03}.bin")
    config = write_config(
        tmp_path,
        model_parameters={"onnx_model": str(card.model_path()), "march": march},
        compiler_parameters={"optimize_level": "O0"},
    )
    content = yaml.safe_load(config.read_text())
    content["input_parameters"] = dict(card.converter_yaml())
    config.write_text(yaml.safe_dump(content))
    finished = call(tmp_path, "makertbin", "-c", "config.yaml", "--model-type", "onnx")
    assert finished.returncode == 0, finished.stdout
    images = dataset.split("evaluation").images(0, 200)
    classes = np.asarray(dataset.split("evaluation").targets(0, 200))
    session = HB_ONNXRuntime(tmp_path / "out" / "small.bin")
    info = session.get_inputs()[0]
    channels_first = list(info.shape)[1] == images.shape[3]
    feed = images.transpose(0, 3, 1, 2) if channels_first else images
    (scores,) = session.run(session.output_names, {info.name: feed})
    accuracy = np.mean(scores.reshape(len(images), -1).argmax(1) == classes)
    assert accuracy >= card.float_score.value - 0.02
