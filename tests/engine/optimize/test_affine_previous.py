"""Batch normalisation and arithmetic with constants, folded into convolutions before them."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ir import MARK_SHARED
from engine.optimize.affine_previous import FoldAffineIntoPrevious
from engine.terms import Compatibility
from tests.engine.optimize.equivalence import build, census, optimized
from tests.engine.optimize.networks import MAP, conv_then, node, normal


@pytest.mark.parametrize("bias", [True, False])
def test_batch_normalisation_is_folded(bias: bool) -> None:
    parameters = {"g": normal(6), "h": normal(6), "m": normal(6), "v": np.abs(normal(6)) + 0.1}
    after = optimized(conv_then(node("BatchNormalization", "c g h m v", epsilon=1e-3), bias=bias, **parameters))
    (conv,) = after.graph
    assert conv.name == "conv"
    assert conv.inputs[2].name == ("b" if bias else "conv_hz_bias")


@pytest.mark.parametrize("axis", [1, -3])
def test_batch_normalisation_of_joined_convolutions_is_folded_into_each(axis: int) -> None:
    """The blocks of YOLOv5 2.0 (published log)."""
    nodes = [
        node("Conv", "x w", "c", name="first"),
        node("Conv", "x u e", "d", name="second"),
        node("Concat", "c d", "j", axis=axis),
        node("BatchNormalization", "j g h m v", "n"),
        node("LeakyRelu", "n", "y", alpha=0.1),
    ]
    parameters = {name: np.abs(normal(8)) + 0.1 for name in "ghmv"}
    constants = {"w": normal(2, 4, 1, 1), "u": normal(6, 4, 1, 1), "e": normal(6), **parameters}
    after = optimized(build(nodes, MAP, ["y"], constants))
    assert census(after) == {"Conv": 2, "Concat": 1, "LeakyRelu": 1}
    assert [conv.inputs[2].name for conv in list(after.graph)[:2]] == ["first_hz_bias", "e"]


@pytest.mark.parametrize("also", ["x", "c"])
def test_batch_normalisation_of_other_joined_channels_stays(also: str) -> None:
    """The input of a network joins in, or a convolution that something else reads too (``densenet``)."""
    nodes = [
        node("Conv", "x w", "c", name="first"),
        node("Conv", "x w", "d", name="second"),
        node("Concat", f"d {also}", "j", axis=1),
        node("BatchNormalization", "j g h m v", "n", name="norm"),
        node("Sigmoid", "n", "y"),
        *([node("Sigmoid", "c", "z")] if also == "c" else []),
    ]
    parameters = {name: np.abs(normal(8)) + 0.1 for name in "ghmv"}
    after = optimized(
        build(
            nodes[1:] if also == "x" else nodes,
            MAP,
            ["y", "z"][: 1 + (also == "c")],
            {"w": normal(4, 4, 1, 1), **parameters},
        )
    )
    assert "UNIT_CONV_FOR_norm" in {each.name for each in after.graph}


@pytest.mark.parametrize("shape", [(), (1,), (6, 1, 1), (1, 6, 1, 1)])
@pytest.mark.parametrize(
    "arithmetic",
    [
        ("Add", "c k"),
        ("Add", "k c"),
        ("Sub", "c k"),
        ("Mul", "c k"),
        ("Mul", "k c"),
        ("Div", "c k"),
    ],
)
def test_arithmetic_with_channel_constants_is_folded(arithmetic: tuple[str, str], shape: tuple[int, ...]) -> None:
    op_type, inputs = arithmetic
    constant = (
        np.full(shape, 1.7, np.float32)
        if len(shape) != 3 and len(shape) != 4
        else np.broadcast_to(normal(6, 1, 1) + 3, shape).astype(np.float32)
    )
    assert census(optimized(conv_then(node(op_type, inputs), k=constant))) == {"Conv": 1}


def test_shared_weights_and_shared_results_are_respected() -> None:
    nodes = [
        node("Conv", "x w", "a", name="first"),
        node("Mul", "a k", "am"),
        node("Conv", "x w", "b", name="second"),
        node("Mul", "b k", "bm"),
        node("Concat", "am b bm", axis=1),
    ]
    before = build(nodes, MAP, ["y"], {"w": normal(6, 4, 1, 1), "k": normal(6, 1, 1)})
    after = optimized(before, compatibility=Compatibility.CLEAN)
    assert census(after) == {"Conv": 3, "Concat": 1}


@pytest.mark.parametrize(("compatibility", "factors"), [("original", (3.0, 3.0)), ("clean", (2.0, 1.5))])
def test_factors_of_convolutions_that_share_a_weight_are_multiplied(
    compatibility: str, factors: tuple[float, float]
) -> None:
    """The original multiplies the shared weight by both; each convolution that has another's factor is marked."""
    weight = normal(4, 3, 1, 1)
    nodes = [
        node("Conv", "x w", "a"),
        node("Mul", "a two", "y0"),
        node("Conv", "z w", "b"),
        node("Mul", "b half", "y1"),
    ]
    constants = {"w": weight, "two": np.float32(2), "half": np.float32(1.5)}
    model = build(nodes, {"x": (1, 3, 4, 4), "z": (1, 3, 2, 2)}, ["y0", "y1"], constants)
    after = FoldAffineIntoPrevious(Compatibility(compatibility))(model).model
    assert census(after) == {"Conv": 2}
    for conv, factor in zip(after.graph, factors, strict=True):
        np.testing.assert_allclose(conv.inputs[1].const_value.numpy(), weight * factor, rtol=1e-6)
        assert (MARK_SHARED in conv.metadata_props) == (compatibility == "original")
