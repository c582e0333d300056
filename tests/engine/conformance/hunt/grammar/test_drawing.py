"""Shapes that are known while a network grows, and spellings of its operator set."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from engine.conformance.hunt.grammar.drawing import Drawing
from tests.engine.conformance.hunt.grammar.running import drawing, operators, output_of


def of_opset(opset: int, *shape: int) -> Drawing:
    return next(net for seed in range(30) if (net := drawing(seed, *shape)).opset == opset)


@pytest.mark.parametrize("opset", [10, 11])
def test_bounds_pads_and_sizes_are_spelled_for_the_operator_set(opset: int) -> None:
    net = of_opset(opset)
    clipped = net.clip("x", -0.5, 0.5)
    padded = net.pad("x", 1, 0, 2, 3, value=2.0)
    enlarged = net.resize("x", 24, 36)
    odd = net.resize("x", 17, 19)
    values, around, larger, _ = output_of(net, clipped, padded, enlarged, odd)
    x = net.data()["x"][0]
    assert np.array_equal(values, np.clip(x, -0.5, 0.5))
    expected = np.pad(x, ((0, 0), (0, 0), (0, 3), (1, 2)), constant_values=2.0)
    assert np.array_equal(around, expected)
    assert np.array_equal(larger, x.repeat(2, 2).repeat(3, 3))
    assert net.dims(odd) == (1, 8, 17, 19)
    (clip,) = (node for node in net.model().graph.node if node.op_type == "Clip")
    assert len(clip.input) == (1 if opset == 10 else 3)


@pytest.mark.parametrize("kind", ["silu", "hard_swish", "relu6", "gelu", "mish"])
def test_activations_compute_what_they_are_called(kind: str) -> None:
    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    known: dict[str, Callable[[float], float]] = {
        "silu": lambda x: x * sigmoid(x),
        "hard_swish": lambda x: x * min(max(x / 6 + 0.5, 0), 1),
        "relu6": lambda x: min(max(x, 0), 6),
        "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
        "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    }
    expected = known[kind]
    for seed in range(4):
        net = drawing(seed)
        (found,) = output_of(net, net.activate("x", kind))
        wanted = [expected(float(value)) for value in net.data()["x"][0].ravel()]
        assert found.ravel() == pytest.approx(np.array(wanted), abs=2e-3), f"seed {seed}"


def test_a_softmax_of_any_axis_adds_up_to_one() -> None:
    net = drawing(1)
    found = output_of(net, net.softmax("x", 1), net.softmax("x", 2), net.softmax("x", 3))
    for axis, array in enumerate(found, 1):
        assert array.sum(axis) == pytest.approx(np.ones_like(array.sum(axis)), abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_normalisations_normalise(seed: int) -> None:
    net = drawing(seed)
    last, grouped = output_of(net, net.norm_last("x"), net.group_norm("x", 2))
    assert last.shape == grouped.shape == (1, 8, 12, 12)
    assert np.abs(last).max() < 12
    assert np.abs(grouped).max() < 25


def test_parts_of_a_division_are_the_parts() -> None:
    for seed in range(6):  # by a Split or by Slices
        net = drawing(seed)
        first, second = output_of(net, *net.divide("x", 3, 5))
        x = net.data()["x"][0]
        assert np.array_equal(first, x[:, :3])
        assert np.array_equal(second, x[:, 3:])


def test_tokens_and_image_are_inverse() -> None:
    net = drawing(2)
    tokens = net.tokens("x")
    assert net.dims(tokens) == (1, 144, 8)
    (image,) = output_of(net, net.image(tokens, 12, 12))
    assert np.array_equal(image, net.data()["x"][0])


def test_nodes_that_lead_nowhere_are_left_out() -> None:
    net = drawing(3)
    net.layer("x", 4)
    net.output(net.op("Abs", "x"))
    assert operators(net) == ["Abs"]
    assert not net.model().graph.initializer


def test_the_seed_decides_everything() -> None:
    def made(seed: int) -> bytes:
        net = drawing(seed)
        net.output(net.layer("x", 4))
        return net.model().SerializeToString() + net.samples().tobytes()

    assert made(1) == made(1)
    assert made(1) != made(2)
