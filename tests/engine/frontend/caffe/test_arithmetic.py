"""Layers that compute, against Caffe's definition of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelError, UnsupportedError
from engine.frontend.caffe import arithmetic
from tests.engine.frontend.caffe.networks import (
    SAME,
    Array,
    Converter,
    X,
    check,
    converted,
    convolve,
    forward,
    kinds,
    noise,
    pool,
)


@pytest.mark.parametrize(
    ("fields", "group", "stride", "pad", "dilation"),
    [
        ("kernel_size: 3", 1, 1, 0, 1),
        ("kernel_size: 3 pad: 1 stride: 2", 1, 2, 1, 1),
        ("kernel_h: 3 kernel_w: 3 pad_h: 1 pad_w: 1 group: 4", 4, 1, 1, 1),
        ("kernel_size: 3 kernel_size: 3 dilation: 2 pad: 2 group: 2", 2, 1, 2, 2),
    ],
)
def test_convolution(tmp_path: Path, fields: str, group: int, stride: int, pad: int, dilation: int) -> None:
    weight, bias = noise(8, 4 // group, 3, 3), noise(8)
    layer = f'type: "Convolution" convolution_param {{ num_output: 8 {fields} }}'
    (y,) = forward(tmp_path, layer, [X], [weight, bias])
    check(y, convolve(X, weight, bias, stride, pad, group, dilation))


@pytest.mark.parametrize(("stride", "pad", "group"), [(1, 0, 1), (2, 1, 1), (2, 1, 2)])
def test_deconvolution_is_the_convolutions_transpose(tmp_path: Path, stride: int, pad: int, group: int) -> None:
    """<deconv(x), z> = <x, conv(z)> for every z of the result's shape."""
    weight = noise(4, 6 // group, 4, 4)
    fields = f"num_output: 6 kernel_size: 4 stride: {stride} pad: {pad} group: {group} bias_term: false"
    (y,) = forward(tmp_path, f'type: "Deconvolution" convolution_param {{ {fields} }}', [X], [weight])
    assert y.shape == (2, 6, stride * 6 + 4 - 2 * pad, stride * 8 + 4 - 2 * pad)
    z = noise(*y.shape)
    assert np.vdot(y, z) == pytest.approx(np.vdot(X, convolve(z, weight, None, stride, pad, group)), rel=1e-3, abs=1e-2)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_inner_product(tmp_path: Path, axis: int, transpose: bool) -> None:
    rows = X.reshape(*X.shape[: axis % 4], -1)
    weight, bias = noise(5, rows.shape[-1]), noise(5)
    fields = f"num_output: 5 axis: {axis} transpose: {str(transpose).lower()}"
    blobs = [weight.T if transpose else weight, bias]
    (y,) = forward(tmp_path, f'type: "InnerProduct" inner_product_param {{ {fields} }}', [X], blobs)
    check(y, rows @ weight.T + bias)


@pytest.mark.parametrize("factor", [1.0, 999.98, 0.0])
def test_batch_norm_divides_by_the_scale_factor(tmp_path: Path, factor: float) -> None:
    mean, variance = noise(4), np.abs(noise(4))
    blobs = [mean, variance, np.array([factor], np.float32)]
    (y,) = forward(tmp_path, 'type: "BatchNorm" batch_norm_param { eps: 0.01 }', [X], blobs)
    inverse = 1 / factor if factor else 0.0
    check(y, (X - mean[:, None, None] * inverse) / np.sqrt(variance[:, None, None] * inverse + 0.01))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_scale_factor_beside_nothing_gives_no_warning(tmp_path: Path) -> None:
    """Its inverse is beyond float32; found by ``python -m tests.fuzz caffemodel --seed 1801``."""
    blobs = [np.zeros(4), np.ones(4), np.array([1e-40], np.float32)]
    (y,) = forward(tmp_path, 'type: "BatchNorm" batch_norm_param { eps: 0.01 }', [X], blobs)
    assert y.shape == X.shape


def test_scale(tmp_path: Path) -> None:
    factor, bias = noise(4), noise(4)
    (y,) = forward(tmp_path, 'type: "Scale" scale_param { bias_term: true }', [X], [factor, bias])
    check(y, X * factor[:, None, None] + bias[:, None, None])
    (y,) = forward(tmp_path, 'type: "Scale" scale_param { axis: 1 num_axes: -1 }', [X], [SAME[0]])
    check(y, X * SAME[0])
    other = noise(2, 4)
    (y,) = forward(tmp_path, 'type: "Scale" scale_param { axis: 0 }', [X, other])
    check(y, X * other[:, :, None, None])


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ('type: "ReLU"', np.maximum(X, 0)),
        ('type: "ReLU" relu_param { negative_slope: 0.1 }', np.where(X > 0, X, 0.1 * X)),
        ('type: "ReLU6"', np.clip(X, 0, 6)),
        ('type: "Sigmoid"', 1 / (1 + np.exp(-X))),
        ('type: "TanH"', np.tanh(X)),
        ('type: "Softmax"', np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        ('type: "Softmax" softmax_param { axis: -1 }', np.exp(X) / np.exp(X).sum(-1, keepdims=True)),
        ('type: "Power" power_param { power: 2 scale: 0.5 shift: 1 }', (1 + 0.5 * X) ** 2),
        ('type: "Power"', X),
    ],
)
def test_layers_of_one_bottom(tmp_path: Path, layer: str, expected: Array) -> None:
    (y,) = forward(tmp_path, layer, [X])
    check(y, expected)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ('type: "Eltwise"', X + SAME),
        ('type: "Eltwise" eltwise_param { operation: PROD }', X * SAME),
        ('type: "Eltwise" eltwise_param { operation: MAX }', np.maximum(X, SAME)),
        ('type: "Eltwise" eltwise_param { coeff: 1 coeff: -1 }', X - SAME),
        ('type: "Eltwise" eltwise_param { coeff: 0.5 coeff: 2 }', 0.5 * X + 2 * SAME),
    ],
)
def test_layers_of_two_bottoms(tmp_path: Path, layer: str, expected: Array) -> None:
    (y,) = forward(tmp_path, layer, [X, SAME])
    check(y, expected)


