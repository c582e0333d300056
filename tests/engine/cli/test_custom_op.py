"""Custom operators through a whole conversion: placement, all stages of it, the commands that show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from numpy.typing import NDArray
from typer.testing import CliRunner

from engine.cli.vendor import hb_compile, hb_mapper
from engine.ops.foreign.custom_registry import REGISTRY
from engine.simulate import Session
from harness.cli.main import app as lab
from tests.configurations import FEATUREMAP
from tests.engine.ops.custom_operators import FILE, SHAPE, network, write_files

STAGES = ("original_float_model", "optimized_float_model", "calibrated_model", "quantized_model")

CONFIG: dict[str, Any] = {
    **FEATUREMAP,
    "custom_op": {"custom_op_method": "register", "op_register_files": FILE, "custom_op_dir": "./ops"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Model, data and operators of a conversion, as the working directory; nothing is registered yet."""
    monkeypatch.setattr(REGISTRY, "_implementations", {})
    monkeypatch.setattr(REGISTRY, "_shapes", {})
    onnx.save(network(), tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    for index, sample in enumerate(samples(3)):
        sample.tofile(tmp_path / "data" / f"{index}.bin")
    write_files(tmp_path / "ops")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def samples(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((count, *SHAPE[1:]), np.float32)


def expected(x: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """The network of :func:`network` in numpy, its convolutions in float64."""
    weights = {item.name: onnx.numpy_helper.to_array(item) for item in network().graph.initializer}

    def conv(data: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
        pad = weight.shape[2] // 2
        padded = np.pad(data.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
        return np.einsum("nchwkl,ockl->nohw", windows, weight.astype(np.float64))

    def shrink(data: NDArray[Any], bias: float, limit: float) -> NDArray[Any]:
        return np.where(data < -limit, data + bias, np.where(data > limit, data - bias, 0))

    b = shrink(conv(x, weights["w0"]), 0.25, 0.5)
    f = shrink(np.maximum(conv(b, weights["w1"]), 0), 0.1, 0.2) + b
    return {"y": conv(f[:, :4], weights["w2"]).astype(np.float32), "h": f[:, 4:].astype(np.float32)}


def convert(config: dict[str, Any]) -> None:
    Path("config.yaml").write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(hb_mapper.app, ["makertbin", "--model-type", "onnx", "-c", "config.yaml"])
    assert result.exit_code == 0, result.output


def cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    return float(a.ravel() @ b.ravel() / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("march", ["bernoulli2", "bayes", "bayes-e"])
def test_all_stages_compute_custom_operators(folder: Path, march: str) -> None:
    convert({**CONFIG, "model_parameters": {**CONFIG["model_parameters"], "march": march}})
    x = samples(4)
    wanted = expected(x)
    quantized = Session("out/m_quantized_model.onnx", "reference").run({"x": x})
    for stage in STAGES:
        result = Session(f"out/m_{stage}.onnx").run({"x": x})
        for name, array in result.items():
            if "float" in stage:
                np.testing.assert_allclose(array, wanted[name], atol=1e-5)
            assert cosine(array, wanted[name]) > 0.99
    for session in (Session("out/m_quantized_model.onnx"), Session("out/m.bin"), Session("out/m.bin", "reference")):
        for name, array in session.run({"x": x}).items():
            np.testing.assert_array_equal(array, quantized[name])


def test_custom_nodes_are_on_the_cpu_and_say_why(folder: Path) -> None:
    convert(CONFIG)
    result = CliRunner().invoke(lab, ["check", "m.onnx", "--march", "bayes-e", "--json"])
    nodes = {row["node"]: row for row in json.loads(result.output)["nodes"]}
    for name in ("shrink0", "shrink1", "halves"):
        assert (nodes[name]["on"], nodes[name]["type"]) == ("CPU", "PyOp")
        assert "custom operator" in nodes[name]["reason"]
    assert {nodes[name]["on"] for name in ("conv0", "conv1", "conv2")} == {"BPU"}
    refused = CliRunner().invoke(lab, ["export", "--standard", "out/m_quantized_model.onnx", "standard.onnx"])
    assert refused.exit_code != 0
    assert "custom operators have no standard form: shrink0, shrink1, halves" in str(refused.exception)


@pytest.mark.parametrize("arguments", [("bisect", "--json"), ("tune", "--trials", "2", "--samples", "2")])
def test_tools_with_a_configuration_register_operators(folder: Path, arguments: tuple[str, ...]) -> None:
    command, *options = arguments
    Path("config.yaml").write_text(yaml.safe_dump(CONFIG))
    result = CliRunner().invoke(lab, [command, "m.onnx", "-c", "config.yaml", *options])
    assert result.exit_code == 0, (result.output, result.exception)


def test_hb_compile_takes_the_same_group(folder: Path) -> None:
    for index, sample in enumerate(samples(3)):
        (folder / "data" / f"{index}.bin").unlink()
        np.save(folder / "data" / f"{index}.npy", sample[np.newaxis])
    config = {**CONFIG, "model_parameters": {**CONFIG["model_parameters"], "march": "nash-e"}}
    config["input_parameters"] = {"input_type_train": "featuremap", "input_type_rt": "featuremap"}
    config["calibration_parameters"] = {"cal_data_dir": "data", "calibration_type": "max"}
    Path("config.yaml").write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(hb_compile.app, ["-c", "config.yaml"])
    assert result.exit_code == 0, result.output
    x = samples(1)
    assert cosine(Session("out/m.hbm").run({"x": x})["y"], expected(x)["y"]) > 0.99


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"op_register_files": "other.py"}, "other.py: no such Python file"),
        ({"op_register_files": "../ops/../m.onnx"}, "lies outside custom_op_dir"),
        ({"custom_op_dir": None}, "op_register_files needs custom_op_dir"),
        ({"op_register_files": None}, "custom_op_dir needs op_register_files"),
        ({"custom_op_method": "plugin"}, "should in list ['register']"),
    ],
)
def test_wrong_groups_are_refused(folder: Path, changes: dict[str, Any], text: str) -> None:
    Path("config.yaml").write_text(yaml.safe_dump({**CONFIG, "custom_op": {**CONFIG["custom_op"], **changes}}))
    result = CliRunner().invoke(hb_mapper.app, ["makertbin", "--model-type", "onnx", "-c", "config.yaml"])
    assert result.exit_code == 255
    assert text in result.output
    assert not list(Path("out").glob("*"))


def test_what_is_not_registered_is_refused(folder: Path) -> None:
    config = {**CONFIG, "custom_op": None}
    Path("config.yaml").write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(hb_mapper.app, ["makertbin", "--model-type", "onnx", "-c", "config.yaml"])
    assert result.exit_code == 255
    assert "unsupported domain detected in model: node 'shrink1' (CustomShrink) is of domain 'user'" in result.output
