"""The configuration for the fastest model: images, ends, options."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest
import yaml
from onnx import helper

from engine.cli.vendor.fast_perf import _image_layout, _inputs, write_config
from engine.config import load_config
from engine.errors import ConfigError
from engine.terms import Layout
from tests.engine.frontend.networks import convolution, network, saved


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 3, 8, 6), Layout.NCHW),
        ((1, 8, 6, 3), Layout.NHWC),
        ((1, 3, 8, 3), None),
        ((1, 3, 4, 3), None),
        ((1, 3, 7, 6), None),
        ((1, 3, 8, 5), None),
        ((1, 1, 8, 6), None),
        ((1, 3, 8), None),
    ],
)
def test_images_have_three_channels_and_even_sides(shape: tuple[int, ...], expected: Layout | None) -> None:
    assert _image_layout(shape) is expected


def test_a_parameter_lists_all_inputs() -> None:
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Relu", ["b"], ["z"])]
    source = ir.from_proto(network(nodes, {"a": (1, 3, 8, 8), "b": (1, 5)}, ["y", "z"]))
    assert _inputs(source) == {
        "input_name": "a;b",
        "input_type_train": "bgr;featuremap",
        "input_layout_train": "NCHW;NCHW",
        "input_shape": "1x3x8x8;1x5",
        "norm_type": "no_preprocess;no_preprocess",
        "input_type_rt": "nv12;featuremap",
    }


def test_the_file_is_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_config(saved(convolution(), tmp_path, "net.onnx"), None, "bayes-e")
    assert str(path) == ".fast_perf/net_config.yaml"
    content = yaml.safe_load(path.read_text())
    assert content["calibration_parameters"] == {
        "calibration_type": "skip",
        "optimization": "run_fast;set_model_output_int8",
    }
    assert content["compiler_parameters"] == {"compile_mode": "latency", "debug": True, "optimize_level": "O3"}
    config = load_config(path)
    assert config.onnx_model == tmp_path / "net.onnx"
    assert set(config.model_parameters.remove_node_type) == {
        "Quantize",
        "Transpose",
        "Dequantize",
        "Cast",
        "Reshape",
        "Softmax",
    }


def test_an_absent_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--model .*absent.onnx: no such file"):
        write_config(tmp_path / "absent.onnx", None, "bayes-e")