def test_eltwise_of_three(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "Eltwise" eltwise_param { operation: SUM }', [X, SAME, X])
    check(y, 2 * X + SAME)


@pytest.mark.parametrize("shared", [False, True])
def test_prelu(tmp_path: Path, shared: bool) -> None:
    slope = noise(1 if shared else 4)
    (y,) = forward(tmp_path, f'type: "PReLU" prelu_param {{ channel_shared: {str(shared).lower()} }}', [X], [slope])
    check(y, np.where(X > 0, X, X * slope[:, None, None]))


def test_lrn(tmp_path: Path) -> None:
    squares = np.pad(X.astype(np.float64) ** 2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    (y,) = forward(tmp_path, 'type: "LRN" lrn_param { local_size: 3 alpha: 0.6 beta: 0.75 k: 2 }', [X])
    check(y, X / (2 + 0.6 / 3 * sums) ** 0.75)
    fields = "local_size: 3 alpha: 0.6 norm_region: WITHIN_CHANNEL"
    (y,) = forward(tmp_path, f'type: "LRN" lrn_param {{ {fields} }}', [X])
    check(y, X * (1 + 0.6 * pool(X.astype(np.float64) ** 2, 3, 1, 1, average=True)) ** -0.75)


@pytest.mark.parametrize(
    ("converter", "fields", "blobs", "expected"),
    [
        (arithmetic.relu, "", [], ["Relu"]),
        (arithmetic.relu, "relu_param { negative_slope: 0.1 }", [], ["LeakyRelu"]),
        (arithmetic.power, "", [], ["Identity"]),
        (arithmetic.power, "power_param { scale: 2 }", [], ["Mul"]),
        (arithmetic.power, "power_param { shift: 2 power: 3 }", [], ["Add", "Pow"]),
        (arithmetic.scale, "scale_param { bias_term: true }", [np.ones(4), np.ones(4)], ["Mul", "Add"]),
        (arithmetic.inner_product, "inner_product_param { num_output: 2 bias_term: false }", [np.ones((2, 12))], None),
        (arithmetic.lrn, "", [], ["LRN"]),
    ],
)
def test_the_nodes_of_a_layer(
    converter: Converter, fields: str, blobs: list[Array], expected: list[str] | None
) -> None:
    graph, shapes = converted(converter, fields, (2, 4, 3, 1), blobs=blobs)
    assert kinds(graph) == (expected or ["Reshape", "Gemm"])
    assert shapes == [(2, 4, 3, 1) if expected else (2, 2)]


def test_a_vector_needs_no_reshape() -> None:
    graph, shapes = converted(
        arithmetic.inner_product, "inner_product_param { num_output: 5 }", (2, 3), blobs=[np.ones((5, 3)), np.ones(5)]
    )
    assert (kinds(graph), shapes) == (["Gemm"], [(2, 5)])
    assert graph.nodes[0].attributes["transB"].value == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("", ["Add", "Add"]),
        ("eltwise_param { coeff: 1 coeff: 1 coeff: -1 }", ["Mul", "Add", "Add"]),
        ("eltwise_param { operation: MAX }", ["Max", "Max"]),
    ],
)
def test_the_last_of_several_nodes_has_the_layers_name(fields: str, expected: list[str]) -> None:
    graph, _ = converted(arithmetic.eltwise, fields, (1, 2), (1, 2), (1, 2))
    assert kinds(graph) == expected
    assert [node.name for node in graph.nodes].count("l") == 1
    assert graph.nodes[-1].name == "l"


