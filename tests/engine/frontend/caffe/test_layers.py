"""Every layer type against Caffe's definition of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.engine.frontend.caffe.networks import Array, convolve, forward, pool

RNG = np.random.default_rng(3)


def noise(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def check(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


X = noise(2, 4, 7, 9)
POSITIVE = np.abs(X) + 0.1
SAME = noise(2, 4, 7, 9)


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
        ('type: "Dropout" dropout_param { dropout_ratio: 0.5 }', X),
        ('type: "Softmax"', np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        ('type: "Softmax" softmax_param { axis: -1 }', np.exp(X) / np.exp(X).sum(-1, keepdims=True)),
        ('type: "Power" power_param { power: 2 scale: 0.5 shift: 1 }', (1 + 0.5 * X) ** 2),
        ('type: "Power"', X),
        ('type: "Flatten"', X.reshape(2, -1)),
        ('type: "Flatten" flatten_param { axis: 1 end_axis: 2 }', X.reshape(2, 28, 9)),
        ('type: "Reshape" reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 9 } }', X.reshape(2, 2, 14, 9)),
        ('type: "Reshape" reshape_param { shape { dim: 36 } axis: 1 num_axes: -1 }', None),
        ('type: "Reshape" reshape_param { shape { dim: 3 dim: 3 } axis: 3 }', X.reshape(2, 4, 7, 3, 3)),
        ('type: "Reshape" reshape_param { shape { dim: 1 dim: 1 } axis: -1 }', X.reshape(2, 4, 7, 9, 1, 1)),
        ('type: "Permute" permute_param { order: 0 order: 2 order: 3 order: 1 }', X.transpose(0, 2, 3, 1)),
        ('type: "Permute" permute_param { order: 2 }', X.transpose(2, 0, 1, 3)),
        ('type: "Upsample" upsample_param { scale: 2 }', X.repeat(2, 2).repeat(2, 3)),
        ('type: "Pooling" pooling_param { pool: AVE global_pooling: true }', X.mean((2, 3), keepdims=True)),
        ('type: "Pooling" pooling_param { global_pooling: true }', X.max((2, 3), keepdims=True)),
        ('type: "ArgMax" argmax_param { axis: 1 }', X.argmax(1)[:, None]),
        ('type: "ArgMax" argmax_param { axis: 1 out_max_val: true }', X.max(1, keepdims=True)),
        ('type: "ArgMax" argmax_param { top_k: 3 }', np.argsort(-X.reshape(2, 1, -1), axis=2)[:, :, :3]),
    ],
)
def test_layers_of_one_bottom(tmp_path: Path, layer: str, expected: Array | None) -> None:
    if expected is None:
        from engine.errors import ModelError

        with pytest.raises(ModelError, match="numbers of elements differ"):
            forward(tmp_path, layer, [X])
        return
    (y,) = forward(tmp_path, layer, [X])
    check(y, expected)


def test_arg_max_of_whole_samples_with_values(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "ArgMax" argmax_param { out_max_val: true top_k: 2 }', [X])
    flat = X.reshape(2, -1)
    order = np.argsort(-flat, axis=1)[:, :2]
    check(y, np.stack([order, np.take_along_axis(flat, order, 1)], axis=1).astype(np.float32))


def test_of_equal_values_the_last_is_the_largest(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "ArgMax" argmax_param { axis: 1 }', [np.zeros((1, 5, 2, 2), np.float32)])
    assert (y == 4).all()


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ('type: "Eltwise"', X + SAME),
        ('type: "Eltwise" eltwise_param { operation: PROD }', X * SAME),
        ('type: "Eltwise" eltwise_param { operation: MAX }', np.maximum(X, SAME)),
        ('type: "Eltwise" eltwise_param { coeff: 1 coeff: -1 }', X - SAME),
        ('type: "Eltwise" eltwise_param { coeff: 0.5 coeff: 2 }', 0.5 * X + 2 * SAME),
        ('type: "Concat"', np.concatenate([X, SAME], 1)),
        ('type: "Concat" concat_param { axis: 2 }', np.concatenate([X, SAME], 2)),
        ('type: "Concat" concat_param { concat_dim: 0 }', np.concatenate([X, SAME], 0)),
    ],
)
def test_layers_of_two_bottoms(tmp_path: Path, layer: str, expected: Array) -> None:
    (y,) = forward(tmp_path, layer, [X, SAME])
    check(y, expected)


def test_eltwise_of_three(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "Eltwise" eltwise_param { operation: SUM }', [X, SAME, X])
    check(y, 2 * X + SAME)


def test_crop(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "Crop" crop_param { offset: 1 offset: 2 }', [X, noise(2, 4, 5, 6)])
    check(y, X[:, :, 1:6, 2:8])
    (y,) = forward(tmp_path, 'type: "Crop" crop_param { axis: 3 offset: 2 }', [X, noise(2, 4, 1, 4)])
    check(y, X[..., 2:6])


def test_slice_and_split(tmp_path: Path) -> None:
    first, second = forward(tmp_path, 'type: "Slice"', [X], tops=["a", "b"])
    check(np.concatenate([first, second], 1), X)
    assert first.shape == second.shape
    parts = forward(tmp_path, 'type: "Slice" slice_param { axis: 2 slice_point: 1 slice_point: 5 }', [X], tops="abc")
    for found, expected in zip(parts, np.split(X, [1, 5], axis=2), strict=True):
        check(found, expected)
    for found in forward(tmp_path, 'type: "Split"', [X], tops=["a", "b"]):
        check(found, X)


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
    ("fields", "size"),
    [
        ("zoom_factor: 2", (13, 17)),
        ("shrink_factor: 2", (4, 5)),
        ("height: 3 width: 20", (3, 20)),
        ("zoom_factor: 2 pad_beg: -1 pad_end: -1", (9, 13)),
    ],
)
def test_interp_aligns_corners(tmp_path: Path, fields: str, size: tuple[int, int]) -> None:
    (y,) = forward(tmp_path, f'type: "Interp" interp_param {{ {fields} }}', [X])
    x = (X[:, :, 1:-1, 1:-1] if "pad" in fields else X).astype(np.float64)
    for axis, length in zip((2, 3), size, strict=True):
        place = np.linspace(0, x.shape[axis] - 1, length)
        low = np.minimum(place.astype(int), x.shape[axis] - 2)
        part = (place - low).reshape([-1 if index == axis else 1 for index in range(4)])
        x = x.take(low, axis) * (1 - part) + x.take(low + 1, axis) * part
    check(y, x)


def test_interp_takes_the_size_of_its_second_bottom(tmp_path: Path) -> None:
    (y,) = forward(tmp_path, 'type: "Interp"', [X, noise(1, 1, 13, 17)])
    (factor,) = forward(tmp_path, 'type: "Interp" interp_param { zoom_factor: 2 }', [X])
    check(y, factor)


@given(
    height=st.integers(1, 12),
    width=st.integers(1, 12),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 4),
    pad=st.integers(0, 2),
    average=st.booleans(),
    ceil=st.booleans(),
)
def test_pooling_is_caffes(
    tmp_path_factory: pytest.TempPathFactory,
    height: int,
    width: int,
    kernel: int,
    stride: int,
    pad: int,
    average: bool,
    ceil: bool,
) -> None:
    assume(pad < kernel <= min(height, width) + 2 * pad and stride <= kernel)
    x = np.random.default_rng(height * width).normal(size=(1, 2, height, width)).astype(np.float32)
    fields = f"pool: {'AVE' if average else 'MAX'} kernel_size: {kernel} stride: {stride} pad: {pad}"
    fields += "" if ceil else " round_mode: FLOOR"
    (y,) = forward(tmp_path_factory.mktemp("net"), f'type: "Pooling" pooling_param {{ {fields} }}', [x])
    check(y, pool(x.astype(np.float64), kernel, stride, pad, average, ceil))
