"""Weights and biases of convolutions that take in affine functions."""

from __future__ import annotations

import numpy as np
import pytest

from engine.optimize.affine import Affine
from engine.optimize.affine_constants import has_bias, with_affine_behind
from tests.engine.optimize.equivalence import build, census, optimized
from tests.engine.optimize.networks import MAP, conv_then, node, normal


@pytest.mark.parametrize(
    ("op_type", "bias", "expected"),
    [
        ("Add", False, "conv_bias"),
        ("Add", True, "convb_fuse_add_sub"),
        ("Mul", True, "b"),
        ("Mul", False, None),
    ],
)
def test_names_of_biases(op_type: str, bias: bool, expected: str | None) -> None:
    (conv,) = optimized(conv_then(node(op_type, "c k"), bias=bias, k=normal(6, 1, 1))).graph
    assert [value.name for value in conv.inputs[2:]] == ([] if expected is None else [expected])


def test_batch_normalisation_of_a_grouped_transposed_convolution() -> None:
    nodes = [node("ConvTranspose", "x w", "c", group=2, strides=[2, 2]), node("BatchNormalization", "c g h m v")]
    parameters = {"g": normal(6), "h": normal(6), "m": normal(6), "v": np.abs(normal(6)) + 0.1}
    after = optimized(build(nodes, MAP, ["y"], {"w": normal(4, 3, 2, 2), **parameters}))
    assert census(after) == {"ConvTranspose": 1}


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_a_weight_is_multiplied_along_its_output_channels(op_type: str) -> None:
    weight = normal(6, 2, 1, 1) if op_type == "Conv" else normal(4, 3, 1, 1)
    (conv,) = build([node(op_type, "x w", group=2)], MAP, ["y"], {"w": weight}).graph
    scale, shift = np.arange(1.0, 7.0), np.arange(6.0)
    found = with_affine_behind(conv, Affine(scale, shift))
    assert found is not None
    assert not has_bias(conv)
    factors = (
        scale[:, None, None, None] if op_type == "Conv" else np.repeat(scale.reshape(2, 1, 3), 2, 1).reshape(4, 3, 1, 1)
    )
    np.testing.assert_allclose(found[0], weight * factors)
    np.testing.assert_array_equal(found[1], shift)


def test_what_is_infinite_is_not_taken_in() -> None:
    (conv,) = build([node("Conv", "x w")], MAP, ["y"], {"w": np.full((6, 4, 1, 1), 1e30, np.float32)}).graph
    assert with_affine_behind(conv, Affine(np.full(6, 1e30), np.zeros(6))) is None
