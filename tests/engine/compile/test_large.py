"""Convolutions of large windows in steps."""

from __future__ import annotations

import pytest

from engine.chips.latency import load_latency
from engine.compile.large import window_bytes, window_us
from engine.compile.layers import Layer
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import layer


def patches(size: int, channels: int, kernel: int, stride: int = 4) -> Layer:
    results = (size - kernel) // stride + 1
    shapes = (1, results, results, 16), (1, size, size, channels)
    return layer(CostKind.CONV, *shapes, kernel=(kernel, kernel), strides=(stride, stride), macs=1)


@pytest.mark.parametrize(
    ("size", "channels", "kernel", "stored"),
    [(48, 8, 10, 36864), (48, 8, 12, 36864), (48, 16, 11, 73728), (64, 4, 11, 49152), (64, 12, 11, 114688)],
)
def test_maps_pass_as_they_are_and_folded(size: int, channels: int, kernel: int, stored: int) -> None:
    """Asked on bayes-e: exact; on bayes they pass row by row in vectors, within an eighth."""
    assert window_bytes(patches(size, channels, kernel), load_latency("bayes-e")) == stored


@pytest.mark.parametrize(
    ("size", "channels", "kernel", "stored"), [(48, 8, 11, 16128), (48, 16, 11, 32256), (64, 4, 11, 18432)]
)
def test_maps_pass_row_by_row_on_bayes(size: int, channels: int, kernel: int, stored: int) -> None:
    assert window_bytes(patches(size, channels, kernel), load_latency("bayes")) == pytest.approx(stored, rel=0.15)


def test_what_is_not_folded() -> None:
    """Windows of up to nine, and in steps of one pixel; on bayes-e larger ones than 12 stay on the chip."""
    latency = load_latency("bayes-e")
    small, dense, large = patches(48, 8, 9), patches(48, 8, 12, stride=1), patches(48, 8, 16)
    assert [window_bytes(each, latency) for each in (small, dense, large)] == [0, 0, 0]
    assert window_us(small, latency) == window_us(dense, latency) == window_us(patches(48, 8, 12), latency) == 0
    assert window_us(large, latency) == pytest.approx(5.2, rel=0.05)
    assert window_bytes(large, load_latency("bayes")) > 0
    assert window_bytes(patches(48, 8, 11), load_latency("bernoulli2")) == 0
