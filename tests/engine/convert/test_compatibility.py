"""``compatibility``: rules of the original that cost accuracy are followed, or not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.config import parse_config
from engine.convert import ConversionResult, convert
from engine.errors import UnsupportedError
from engine.simulate import Session

X = np.random.default_rng(3).normal(size=(4, 4, 8, 8)).astype(np.float32)
ALPHA = 0.2


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Convolution, HardSigmoid of another slope than 1/6, convolution."""
    weights = np.random.default_rng(0).normal(size=(2, 4, 4, 1, 1)).astype(np.float32)
    bias = np.zeros(4, np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], "first"),
            helper.make_node("HardSigmoid", ["c"], ["h"], "gate", alpha=ALPHA, beta=0.5),
            helper.make_node("Conv", ["h", "v", "b"], ["y"], "last"),
        ],
        "network",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 4, 8, 8])],
        [onnx.numpy_helper.from_array(array, name) for array, name in zip((*weights, bias), "wvb", strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    onnx.save(model, tmp_path / "net.onnx")
    (tmp_path / "cal").mkdir()
    for index, sample in enumerate(X):
        sample.tofile(tmp_path / "cal" / f"{index}.bin")
    return tmp_path


def converted(folder: Path, compatibility: str, output_nodes: str = "", **calibration: Any) -> ConversionResult:
    return convert(
        parse_config(
            {
                "model_parameters": {
                    "onnx_model": str(folder / "net.onnx"),
                    "march": "bayes-e",
                    "output_model_file_prefix": "net",
                    "working_dir": str(folder / compatibility),
                    "compatibility": compatibility,
                    **({"output_nodes": output_nodes} if output_nodes else {}),
                },
                "input_parameters": {
                    "input_type_train": "featuremap",
                    "input_layout_train": "NCHW",
                    "input_type_rt": "featuremap",
                },
                "calibration_parameters": {
                    "cal_data_dir": str(folder / "cal"),
                    "cal_data_type": "float32",
                    "calibration_type": "max",
                    **calibration,
                },
            }
        )
    )


def errors(folder: Path, result: ConversionResult) -> float:
    """Mean square error of the integer model's outputs."""
    found = [Session(path).run({"x": X})["y"] for path in (folder / "net.onnx", result.files["quantized"])]
    return float(((found[0] - found[1]) ** 2).mean())


def test_hard_sigmoid_has_its_own_slope_with_clean_only(network: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "engine.convert"):
        original = converted(network, "original")
    assert "rule arithmetic.hard-sigmoid-slope on 1 nodes (gate): HardSigmoid has the slope 1/6" in caplog.text
    caplog.clear()
    clean = converted(network, "clean")
    assert "rule " not in caplog.text
    assert errors(network, clean) < errors(network, original) / 4
    remarks = {result.nodes[1].remarks: result.nodes[1].node for result in (original, clean)}
    assert remarks == {"rule arithmetic.hard-sigmoid-slope": "gate", "": "gate"}


def test_what_is_read_back_from_files_is_the_same(network: Path) -> None:
    for compatibility in ("original", "clean"):
        result = converted(network, compatibility)
        (expected,) = Session(result.files["quantized"]).run({"x": X}).values()
        (from_bin,) = Session(result.files["bin"]).run({"x": X}).values()
        np.testing.assert_array_equal(from_bin, expected)


def test_biases_are_corrected_once_with_clean(network: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        original = converted(network, "original", optimization="bias_correction")
    assert "rule method.bias-correction-sample on 2 nodes (first, last)" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        clean = converted(network, "clean", optimization="bias_correction")
    assert "bias_correction is computed like mean_bias_correction, because compatibility is clean" in caplog.text
    mean = converted(network, "clean", optimization="mean_bias_correction")
    (ours,), (expected,) = (Session(r.files["quantized"]).run({"x": X}).values() for r in (clean, mean))
    np.testing.assert_array_equal(ours, expected)
    (others,) = Session(original.files["quantized"]).run({"x": X}).values()
    assert (others != ours).any()


def test_nodes_whose_threshold_six_decimals_decided_are_marked(network: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One magnitude and a lone value far out: float64 has no reason for any cut but the first."""
    sample = np.ones_like(X[0])
    sample.flat[0] = 700.0
    for path in (network / "cal").iterdir():
        sample.tofile(path)
    with caplog.at_level(logging.WARNING, "engine.convert"):
        original = converted(network, "original", calibration_type="kl")
    (line,) = (message for message in caplog.messages if "kl-decimals" in message)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "engine.convert"):
        clean = converted(network, "clean", calibration_type="kl")
    assert "rule " not in caplog.text
    before, now = ({row.node: row.threshold for row in result.nodes} for result in (original, clean))
    marked = [row.node for row in original.nodes if "rule method.kl-decimals" in row.remarks]
    assert marked == [node for node in before if before[node] != now[node]]
    assert "first" in marked
    assert line.startswith(
        f"rule method.kl-decimals on {len(marked)} nodes ({', '.join(marked)}): Calibration by kl sums divergences "
    )
    assert line.endswith("With compatibility clean the cut of least divergence, in float64.")


def with_equal_sums(folder: Path, outputs: str) -> None:
    """The network of ``folder`` with two sums of the same tensors, ``outputs`` being its ends."""
    model = onnx.load(folder / "net.onnx")
    nodes = [
        helper.make_node("Conv", ["x", "v", "b"], ["d"], "second"),
        helper.make_node("Add", ["c", "d"], ["s"], "sum"),
        helper.make_node("Add", ["d", "c"], ["t"], "equal"),
        helper.make_node("Conv", ["s", "v", "b"], ["y"], "last"),
    ]
    del model.graph.node[1:], model.graph.output[:]
    model.graph.node.extend(nodes)
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4, 8, 8]) for name in outputs]
    model.graph.output.extend(infos)
    onnx.save(model, folder / "net.onnx")


def test_an_output_that_equals_an_earlier_tensor_has_its_name_in_all_files(
    network: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_equal_sums(network, "yt")
    with caplog.at_level(logging.WARNING, "engine.convert"):
        result = converted(network, "original")
    assert "Output t is called s in the files, as in the original's" in caplog.text
    assert [row.name for row in result.outputs] == [row.name for row in result.integer_outputs] == ["y", "s"]
    floats = Session(network / "net.onnx").run({"x": X})
    for stage in ("optimized_float", "calibrated", "quantized", "bin"):
        found = Session(result.files[stage]).run({"x": X})
        assert list(found) == ["y", "s"]
        assert np.corrcoef(found["s"].ravel(), floats["t"].ravel())[0, 1] > 0.999
    assert list(Session(converted(network, "clean").files["quantized"]).run({"x": X})) == ["y", "t"]


def test_two_equal_outputs_are_refused_and_convert_as_the_message_says(network: Path) -> None:
    with_equal_sums(network, "yst")
    with pytest.raises(UnsupportedError, match=r"outputs s and t \(nodes sum, equal\).*output_nodes.*compatibility"):
        converted(network, "original")
    assert [row.name for row in converted(network, "clean").outputs] == ["y", "s", "t"]
    left = converted(network, "original", output_nodes="last;sum")
    assert [row.name for row in left.outputs] == ["y", "s"]
