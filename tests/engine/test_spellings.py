"""Spellings of one function that exporters write give one quantised network: operators, thresholds, outputs.

A new spelling is one line. What the original tells apart stands in ``APART``, with the measurement that shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import ArrayLike

from engine.calibrate import CalibrationOptions, StatisticsOptions, calibrate, calibration_tensors, collect
from engine.frontend.onnx import load_onnx
from engine.frontend.preprocess import insert
from engine.ir import calibration_nodes
from engine.optimize import optimize
from engine.place import place
from engine.quantize import quantize
from engine.simulate import Session
from tests.engine.spelled import network

MARCHES = ("bayes-e", "bernoulli2")
SHAPE = (1, 4, 8, 8)
SAMPLES = np.random.default_rng(0).normal(size=(2, *SHAPE[1:])).astype(np.float32)

HEAD = "c = Conv(x, W(8, 4, 3, 3), W(8), pads=[1, 1, 1, 1]); "
"""A convolution of the input to eight channels, which a spelling continues."""
RELU = f"{HEAD}c = Relu(c); "
POOLED = f"{RELU}g = GlobalAveragePool(c); "
TOKENS = f"{RELU}t = Transpose(Reshape(c, [1, 8, 64]), perm=[0, 2, 1]); "
TAIL = "; z = Conv(y, W(4, 8, 1, 1), W(4))"
"""A convolution of what a spelling computes."""

Text = str | tuple[str, int]
"""A spelling, with its opset where that is not 13."""


@dataclass(frozen=True)
class Function:
    """Ways to write one function of ``c``, ``g`` or ``t`` that ``head`` gives, to ``y``."""

    spellings: tuple[Text, ...]
    head: str = RELU
    tail: str = TAIL


def function(*spellings: Text, head: str = RELU, tail: str = TAIL) -> Function:
    return Function(spellings, head, tail)


_NORM = "d = Sub(t, ReduceMean(t, axes=[{axis}])); v = ReduceMean(Pow(d, 2.0), axes=[{axis}]); n = "
_FLOOR = 'coordinate_transformation_mode="asymmetric", nearest_mode="floor"'
_GATE = "Clip(Add(c, 3.0), 0.0, 6.0)"
_ROW = "Gemm({}, W(10, 8), W(10), transB=1)"
_BN = "BatchNormalization(c, Abs(W(8)), W(8), W(8), Abs(W(8)){})"
_SHUFFLE = "y = Reshape(Transpose(Reshape(c, {}), perm=[0, 2, 1, 3, 4]), {})"
_ATTENTION = "q = MatMul(t, W(8, 8)); k = Transpose(MatMul(t, W(8, 8)), perm=[0, 2, 1]); v = MatMul(t, W(8, 8)); "

SAME: Mapping[str, Function] = {
    "relu6": function(
        ("y = Clip(c, min=0.0, max=6.0)", 10),
        "y = Clip(c, 0.0, 6.0)",
        "y = Clip(c, Constant(value_float=0.0), Identity(6.0))",
        "y = Clip(c, Cast(0, to=1), Cast(6, to=1))",
        head=HEAD,
    ),
    "relu": function("y = Relu(c)", "y = Identity(Relu(Identity(c)))", "y = Dropout(Relu(c))", head=HEAD),
    "swish": function(
        "y = Mul(c, Sigmoid(c))", "y = Mul(Sigmoid(c), c)", "y = Mul(c, Sigmoid(Identity(c)))", head=HEAD
    ),
    "mish": function(("y = Mish(c)", 18), "y = Mul(c, Tanh(Softplus(c)))", head=HEAD),
    "hard swish": function(
        ("y = HardSwish(c)", 14),
        "y = Mul(c, HardSigmoid(c, alpha=0.1666666716337204))",
        "y = Mul(HardSigmoid(c, alpha=0.1666666716337204), c)",
        f"y = Mul(c, Div({_GATE}, 6.0))",
        f"y = Div(Mul({_GATE}, c), [6.0])",
        ("y = Div(Mul(c, Clip(Add(3.0, c), min=0.0, max=6.0)), 6.0)", 10),
        f"y = Mul(c, Mul({_GATE}, [0.16666667]))",
        head=HEAD,
    ),
    "gelu": function(
        "y = Mul(Mul(c, Add(Erf(Div(c, 1.4142135381698608)), 1.0)), 0.5)",
        "y = Mul(c, Mul(0.5, Add(1.0, Erf(Mul(c, 0.7071067690849304)))))",
        "y = Mul(Mul(0.5, c), Add(1.0, Erf(Div(c, Sqrt(2.0)))))",
        "y = Mul(0.5, Mul(c, Add(1.0, Erf(Mul(c, Reciprocal(Sqrt(2.0)))))))",
        head=HEAD,
    ),
    "sum with a number": function(
        "y = Add(c, 0.5)",
        "y = Add(0.5, c)",
        "y = Add(c, [[[[0.5]]]])",
        "y = Add(c, Constant(value_float=0.5))",
        "y = Sum(c, 0.5)",
    ),
    # In front of a convolution bernoulli2 adds one number on the CPU, one per channel on the BPU (4 of 4 asked).
    "sum with a number per channel": function(
        "y = Add(c, Expand(0.5, [1, 8, 1, 1]))", "y = Sum(c, Expand(0.5, [1, 8, 1, 1]))"
    ),
    "difference to a number": function(
        "y = Sub(c, 0.5)", "y = Sub(c, [[[[0.5]]]])", "y = Sub(c, Constant(value_float=0.5))"
    ),
    "product with a number": function(
        "y = Mul(c, 0.5)",
        "y = Mul([[[0.5]]], c)",
        "y = Div(c, 2.0)",
        "y = Div(c, [[[[2.0]]]])",
        "y = Mul(c, Reciprocal(2.0))",
    ),
    "a number minus a map": function("y = Sub(1.0, c)", "y = Sub([[[[1.0]]]], c)"),
    "square": function("y = Pow(c, 2.0)", "y = Pow(c, [2.0])", "y = Pow(c, 2)", "y = Pow(c, Cast(2, to=1))"),
    "reciprocal root": function(
        "y = Div(c, Sqrt(Add(c, 1.0)))",
        "y = Mul(c, Reciprocal(Sqrt(Add(c, 1.0))))",
        "y = Mul(c, Div(1.0, Sqrt(Add(1.0, c))))",
    ),
    "global average": function(
        "y = GlobalAveragePool(c)",
        "y = ReduceMean(c, axes=[2, 3])",
        ("y = ReduceMean(c, [2, 3])", 18),
        "y = Reshape(ReduceMean(c, axes=[2, 3], keepdims=0), [1, 8, 1, 1])",
        "y = Unsqueeze(ReduceMean(c, axes=[2, 3], keepdims=0), [2, 3])",
    ),
    "dense layer": function(
        "y = " + _ROW.format("Flatten(g)"),
        "y = " + _ROW.format("Flatten(g, axis=-3)"),
        "y = " + _ROW.format("Reshape(g, [-1, 8])"),
        "y = " + _ROW.format("Reshape(g, [0, -1])"),
        "y = " + _ROW.format("Squeeze(g, [2, 3])"),
        "y = " + _ROW.format("Squeeze(Squeeze(g, [-1]), [-1])"),
        "y = " + _ROW.format("ReduceMean(c, axes=[2, 3], keepdims=0)"),
        "y = " + _ROW.format("Reshape(g, Concat(Gather(Shape(g), [0]), [-1], axis=0))"),
        "y = " + _ROW.format("Dropout(Flatten(g))"),
        "y = Gemm(Flatten(g), Transpose(W(10, 8), perm=[1, 0]), W(10))",
        head=POOLED,
        tail="",
    ),
    "matrix product and sum": function(
        "y = Add(MatMul(Flatten(g), Transpose(W(10, 8))), W(10))",
        "y = Add(W(10), MatMul(Reshape(g, [1, 8]), Transpose(W(10, 8), perm=[1, 0])))",
        head=POOLED,
        tail="",
    ),
    "batch normalisation": function(
        f"y = {_BN.format('')}", (f"y = {_BN.format('')}", 9), (f"y = {_BN.format(', momentum=0.9')}", 15), head=HEAD
    ),
    "padded convolution": function(
        "y = Conv(c, W(8, 8, 3, 3), pads=[1, 1, 1, 1])",
        'y = Conv(c, W(8, 8, 3, 3), auto_pad="SAME_UPPER")',
        'y = Conv(c, W(8, 8, 3, 3), auto_pad="SAME_LOWER")',
        "y = Conv(Pad(c, [0, 0, 1, 1, 0, 0, 1, 1]), W(8, 8, 3, 3))",
        "y = Conv(Pad(Pad(c, [0, 0, 1, 0, 0, 0, 1, 0]), [0, 0, 0, 1, 0, 0, 0, 1], 0.0), W(8, 8, 3, 3))",
        ("y = Conv(Pad(c, pads=[0, 0, 1, 1, 0, 0, 1, 1]), W(8, 8, 3, 3))", 10),
        ("y = Conv(Pad(c, [1, 1, 1, 1], None, [-2, -1]), W(8, 8, 3, 3))", 18),
    ),
    "border": function(
        'y = Pad(c, [0, 0, 1, 1, 0, 0, 1, 1], None, mode="edge")',
        ('y = Pad(c, [1, 1, 1, 1], None, [2, 3], mode="edge")', 18),
        ('y = Pad(c, [1, 1, 1, 1], None, [-1, -2], mode="edge")', 18),
        ('y = Pad(c, pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="edge")', 10),
    ),
    "cut border": function(
        "y = Pad(c, [0, 0, 0, 0, 0, 0, -1, -1])",
        "y = Pad(c, [0, 0, -0, 0, 0, 0, -1, -1], 0.0)",
        ("y = Pad(c, [0, 0, -1, -1], None, [2, 3])", 18),
        ("y = Pad(c, pads=[0, 0, 0, 0, 0, 0, -1, -1])", 10),
    ),
    "averaging window": function(
        "y = AveragePool(c, kernel_shape=[2, 2], strides=[2, 2])",
        "y = AveragePool(c, kernel_shape=[2, 2], strides=[2, 2], count_include_pad=1)",
        "y = AveragePool(c, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)",
        'y = AveragePool(c, kernel_shape=[2, 2], strides=[2, 2], auto_pad="VALID")',
        "y = AveragePool(Pad(c, [0, 0, 0, 0, 0, 0, 0, 0]), kernel_shape=[2, 2], strides=[2, 2])",
        ("y = AveragePool(c, kernel_shape=[2, 2], strides=[2, 2], dilations=[1, 1])", 19),
    ),
    "largest of a window": function(
        "y = MaxPool(c, kernel_shape=[2, 2], strides=[2, 2])",
        "y = MaxPool(c, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)",
        'y = MaxPool(c, kernel_shape=[2, 2], strides=[2, 2], dilations=[1, 1], auto_pad="VALID")',
    ),
    "doubled by copies": function(
        ('y = Upsample(c, [1.0, 1.0, 2.0, 2.0], mode="nearest")', 9),
        ('y = Resize(c, [1.0, 1.0, 2.0, 2.0], mode="nearest")', 10),
        f"y = Resize(c, None, [1.0, 1.0, 2.0, 2.0], {_FLOOR})",
        f"y = Resize(c, None, None, [1, 8, 16, 16], {_FLOOR})",
        (f"y = Resize(c, None, [2.0, 2.0], {_FLOOR}, axes=[2, 3])", 18),
    ),
    "doubled by lines": function(
        'y = Resize(c, None, [1.0, 1.0, 2.0, 2.0], mode="linear")',
        'y = Resize(c, None, None, Concat(Slice(Shape(c), [0], [2]), [16, 16], axis=0), mode="linear")',
    ),
    "without negative numbers": function("y = Relu(c)", "y = Clip(c, 0.0)"),
    "parts": function(
        "a, b = Split(c, axis=1); y = Concat(b, a, axis=1)",
        "a, b = Split(c, [4, 4], axis=-3); y = Concat(b, a, axis=-3)",
        ("a, b = Split(c, axis=1, split=[4, 4]); y = Concat(b, a, axis=1)", 11),
        ("a, b = Split(c, axis=1, num_outputs=2); y = Concat(b, a, axis=1)", 18),
    ),
    "slices": function(
        "y = Concat(Slice(c, [4], [8], [1]), Slice(c, [0], [4], [1]), axis=1)",
        "y = Concat(Slice(c, [-4], [9223372036854775807], [1], [1]), Slice(c, [0], [-4], [-3]), axis=1)",
        "y = Concat(Slice(c, [0, 4], [1, 8]), Slice(Slice(c, [0], [4], [1]), [0], [8], [2]), axis=1)",
        ("y = Concat(Slice(c, starts=[4], ends=[8], axes=[1]), Slice(c, starts=[0], ends=[4], axes=[1]), axis=1)", 9),
        "h = Div(Gather(Shape(c), [1]), [2]); y = Concat(Slice(c, h, [8], [1]), Slice(c, [0], h, [1]), axis=1)",
    ),
    "channel shuffle": function(
        _SHUFFLE.format([1, 2, 4, 8, 8], [1, 8, 8, 8]),
        _SHUFFLE.format([-1, 2, 4, 8, 8], [-1, 8, 8, 8]),
        _SHUFFLE.format([0, 2, -1, 8, 8], [0, -1, 8, 8]),
        _SHUFFLE.format("Concat(Gather(Shape(c), [0]), [2, 4], Slice(Shape(c), [2], [4]), axis=0)", "Shape(c)"),
    ),
    "space to depth": function(
        "y = SpaceToDepth(e, blocksize=2)",
        "y = Reshape(Transpose(Reshape(e, [1, 2, 4, 2, 4, 2]), perm=[0, 3, 5, 1, 2, 4]), [1, 8, 4, 4])",
        "y = Reshape(Transpose(Reshape(e, [0, 2, 4, 2, 4, 2]), perm=[0, 3, 5, 1, 2, 4]), [0, -1, 4, 4])",
        head=f"{RELU}e = Slice(c, [0], [2], [1]); ",
    ),
    "layer normalisation": function(
        _NORM.format(axis=-1) + "Add(Mul(Div(d, Sqrt(Add(v, 0.00001))), W(8)), W(8))",
        _NORM.format(axis=2) + "Add(Mul(W(8), Mul(d, Reciprocal(Sqrt(Add(0.00001, v))))), W(8))",
        _NORM.format(axis=-1) + "Add(Mul(Div(d, Sqrt(Add(v, Expand(0.00001, [1])))), W(8)), W(8))",
        ("n = LayerNormalization(t, W(8), W(8), axis=-1)", 17),
        ("n = LayerNormalization(t, W(8), W(8), axis=2, epsilon=0.00001)", 17),
        head=TOKENS,
        tail="; y = MatMul(n, W(8, 8))",
    ),
    "attention": function(
        _ATTENTION + "y = MatMul(Softmax(Mul(MatMul(q, k), 0.35), axis=-1), v)",
        _ATTENTION + "y = MatMul(Softmax(Mul(0.35, MatMul(q, k)), axis=2), v)",
        _ATTENTION + "y = MatMul(Dropout(Softmax(Div(MatMul(q, k), 2.857142857142857))), v)",
        head=TOKENS,
        tail="",
    ),
    "residual": function(
        "d = Conv(c, W(8, 8, 1, 1), W(8)); y = Relu(Add(d, c))",
        "d = Conv(c, W(8, 8, 1, 1), W(8)); y = Relu(Add(c, d))",
        "d = Conv(c, W(8, 8, 1, 1), W(8)); y = Relu(Sum(d, Dropout(c)))",
    ),
    "gate of channels": function(
        "y = Mul(c, Sigmoid(Conv(g, W(8, 8, 1, 1), W(8))))",
        "y = Mul(Sigmoid(Conv(g, W(8, 8, 1, 1), W(8))), c)",
        head=POOLED,
    ),
    "where": function("y = Where(Greater(c, 0.5), c, 0.0)", "y = Where(Greater(c, [0.5]), c, [[[[0.0]]]])"),
}

APART: Mapping[str, tuple[str, str, str]] = {
    "one limit": ("y = Clip(c, 0.0, 6.0)", "y = Clip(c, None, 6.0)", "operators.csv, Clip max only: a table"),
    "one slope": ("y = LeakyRelu(c, alpha=0.1)", "y = PRelu(c, [0.1])", "golden conversions act_LeakyRelu, act_prelu"),
    "maximum": ("y = Relu(c)", "y = Max(c, 0.0)", "operators.csv, Max const"),
    "averages of 8 x 8": (
        "y = GlobalAveragePool(c)",
        "y = AveragePool(c, kernel_shape=[8, 8])",
        "operators.csv, AveragePool global 16x16",
    ),
    "repeated pixels": ("y = Add(c, Expand(g, [1, 8, 8, 8]))", "y = Add(c, g)", "operators.csv, Tile HW x2"),
    "negation": ("y = Mul(c, -1.0)", "y = Neg(c)", "golden conversion act_Neg"),
}
"""Two spellings, and what shows that the original makes different operators of them."""


@dataclass(frozen=True)
class Form:
    """What a network becomes.

    Attributes:
        operators: of the quantised model, how often each.
        thresholds: of activations, sorted.
        outputs: of the quantised model on the samples.
    """

    operators: Counter[str]
    thresholds: tuple[float, ...]
    outputs: tuple[np.ndarray, ...]


def form(text: Text, head: str, tail: str, march: str, folder: Path) -> Form:
    body, opset = text if isinstance(text, tuple) else (text, 13)
    onnx.save(network(head + body + tail, opset, SHAPE), folder / "source.onnx")
    optimized = optimize(insert(load_onnx(folder / "source.onnx"), ()), march)
    placed = place(optimized, march).model
    options = CalibrationOptions()
    statistics = collect(optimized, calibration_tensors(placed), {"x": SAMPLES}, StatisticsOptions.covering([options]))
    calibrated = calibrate(placed, statistics, options)
    quantized = quantize(calibrated, march)
    thresholds = [node.attributes["thresholds"].as_floats() for node in calibration_nodes(calibrated)]
    feed = {str(quantized.graph.inputs[0].name): SAMPLES[:1]}
    return Form(
        Counter(node.op_type for node in quantized.graph),
        tuple(sorted(values[0] for values in thresholds if len(values) == 1)),
        tuple(Session(quantized).run(feed).values()),
    )


def differences(first: Form, second: Form) -> list[str]:
    """What distinguishes two forms."""
    found = []
    if first.operators != second.operators:
        found.append(f"operators: {first.operators - second.operators} | {second.operators - first.operators}")
    if not _close(first.thresholds, second.thresholds):
        found.append(f"thresholds: {first.thresholds} | {second.thresholds}")
    if len(first.outputs) != len(second.outputs) or not all(map(_close, first.outputs, second.outputs)):
        found.append("outputs")
    return found


def _close(first: ArrayLike, second: ArrayLike) -> bool:
    """Equal up to float rounding."""
    if np.shape(first) != np.shape(second):
        return False
    return np.allclose(first, second, rtol=1e-5, atol=1e-5 * float(np.max(np.abs(first), initial=0.0)))


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize("name", SAME)
def test_spellings_of_a_function_give_one_network(name: str, march: str, tmp_path: Path) -> None:
    wanted = SAME[name]
    forms = [form(text, wanted.head, wanted.tail, march, tmp_path) for text in wanted.spellings]
    found = {str(text): differences(forms[0], other) for text, other in zip(wanted.spellings, forms, strict=True)}
    assert {text: parts for text, parts in found.items() if parts} == {}


@pytest.mark.parametrize("march", ["bayes-e", "bayes"])
def test_one_number_is_one_per_channel_but_on_bernoulli2(march: str, tmp_path: Path) -> None:
    texts = ("y = Add(c, 0.5)", "y = Add(c, Expand(0.5, [1, 8, 1, 1]))")
    one, other = (form(text, RELU, TAIL, march, tmp_path) for text in texts)
    assert not differences(one, other)


@pytest.mark.parametrize("name", APART)
def test_what_the_original_tells_apart_stays_apart(name: str, tmp_path: Path) -> None:
    first, second, shown_by = APART[name]
    forms = [form(text, f"{HEAD}g = GlobalAveragePool(c); ", TAIL, "bayes-e", tmp_path) for text in (first, second)]
    assert forms[0].operators != forms[1].operators, shown_by
