"""``input_batch`` through whole conversions: only the ``.bin`` takes several samples, and computes each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner, Result

from engine.cli.vendor import hb_compile, hb_mapper, hb_verifier
from engine.compile.compiler import load_bin as load_bin
from engine.perf import estimate
from engine.simulate import Session
from engine.simulate.tensors import random_feed

BATCH = 4


def network(images: int, batch: int = 1) -> onnx.ModelProto:
    """One convolution per image input, summed, and a dense layer behind a Reshape."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "shape": np.asarray([batch, -1], np.int64),
        "v": rng.standard_normal((8 * 8 * 8, 10)).astype(np.float32),
    }
    nodes = [helper.make_node("Conv", [f"x{i}", "w"], [f"c{i}"], f"conv{i}", pads=[1] * 4) for i in range(images)]
    last = "c0"
    for i in range(1, images):
        nodes.append(helper.make_node("Add", [last, f"c{i}"], [f"s{i}"], f"add{i}"))
        last = f"s{i}"
    nodes += [
        helper.make_node("Relu", [last], ["r"], "relu"),
        helper.make_node("Reshape", ["r", "shape"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "v"], ["y"], "dense"),
    ]
    graph = helper.make_graph(
        nodes,
        "batch",
        [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, (batch, 3, 8, 8)) for i in range(images)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, 10))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        pixels = rng.integers(0, 256, (1, 3, 8, 8)).astype(np.float32)
        np.save(tmp_path / name / "0.npy", pixels)
        (tmp_path / f"{name}_raw").mkdir()
        pixels.tofile(tmp_path / f"{name}_raw" / "0.bin")
    return tmp_path


def config(images: int, **inputs: Any) -> dict[str, Any]:
    onnx.save(network(images), "m.onnx")
    names = ";".join(f"x{i}" for i in range(images))
    return {
        "model_parameters": {
            "onnx_model": "m.onnx",
            "march": "bayes-e",
            "output_model_file_prefix": "m",
            "working_dir": "out",
        },
        "input_parameters": {
            "input_name": names,
            "input_type_train": ";".join(["rgb"] * images),
            "input_layout_train": ";".join(["NCHW"] * images),
            "input_type_rt": ";".join(["nv12"] * images),
            **inputs,
        },
        "calibration_parameters": {
            "cal_data_dir": ";".join(["a_raw", "b_raw"][:images]),
            "cal_data_type": ";".join(["float32"] * images),
            "calibration_type": "max",
        },
    }


def run(content: dict[str, Any], app: Any = hb_mapper.app) -> Result:
    Path("c.yaml").write_text(yaml.safe_dump(content))
    arguments = ["makertbin", "--model-type", "onnx"] if app is hb_mapper.app else []
    return CliRunner().invoke(app, [*arguments, "-c", "c.yaml"])


def check_files(batch: int) -> None:
    """The ``.bin`` takes ``batch`` samples and gives what the quantised model gives one by one."""
    single, several = Session("out/m_quantized_model.onnx"), Session("out/m.bin")
    assert {info.shape[0] for info in single.inputs} == {1}
    assert {info.shape[0] for info in (*several.inputs, *several.outputs)} == {batch}
    feed = random_feed(several.inputs, 2)
    np.testing.assert_array_equal(several.run(feed)["y"], single.run(feed)["y"])


def test_the_bin_takes_several_samples(folder: Path) -> None:
    latencies = []
    for batch in (1, BATCH):
        result = run(config(1, input_batch=batch))
        assert result.exit_code == 0, result.output
        check_files(batch)
        np.arange(96, dtype=np.uint8).tofile("frame.bin")
        for more in ((), ("-r", "True"), ("-i", "frame.bin")):
            arguments = ["-m", "out/m_quantized_model.onnx,out/m.bin", "-s", "True", *more]
            assert "Strict check PASSED" in CliRunner().invoke(hb_verifier.app, arguments).output
        latencies.append(estimate(load_bin("out/m.bin")).latency_us)
    assert latencies[0] < latencies[1] < BATCH * latencies[0]


def test_hb_compile_has_batches_of_several_inputs(folder: Path) -> None:
    content = config(2, input_batch=BATCH)
    assert "input_batch 4 needs a model with a single input, given are 2" in run(content).output
    content["calibration_parameters"] = {"cal_data_dir": "a;b", "calibration_type": "max"}
    result = run(content, hb_compile.app)
    assert result.exit_code == 0, result.output
    check_files(BATCH)


def test_models_for_several_samples_have_no_other_batch(folder: Path) -> None:
    content = config(1, input_batch=BATCH)
    onnx.save(network(1, batch=2), "m.onnx")
    np.concatenate([np.fromfile("a_raw/0.bin", np.float32)] * 2).tofile("a_raw/0.bin")
    result = run(content)
    assert result.exit_code == 255
    assert "input 'x0' has shape [2, 3, 8, 8], the first dimension of every input must be 1" in result.output
    assert "Start to optimize" not in result.output
    assert not Path("out").exists()
