"""Layers of elementary operators, against Caffe's definition of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelError
from engine.frontend.caffe import CONVERTERS, elementary
from tests.engine.frontend.caffe.networks import Array, X, check, forward, noise, pool

SMALL = np.clip(X, -2, 2)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("layer", "x", "expected"),
    [
        ('type: "AbsVal"', X, np.abs(X)),
        ('type: "ELU" elu_param { alpha: 0.5 }', X, np.where(X > 0, X, 0.5 * np.expm1(np.minimum(X, 0)))),
        ('type: "Swish"', X, X * sigmoid(X)),
        ('type: "Swish" swish_param { beta: 2 }', X, X * sigmoid(2 * X)),
        ('type: "Clip" clip_param { min: -0.5 max: 1 }', X, np.clip(X, -0.5, 1)),
        ('type: "Exp"', SMALL, np.exp(SMALL)),
        ('type: "Exp" exp_param { base: 2 scale: 3 shift: 1 }', SMALL, 2.0 ** (1 + 3 * SMALL)),
        ('type: "Log" log_param { shift: 3 }', SMALL, np.log(SMALL + 3)),
        ('type: "Log" log_param { base: 10 scale: 2 shift: 5 }', SMALL, np.log10(2 * SMALL + 5)),
        ('type: "BNLL"', X, np.log1p(np.exp(X))),
        ('type: "Threshold" threshold_param { threshold: 0.25 }', X, (X > 0.25).astype(np.float32)),
        ('type: "Reduction"', X, X.sum().reshape(1)),
        ('type: "Reduction" reduction_param { operation: ASUM axis: 1 coeff: 0.5 }', X, 0.5 * np.abs(X).sum((1, 2, 3))),
        ('type: "Reduction" reduction_param { operation: SUMSQ axis: -1 }', X, (X**2).sum(3)),
        ('type: "Reduction" reduction_param { operation: MEAN axis: 2 }', X, X.mean((2, 3))),
        ('type: "Tile" tile_param { axis: 2 tiles: 3 }', X, np.tile(X, (1, 1, 3, 1))),
    ],
)
def test_functions_and_reductions(tmp_path: Path, layer: str, x: Array, expected: Array) -> None:
    (y,) = forward(tmp_path, layer, [x])
    check(y, np.asarray(expected, np.float32))


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_mvn_adds_eps_to_the_deviation(tmp_path: Path, across: bool, scaled: bool) -> None:
    axes = (1, 2, 3) if across else (2, 3)
    centred = X - X.mean(axes, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axes, keepdims=True)) + 0.5
    words = f"across_channels: {str(across).lower()} normalize_variance: {str(scaled).lower()} eps: 0.5"
    (y,) = forward(tmp_path, f'type: "MVN" mvn_param {{ {words} }}', [X])
    check(y, centred / deviation if scaled else centred)


def test_bias_is_learned_or_the_second_bottom(tmp_path: Path) -> None:
    bias = noise(4)
    (y,) = forward(tmp_path, 'type: "Bias"', [X], [bias])
    check(y, X + bias[:, np.newaxis, np.newaxis])
    (y,) = forward(tmp_path, 'type: "Bias"', [X, bias])
    check(y, X + bias[:, np.newaxis, np.newaxis])
    plane = noise(*X.shape[2:])
    (y,) = forward(tmp_path, 'type: "Bias" bias_param { axis: 2 num_axes: -1 }', [X], [plane])
    check(y, X + plane)


@pytest.mark.parametrize("across", [False, True])
def test_normalize_of_ssd(tmp_path: Path, across: bool) -> None:
    scale = np.abs(noise(4)) + 1
    words = f"across_spatial: {str(across).lower()} channel_shared: false eps: 0.1"
    (y,) = forward(tmp_path, f'type: "Normalize" norm_param {{ {words} }}', [X], [scale])
    norm = np.sqrt((X**2).sum((1, 2, 3) if across else 1, keepdims=True) + 0.1)
    check(y, X / norm * scale[:, np.newaxis, np.newaxis])


@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 1, 1)])
def test_axpy(tmp_path: Path, shape: tuple[int, ...]) -> None:
    factors, other = noise(*shape), noise(*X.shape)
    (y,) = forward(tmp_path, 'type: "Axpy"', [factors, X, other])
    check(y, factors.reshape(2, 4, 1, 1) * X + other)


@pytest.mark.parametrize("average", [False, True])
def test_a_spatial_pyramid_is_its_levels_one_behind_the_other(tmp_path: Path, average: bool) -> None:
    x = noise(2, 3, 8, 8)
    kind = "AVE" if average else "MAX"
    (y,) = forward(tmp_path, f'type: "SPP" spp_param {{ pyramid_height: 3 pool: {kind} }}', [x])
    levels = [pool(x, 8 // bins, 8 // bins, 0, average).reshape(2, -1) for bins in (1, 2, 4)]
    check(y, np.concatenate(levels, axis=1))


def test_windows_of_a_pyramid_cover_maps_that_do_not_divide(tmp_path: Path) -> None:
    x = noise(1, 2, 7, 7)
    (y,) = forward(tmp_path, 'type: "SPP" spp_param { pyramid_height: 2 }', [x])
    # 2 bins of 4 pixels, one of them padding in front
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0), (1, 0)], constant_values=-np.inf)
    fine = padded.reshape(1, 2, 2, 4, 2, 4).max((3, 5))
    check(y, np.concatenate([x.max((2, 3)), fine.reshape(1, -1)], axis=1))


@pytest.mark.parametrize(
    ("layer", "inputs", "message"),
    [
        ('type: "Clip" clip_param { min: 0 }', 1, "clip_param needs min and max"),
        ('type: "Exp" exp_param { base: -2 }', 1, "base -2.0 must be positive, or -1 for e"),
        ('type: "Tile"', 1, "tiles must be positive"),
        ('type: "Axpy"', 2, "2 bottoms, needed are 3"),
        ('type: "Bias" bias_param { num_axes: 9 }', 1, "9 axes from axis 1 are more than there are"),
    ],
)
def test_wrong_settings(tmp_path: Path, layer: str, inputs: int, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        forward(tmp_path, layer, [X] * inputs)


def test_every_layer_is_registered() -> None:
    own = [item for name, item in vars(elementary).items() if not name.startswith("_") and callable(item)]
    converters = {item for item in own if getattr(item, "__module__", "") == elementary.__name__}
    assert converters
    assert converters <= set(CONVERTERS.values())
