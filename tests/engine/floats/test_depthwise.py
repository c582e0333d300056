"""Depthwise convolutions in the compiled loops give ONNX Runtime's own bits, whatever their geometry."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hypothesis import given, strategies
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.floats import depthwise
from engine.floats.chained import ChainedRunner
from engine.floats.depthwise import DepthwiseNode, extract_depthwise, is_depthwise
from engine.floats.float_model import FloatSession, Kernels
from engine.floats.fused import fused

Floats = NDArray[np.float32]


def network(
    kernel: tuple[int, int] = (3, 3),
    *,
    size: tuple[int, int] = (112, 112),
    channels: int = 16,
    activation: str | None = "Clip",
    bias: bool = True,
    fetched: bool = False,
    **attributes: object,
) -> onnx.ModelProto:
    """A 1x1 convolution, a depthwise one with its activation, and a 1x1 convolution."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (channels, 3, 1, 1), "w1": (channels, 1, *kernel), "b1": (channels,), "w2": (4, channels, 1, 1)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    inputs = ["c0", "w1", "b1"] if bias else ["c0", "w1"]
    last = "a1" if activation else "c1"
    bounds = {"min": -1.0, "max": 2.5} if activation == "Clip" else {}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], "first"),
        helper.make_node("Conv", inputs, ["c1"], "depthwise", group=channels, **attributes),
        *([helper.make_node(activation, ["c1"], ["a1"], "activation", **bounds)] if activation else []),
        helper.make_node("Conv", [last, "w2"], ["y"], "last"),
    ]
    names = ["y", "c1"] if fetched else ["y"]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, *size))
    graph = helper.make_graph(nodes, "g", [source], ends, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def runtime(model: onnx.ModelProto, feed: Floats) -> list[Floats]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": sample[np.newaxis]}) for sample in feed]


def check(model: onnx.ModelProto, samples: int = 3) -> None:
    size = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim][1:]
    feed = np.random.default_rng(1).standard_normal((samples, *size)).astype(np.float32)
    extracted = ir.from_proto(model)
    assert extract_depthwise(extracted)
    session = FloatSession(ir.from_proto(model), kernels=Kernels.PLAIN)
    assert isinstance(session._session, ChainedRunner)
    actual = session.run({"x": feed})
    seen: dict[str, list[bytes]] = {name: [] for name in actual}
    session.visit({"x": feed}, lambda _, name, array: seen[name].append(array.tobytes()))
    for name, array in actual.items():
        assert sorted(seen[name]) == sorted(row.tobytes() for row in array)
    for index, expected in enumerate(runtime(model, feed)):
        for name, array in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(actual[name][index : index + 1], array)


@pytest.mark.parametrize("activation", [None, "Clip", "Relu"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("fetched", [False, True])
def test_activation_and_bias_belong_to_the_node(activation: str | None, bias: bool, fetched: bool) -> None:
    model = network(activation=activation, bias=bias, fetched=fetched, pads=[1, 1, 1, 1])
    check(model)
    extracted = ir.from_proto(model)
    extract_depthwise(extracted)
    left = [node.op_type for node in extracted.graph]
    assert left == ["Conv", depthwise.OP, *([activation] if activation and fetched else []), "Conv"]


@given(
    kernel=strategies.sampled_from([(3, 3), (5, 5), (7, 7), (1, 9), (9, 1), (3, 11)]),
    strides=strategies.tuples(strategies.integers(1, 3), strategies.integers(1, 3)),
    dilations=strategies.tuples(strategies.integers(1, 3), strategies.integers(1, 3)),
    pads=strategies.lists(strategies.integers(0, 6), min_size=4, max_size=4),
    size=strategies.tuples(strategies.integers(33, 70), strategies.integers(33, 70)),
)
def test_any_geometry(
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: list[int],
    size: tuple[int, int],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depthwise, "WORTHWHILE", 1)
        check(network(kernel, size=size, channels=5, strides=strides, dilations=dilations, pads=pads), samples=2)


@pytest.mark.parametrize(
    "model",
    [
        network((3, 3), size=(20, 20), channels=2),  # too little work
        network((2, 2)),  # taps that do not end a group of eight with one
        network((3, 3), auto_pad="SAME_UPPER"),
    ],
)
def test_what_is_left_to_the_runtime(model: onnx.ModelProto) -> None:
    loaded = ir.from_proto(model)
    assert not extract_depthwise(loaded)
    assert not any(map(is_depthwise, loaded.graph))


def test_a_machine_with_another_order_of_sums_keeps_its_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DepthwiseNode, "__call__", lambda self, source, result: result.fill(0))
    depthwise._is_reproduced.cache_clear()
    try:
        assert not extract_depthwise(ir.from_proto(network()))
    finally:
        depthwise._is_reproduced.cache_clear()


@pytest.mark.parametrize(("side", "stride"), [(7, 2), (7, 1), (5, 2)])
def test_two_results_a_channel_are_sums_in_order(side: int, stride: int) -> None:
    """Also of the window for which ONNX Runtime has another kernel: one multiply-add after the other, the bias last."""
    rng, groups, size = np.random.default_rng(0), 4, 16
    weight = rng.standard_normal((2 * groups, 1, side, side), np.float32)
    bias = rng.standard_normal(2 * groups, np.float32)
    source = rng.standard_normal((1, groups, size, size), np.float32)
    pad, rows = side // 2, (size - 1) // stride + 1
    conv = helper.make_node(
        "Conv",
        ["x", "w", "b"],
        ["y"],
        "conv",
        kernel_shape=[side] * 2,
        strides=[stride] * 2,
        pads=[pad] * 4,
        group=groups,
    )
    graph = helper.make_graph(
        [conv],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, source.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2 * groups, rows, rows))],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    found = FloatSession(ir.from_proto(proto), kernels=Kernels.PLAIN, max_batch=1).run({"x": source})["y"]
    padded = np.pad(source, ((0, 0), (0, 0), (pad, pad), (pad, pad))).repeat(2, axis=1)
    total = np.zeros_like(found)
    for row, column in np.ndindex(side, side):
        seen = padded[:, :, row : row + stride * rows : stride, column : column + stride * rows : stride][
            ..., :rows, :rows
        ]
        total = fused(seen, np.broadcast_to(weight[:, 0, row, column, None, None], seen.shape).copy(), total)
    np.testing.assert_array_equal(found, total + bias[:, None, None])
