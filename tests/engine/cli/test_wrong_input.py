"""The documents' and the measured tables of wrong input: one clear message, the exit code, nothing half-written."""

from __future__ import annotations

import copy
import csv
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner, Result

from engine.cli.vendor.hb_mapper import app
from engine.convert.refusals import NOT_IN_RUNTIME
from tests.configurations import FEATUREMAP

CONFIG: dict[str, Any] = {
    **FEATUREMAP,
    "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O0"},
}


def model(opset: int = 11, ir_version: int = 8, shape: Any = (1, 8, 16, 16), tail: str = "", domain: str = "") -> Any:
    """A convolution, and behind it operator ``tail``."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c" if tail else "y"], "conv")]
    if tail:
        nodes.append(helper.make_node(tail, ["c"], ["y"], "tail", domain=domain))
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 8, 1, 1)).astype(np.float32), "w")
    graph = helper.make_graph(
        nodes,
        "m",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weight],
    )
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def relu() -> Any:
    """A model of nothing that the BPU computes."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8, 16, 16)) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"], "neg")], "m", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Model and calibration data of a conversion that works, as the working directory."""
    onnx.save(model(), tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "short").mkdir()
    np.random.default_rng(0).normal(size=(8, 16, 16)).astype(np.float32).tofile(tmp_path / "data" / "0.bin")
    np.zeros(1920, np.float32).tofile(tmp_path / "short" / "0.bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, changes: dict[str, Any]) -> Result:
    """``hb_mapper makertbin`` with ``group.key`` set, or removed where the value is ``...``."""
    content = copy.deepcopy(CONFIG)
    for name, value in changes.items():
        group, _, key = name.partition(".")
        target, key = (content[group], key) if key else (content, group)
        if value is ...:
            del target[key]
        else:
            target[key] = value
    (folder / "c.yaml").write_text(yaml.safe_dump(content))
    return CliRunner().invoke(app, ["makertbin", "--model-type", "onnx", "--config", "c.yaml"])


def assert_refused(folder: Path, result: Result, message: str) -> None:
    """Exit code 255, ``message`` in the log exactly once, no result and no temporary file."""
    log = (folder / "hb_mapper_makertbin.log").read_text()
    assert result.exit_code == 255, result.output
    assert "Traceback" not in result.output
    assert sum(" ERROR " in line and "exception in command" not in line for line in log.splitlines()) == 1, log
    assert message in log, log
    written = list((folder / "out").rglob("*")) if (folder / "out").exists() else []
    assert not [path for path in written if path.suffix == ".bin" or path.name.startswith(".")]


MODEL, INPUT, CALIBRATION, COMPILER = (
    f"{name}_parameters" for name in ("model", "input", "calibration", "compiler")
)  # fmt: skip


def test_without_mistakes_it_converts(folder: Path) -> None:
    result = run(folder, {})
    assert result.exit_code == 0, result.output
    assert (folder / "out" / "m.bin").is_file()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({f"{MODEL}.onnx_model": ...}, "can not find onnx_model in config yaml"),
        ({f"{MODEL}.onnx_model": "absent.onnx"}, "absent.onnx: no such model file"),
        ({f"{MODEL}.march": ...}, "Missing key: 'march'"),
        ({MODEL: ...}, "Missing key: 'model_parameters'"),
        ({INPUT: ...}, "Missing key: 'input_parameters'"),
        (
            {f"{MODEL}.march": "nash-e"},
            "User input march invalid: 'nash-e' . It should in list ['bernoulli2', 'bayes', 'bayes-e']",
        ),
        (
            {f"{CALIBRATION}.cal_data_dir": ...},
            "Wrong cal_dir num given, cal_dir num 0 is not equal to input num 1",
        ),
        ({f"{CALIBRATION}.cal_data_dir": "absent"}, "Cal_data_dir does not exist: absent"),
        ({f"{CALIBRATION}.cal_data_dir": "empty"}, "empty is empty, please check calibration pics"),
        ({f"{CALIBRATION}.cal_data_dir": "short"}, "cannot reshape array of size 1920 into shape (1"),
        ({f"{CALIBRATION}.asymmetric": True}, "Key 'calibration_parameters' error: Wrong key 'asymmetric' in "),
        ({f"{CALIBRATION}.bias_correction": True}, "Wrong key 'bias_correction' in "),
        (
            {f"{CALIBRATION}.optimization": "no_such_option", f"{MODEL}.march": "bayes"},
            "The optimization parameter: no_such_option is not supported by BPU March:bayes. Please check",
        ),
        ({f"{CALIBRATION}.calibration_type": "fixed"}, "'fixed' should in list ["),
        ({f"{CALIBRATION}.max_percentile": 1.5}, "Invalid max_percentile: 1.5, avaliable range: 0~1"),
        (
            {f"{INPUT}.input_type_train": "rgb", f"{INPUT}.input_type_rt": "gray"},
            "not supported transform to input_type_rt 'gray' for now.",
        ),
        (
            {f"{MODEL}.node_info": {"conv": {"InputType": "int16"}}, f"{MODEL}.march": "bernoulli2"},
            "Unsupported datatype settings for march bernoulli/bernoulli2: int16",
        ),
        (
            {f"{CALIBRATION}.optimization": "set_model_output_int16", f"{MODEL}.march": "bernoulli2"},
            "Unsupported datatype settings for march bernoulli/bernoulli2: int16",
        ),
        ({f"{COMPILER}.core_num": 2}, "march bayes-e has only one core per frame"),
        ({f"{COMPILER}.optimize_level": "O4"}, "'O4' should in list ["),
        ({f"{COMPILER}.input_source": {"y": "ddr"}}, "input_source: 'y' is not an input of the model"),
        ({f"{INPUT}.input_name": "y"}, "input_parameters.input_name: 'y' is not an input of the model"),
        ({f"{INPUT}.input_shape": "1x8x15x16"}, "contradicts the model, whose shape is 1x8x16x16"),
    ],
)
def test_wrong_parameters(folder: Path, changes: dict[str, Any], message: str) -> None:
    assert_refused(folder, run(folder, changes), message)
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: model(shape=("n", 8, 16, 16)),
            "input 'x' ?x8x16x16 is a dynamic shape. Please give the sizes, for example: --input-shape x=1x8x16x16",
        ),
        (lambda: model(tail="Hardmax"), "HorizonRT not support these cpu operators: Hardmax"),
        (lambda: model(tail="MeanVarianceNormalization"), "cpu operators: MeanVarianceNormalization"),
        (relu, "There is no node can execute on BPU in this model, please make sure the model has at least one"),
        (lambda: model(tail="Own", domain="my.domain"), "unsupported domain detected in model"),
        (lambda: b"garbage", "Error parsing message with type 'onnx.ModelProto'"),
        (lambda: b"", "the file is empty: copy it again, or export it again"),
    ],
)
def test_wrong_models(folder: Path, make: Callable[[], Any], message: str) -> None:
    content = make()
    (folder / "m.onnx").write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    assert_refused(folder, run(folder, {}), message)


@pytest.mark.reference
def test_operators_without_a_runtime(folder: Path, reference_dir: Path) -> None:
    """Every measured case, through the checker and the converter."""
    with (reference_dir / "operators" / "operators.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if "HorizonRT not support these cpu operators" in row["reason"]]
    assert len(rows) > 20
    for row in rows:
        message = re.search(r"HorizonRT not support these cpu operators: *([\w, ]*)", row["reason"])
        assert message is not None
        types = sorted(message[1].replace(",", " ").split())
        if row["op"] == "QDQ":  # the original names the operator that it makes of the pair
            types = ["DequantizeLinear", "QuantizeLinear"]
        wanted = f"HorizonRT not support these cpu operators: {', '.join(types)}"
        path = reference_dir / "operators" / "models" / row["model"]
        shutil.copy(path, folder / "m.onnx")
        arguments = ["checker", "--model-type", "onnx", "--march", row["march"], "--model", "m.onnx"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 255, row
        assert wanted in result.output, (row, result.output)


def test_the_documented_operators_without_a_runtime() -> None:
    """reference/operators.md, "Refused"."""
    documented = """Compress Det Hardmax IsInf IsNaN MatMulInteger MaxUnpool Mean MeanVarianceNormalization
    NonMaxSuppression NonZero Unique Xor QuantizeLinear DequantizeLinear"""
    assert set(documented.split()) <= NOT_IN_RUNTIME


def test_max_percentile_has_a_floor(folder: Path) -> None:
    """0.3 is taken as 0.5 (reference/calibration.md 1)."""
    models = []
    for percentile in (0.3, 0.5):
        result = run(folder, {f"{CALIBRATION}.max_percentile": percentile})
        assert result.exit_code == 0, result.output
        models.append((folder / "out" / "m_quantized_model.onnx").read_bytes())
    assert models[0] == models[1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_undefined_data_are_no_error(folder: Path, value: float) -> None:
    data = np.fromfile(folder / "data" / "0.bin", np.float32)
    data[::7] = value
    data.tofile(folder / "data" / "0.bin")
    result = run(folder, {})
    assert result.exit_code == 0, result.output
    assert (folder / "out" / "m.bin").is_file()


@pytest.mark.parametrize(
    "changes",
    [
        {f"{INPUT}.norm_type": "no_preprocess"},
        {COMPILER: ...},
        {f"{CALIBRATION}.run_on_cpu": "no_such_node"},
        {f"{CALIBRATION}.per_channel": True},
    ],
)
def test_what_is_no_error(folder: Path, changes: dict[str, Any]) -> None:
    result = run(folder, changes)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("opset", [9, 10, 13, 17, 19])
def test_supported_opsets(folder: Path, opset: int) -> None:
    onnx.save(model(opset=opset, ir_version=10 if opset > 17 else 5), folder / "m.onnx")
    result = run(folder, {})
    assert result.exit_code == 0, result.output


def test_debug_mode_keeps_what_the_model_is_fed_with(folder: Path) -> None:
    result = run(folder, {f"{MODEL}.debug_mode": "dump_calibration_data"})
    assert result.exit_code == 0, result.output
    kept = np.load(folder / "out" / "calibration_data" / "x" / "0.npy")
    np.testing.assert_array_equal(kept.ravel(), np.fromfile(folder / "data" / "0.bin", np.float32))


@pytest.mark.parametrize("working_dir", ["m.onnx", "m.onnx/below", "/proc/no/folder", "/dev/null"])
def test_results_that_cannot_be_written(folder: Path, working_dir: str) -> None:
    before = (folder / "m.onnx").read_bytes()
    result = run(folder, {f"{MODEL}.working_dir": working_dir})
    assert_refused(folder, result, "cannot be written: ")
    assert (folder / "m.onnx").read_bytes() == before


@pytest.mark.parametrize(
    "key", [f"{MODEL}.working_dir", f"{MODEL}.output_model_file_prefix", f"{CALIBRATION}.cal_data_dir"]
)
@pytest.mark.parametrize("text", ["a" * 300, "a\0b", "\ud800"], ids=["long", "NUL", "surrogate"])
def test_paths_that_no_file_system_takes(folder: Path, key: str, text: str) -> None:
    result = run(folder, {key: text})
    assert_refused(
        folder, result, "is too long for a path" if len(text) > 10 else "holds a character that no path can hold"
    )


def test_absent_configuration(folder: Path) -> None:
    result = CliRunner().invoke(app, ["makertbin", "--model-type", "onnx", "--config", "absent.yaml"])
    assert result.exit_code == 2
