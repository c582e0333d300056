"""Infinite and all-zero constants never make a threshold or a result undefined (cases of the toolchain's FAQ)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.ir import MARK_ON, calibration_nodes, to_bytes
from engine.simulate import Session
from tests.engine.optimize.equivalence import build
from tests.properties.stages import MARCHES, Stages

RNG = np.random.default_rng(5)
MAP = (1, 4, 8, 8)
INFINITE = np.float32(-np.inf)
CONSTANTS = {
    "w": RNG.normal(size=(4, 4, 3, 3)).astype(np.float32),
    "no_w": np.zeros((4, 4, 3, 3), np.float32),
    "no_b": np.zeros(4, np.float32),
    "inf": INFINITE,
    "zero": np.float32(0),
    "pick": RNG.random(MAP) > 0.5,
    "mask": np.where(RNG.random((1, 1, 8, 8)) > 0.5, INFINITE, np.float32(0)),
    "channels": np.array([0, INFINITE, 1, 2], np.float32).reshape(1, 4, 1, 1),
    "zeros": np.zeros(MAP, np.float32),
    "more_zeros": np.zeros(MAP, np.float32),
    "four": np.array([4]),
    "eight": np.array([8]),
    "axis": np.array([1]),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
}


def node(op_type: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def conv(source: str, output: str = "y") -> onnx.NodeProto:
    return node("Conv", f"{source} w", output, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


POSITIVE = node("Greater", "c zero", "positive")
SLICED = node("Slice", "k four eight axis", "s")
CASES = {
    "where of minus infinity": [conv("x", "c"), POSITIVE, node("Where", "positive c inf", "m"), node("Exp", "m")],
    "where of minus infinity first": [conv("x", "c"), POSITIVE, node("Where", "positive inf c", "m"), node("Exp", "m")],
    "where of a constant": [conv("x", "c"), node("Where", "pick c inf", "m"), node("Softmax", "m", axis=3)],
    "concat of zeros": [node("Concat", "zeros more_zeros", "k", axis=1), SLICED, node("Add", "x s", "a"), conv("a")],
    "concat with zeros": [conv("x", "c"), node("Concat", "c zeros", "k", axis=1), SLICED, conv("s")],
    "equal that is never true": [
        conv("x", "c"),
        node("Cast", "c", "flags", to=onnx.TensorProto.BOOL),
        node("Not", "flags", "n"),
        node("Cast", "n", "f", to=onnx.TensorProto.FLOAT),
        conv("f"),
    ],
    "convolution of zeros": [
        node("Conv", "x no_w no_b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Sigmoid", "c", "s"),
        node("Mul", "c s", "m"),
        conv("m"),
    ],
    "product with zeros": [conv("x", "c"), node("Tanh", "c", "t"), node("Mul", "t zeros", "m"), conv("m")],
    "attention mask": [conv("x", "c"), node("Add", "c mask", "m"), node("Softmax", "m", axis=3)],
    "difference from a mask": [conv("x", "c"), node("Sub", "mask c", "m"), node("Sigmoid", "m", "s"), conv("s")],
    "infinite channel": [conv("x", "c"), node("Add", "c channels", "m"), node("Sigmoid", "m", "s"), conv("s")],
    "infinite factor": [conv("x", "c"), node("Exp", "c", "e"), node("Mul", "e inf", "m"), node("Sigmoid", "m")],
    "padded maximum": [
        conv("x", "c"),
        node("Pad", "c pads inf", "p"),
        node("MaxPool", "p", "q", kernel_shape=[3, 3], strides=[2, 2]),
        conv("q"),
    ],
}


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize("nodes", CASES.values(), ids=CASES.keys())
def test_stays_defined(nodes: list[onnx.NodeProto], march: str) -> None:
    used = {name for item in nodes for name in item.input}
    model = build(nodes, {"x": MAP}, ["y"], {name: CONSTANTS[name] for name in CONSTANTS if name in used})
    samples = np.random.default_rng(0).normal(size=(4, *MAP[1:])).astype(np.float32)
    stages = Stages(onnx.load_from_string(to_bytes(model)), samples, march)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        expected = Session(stages.source).run({"x": samples})["y"]
        np.testing.assert_allclose(
            Session(stages.optimized).run({"x": samples})["y"], expected, rtol=1e-4, atol=1e-4, equal_nan=False
        )
        for item in calibration_nodes(stages.calibrated):
            thresholds = np.asarray(item.attributes["thresholds"].value)
            assert np.all(np.isfinite(thresholds))
            assert np.all(thresholds > 0)
        quantized = Session(stages.quantized).run({"x": samples})["y"]
    assert np.all(np.isfinite(expected))
    assert np.all(np.isfinite(quantized))


@pytest.mark.parametrize("march", MARCHES)
def test_an_infinite_constant_runs_on_the_cpu(march: str) -> None:
    nodes = [conv("x", "c"), node("Add", "c channels", "m"), node("Sigmoid", "m", "s"), conv("s")]
    model = build(nodes, {"x": MAP}, ["y"], {name: CONSTANTS[name] for name in ("w", "channels")})
    stages = Stages(onnx.load_from_string(to_bytes(model)), np.zeros(MAP, np.float32), march)
    devices = {item.op_type: item.metadata_props.get(MARK_ON) for item in stages.placed.graph}
    assert (devices["Add"], devices["Conv"]) == ("CPU", "BPU")