def test_one_less_the_other_is_a_difference() -> None:
    assert kinds(converted(arithmetic.eltwise, "eltwise_param { coeff: 1 coeff: -1 }", (1, 2), (1, 2))[0]) == ["Sub"]


@pytest.mark.parametrize(
    ("converter", "fields", "shapes", "message"),
    [
        (
            arithmetic.convolution,
            "convolution_param { num_output: 2 kernel_size: 0 }",
            [(1, 2, 4, 4)],
            "must be positive",
        ),
        (
            arithmetic.convolution,
            "convolution_param { num_output: 2 kernel_size: 1 axis: 2 }",
            [(1, 2, 4, 4)],
            "allowed is 1",
        ),
        (arithmetic.convolution, "convolution_param { num_output: 2 kernel_size: 1 }", [(1, 2, 4)], "4 dimensions"),
        (
            arithmetic.deconvolution,
            "convolution_param { num_output: 3 kernel_size: 1 group: 2 }",
            [(1, 2, 4, 4)],
            "group 2 must divide 2 input and 3 output",
        ),
        (arithmetic.eltwise, "", [(1, 2), (2, 1)], "its bottoms differ in shape"),
        (arithmetic.eltwise, "eltwise_param { coeff: 1 }", [(1, 2), (1, 2)], "one value for each of the 2 bottoms"),
        (
            arithmetic.eltwise,
            "eltwise_param { operation: PROD coeff: 1 coeff: 1 }",
            [(1, 2), (1, 2)],
            "coeff goes with SUM",
        ),
        (arithmetic.lrn, "lrn_param { local_size: 4 }", [(1, 2, 4, 4)], "local_size 4 must be odd"),
        (arithmetic.scale, "scale_param { num_axes: 4 }", [(1, 2, 4, 4)], "4 axes from axis 1 are more than there are"),
        (arithmetic.scale, "", [(1, 2, 4, 4), (3,)], "does not fit"),
        (arithmetic.prelu, "", [(3,)], "needs 2 dimensions or more"),
        (
            arithmetic.batch_norm,
            "batch_norm_param { use_global_stats: false }",
            [(1, 2)],
            "statistics of the running batch",
        ),
    ],
)
def test_settings_that_are_refused(
    converter: Converter, fields: str, shapes: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=message):
        converted(converter, fields, *shapes)
