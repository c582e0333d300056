"""Pooling, against Caffe's loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.errors import ModelError, UnsupportedError
from engine.frontend.caffe.pooling import pooling
from tests.engine.frontend.caffe.networks import (
    Array,
    X,
    check,
    converted,
    forward,
    kinds,
    pool,
)


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


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ('type: "Pooling" pooling_param { pool: AVE global_pooling: true }', X.mean((2, 3), keepdims=True)),
        ('type: "Pooling" pooling_param { global_pooling: true }', X.max((2, 3), keepdims=True)),
    ],
)
def test_pooling_of_the_whole_map(tmp_path: Path, layer: str, expected: Array) -> None:
    (y,) = forward(tmp_path, layer, [X])
    check(y, expected)


def pooled(fields: str, *sides: int) -> tuple[list[str], dict[str, object], tuple[int, ...]]:
    """Kinds of nodes, attributes of the last, and the shape of the result."""
    graph, (shape,) = converted(pooling, f"pooling_param {{ {fields} }}", (1, 1, *sides))
    last = graph.nodes[-1]
    return kinds(graph), {name: last.attributes[name].value for name in last.attributes}, shape


def test_windows_overhang_the_far_edge_by_default() -> None:
    _, attributes, shape = pooled("kernel_size: 2 stride: 2", 5, 4)
    assert (shape, list(attributes["pads"])) == ((1, 1, 3, 2), [0, 0, 1, 0])
    assert pooled("kernel_size: 2 stride: 2 round_mode: FLOOR", 5, 4)[2] == (1, 1, 2, 2)


def test_with_padding_a_window_that_would_begin_beyond_the_map_is_dropped() -> None:
    assert pooled("kernel_size: 2 stride: 2 pad: 1", 3, 3)[2] == (1, 1, 2, 2)


def test_an_average_counts_padding_and_not_what_overhangs() -> None:
    kinds_, attributes, _ = pooled("pool: AVE kernel_size: 3 stride: 2 pad: 1", 5, 5)
    assert (kinds_, attributes["count_include_pad"]) == (["AveragePool"], 1)
    kinds_, attributes, _ = pooled("pool: AVE kernel_size: 3 stride: 2 pad: 1", 6, 6)
    assert (kinds_, attributes["count_include_pad"]) == (["Pad", "AveragePool"], 0)
    assert list(attributes["pads"]) == [0, 0, 1, 1]
    kinds_, attributes, _ = pooled("pool: AVE kernel_size: 2 stride: 2", 5, 5)
    assert (kinds_, attributes["count_include_pad"]) == (["AveragePool"], 0)


@pytest.mark.parametrize(
    ("fields", "tops", "message"),
    [
        ("pool: STOCHASTIC kernel_size: 2", 1, "stochastic pooling"),
        ("kernel_size: 2", 2, "a mask as second top"),
        ("kernel_size: 2 pad: 2", 1, "pad .* less than kernel"),
        ("kernel_size: 2 stride: 0", 1, "must be positive"),
        ("kernel_size: 6", 1, "a window lies outside the map of 4x4"),
        ("kernel_size: 2 kernel_h: 2 kernel_w: 2", 1, "both for all sides and for single ones"),
    ],
)
def test_settings_that_are_refused(fields: str, tops: int, message: str) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=message):
        converted(pooling, f"pooling_param {{ {fields} }}", (1, 1, 4, 4), tops=tops)
