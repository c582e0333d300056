"""A conversion without data: inputs that are drafted, models that are left, latency that is estimated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from engine.chips import MEASURED_MARCHES
from engine.compile import CompileOptions
from engine.convert.checker import CHECK_FOLDER, Draft, _configuration, _drafted_input, check
from engine.terms import CalibrationType, InputType, Layout
from tests.engine.frontend.networks import convolution, network, saved


@pytest.mark.parametrize(
    ("shape", "kind", "train", "layout"),
    [
        ((1, 3, 8, 8), "featuremap", "featuremap", "NCHW"),
        ((1, 3, 8, 8), "nv12", "rgb", "NCHW"),
        ((1, 8, 8, 3), "nv12", "rgb", "NHWC"),
        ((1, 3, 8, 8), "bgr", "bgr", "NCHW"),
        ((1, 3, 8, 8), "yuv444", "yuv444", "NCHW"),
        ((1, 3, 8, 3), "rgb", "rgb", "NCHW"),
        ((1, 1, 8, 8), "gray", "gray", "NCHW"),
        ((1, 1, 8, 8), "rgb", "featuremap", "NCHW"),
        ((1, 3, 8, 8), "gray", "featuremap", "NCHW"),
        ((1, 3, 8), "rgb", "featuremap", "NCHW"),
    ],
)
def test_which_inputs_are_drafted_as_images(shape: tuple[int, ...], kind: str, train: str, layout: str) -> None:
    spec = _drafted_input(ir.val("x", ir.DataType.FLOAT, shape), Draft("bayes-e", input_type=InputType(kind)))
    expected = kind if train != "featuremap" else "featuremap"
    assert (spec.type_train, spec.type_rt, spec.layout_train) == (train, expected, Layout(layout))


def test_what_stages_read_of_a_draft() -> None:
    config = _configuration("a/b", Draft("bernoulli2", compile=CompileOptions(core_num=2)))
    assert config.model_parameters.output_model_file_prefix == "a/b", "a name of any kind"
    assert (config.march, config.compiler_parameters.core_num) == ("bernoulli2", 2)
    assert config.calibration_parameters.calibration_type is CalibrationType.SKIP
    assert config.input_parameters.input_batch == 1


def test_models_are_left_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(convolution(), tmp_path)
    result = check(path, Draft("bayes-e"), tmp_path / CHECK_FOLDER)
    assert {kind: str(file.relative_to(tmp_path)) for kind, file in result.files.items()} == {
        "calibrated": ".hb_check/m_calibrated_model.onnx",
        "quantized": ".hb_check/m_quantized_model.onnx",
    }
    (row,) = (row for row in result.nodes if row.node == "Conv_0")
    assert (row.on, row.threshold, row.cosine) == ("BPU", 1.0, None)
    assert (result.outputs, result.performance.latency_us > 0) == ((), True)
    before = sorted(tmp_path.rglob("*"))
    check(path, Draft("bayes-e"))
    assert sorted(tmp_path.rglob("*")) == before


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


MASK = np.tril(np.ones((8, 8), bool))

ONCE_TRACEBACKS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "output padding": (
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_padding=[1, 1], strides=[2, 2])],
        {"w": ones(3, 4, 2, 2)},
    ),
    "output shape": (
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=[17, 17], strides=[2, 2])],
        {"w": ones(3, 4, 2, 2)},
    ),
    "scalar index": (
        [helper.make_node("Gather", ["x", "i"], ["g"], axis=1), helper.make_node("Relu", ["g"], ["y"])],
        {"i": np.int64(1)},
    ),
    "scalar index of a constant": (
        [helper.make_node("Gather", ["k", "i"], ["g"]), helper.make_node("Mul", ["x", "g"], ["y"])],
        {"i": np.int64(1), "k": np.arange(3, dtype=np.float32)},
    ),
    "product through Where": (
        [helper.make_node("Where", ["c", "x", "k"], ["m"]), helper.make_node("MatMul", ["m", "w"], ["y"])],
        {"c": MASK, "k": np.float32(-1e9), "w": ones(8, 8)},
    ),
    "product before Where": (
        [helper.make_node("Mul", ["x", "k"], ["m"]), helper.make_node("Where", ["c", "m", "x"], ["y"])],
        {"c": MASK, "k": np.float32(0.5)},
    ),
    "constants of Where": (
        [helper.make_node("Where", ["c", "k", "w"], ["m"]), helper.make_node("MatMul", ["x", "m"], ["y"])],
        {"c": MASK, "k": np.float32(0), "w": ones(8, 8)},
    ),
}
"""Nodes that read ``x`` of 1 x 3 x 8 x 8, and constants."""


@pytest.mark.parametrize("march", MEASURED_MARCHES)
@pytest.mark.parametrize("case", ONCE_TRACEBACKS)
def test_what_once_ended_in_a_traceback(case: str, march: str, tmp_path: Path) -> None:
    nodes, constants = ONCE_TRACEBACKS[case]
    conv = helper.make_node("Conv", ["in", "first"], ["x"])
    model = network([conv, *nodes], {"in": (1, 3, 8, 8)}, ["y"], {"first": ones(3, 3, 1, 1), **constants})
    result = check(saved(model, tmp_path), Draft(march))
    assert {row.node for row in result.nodes} >= {"Conv_0"}
