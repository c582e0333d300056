"""Affine functions per channel: what counts as one, and its rounding."""

from __future__ import annotations

import numpy as np
import pytest

from engine.optimize import optimize
from engine.optimize.affine import Affine
from tests.engine.optimize.equivalence import census, optimized
from tests.engine.optimize.networks import conv_then, node, normal


def test_constants_of_whole_maps_stay() -> None:
    for pixels in (np.zeros((1, 6, 8, 8), np.float32), np.broadcast_to(normal(6, 1, 1), (1, 6, 8, 8))):
        assert census(optimized(conv_then(node("Add", "c k"), k=pixels))) == {"Conv": 1, "Add": 1}
        assert census(optimized(conv_then(node("Mul", "c k"), k=pixels))) == {"Conv": 1, "Mul": 1}
    assert census(optimized(conv_then(node("Add", "c k"), k=normal(1, 6, 8, 8)))) == {"Conv": 1, "Add": 1}
    assert census(optimized(conv_then(node("Mul", "c k"), k=normal(8)))) == {"Conv": 1, "Mul": 1}


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_a_constant_minus_a_map_stays(march: str) -> None:
    assert census(optimized(conv_then(node("Sub", "k c"), k=np.ones((), np.float32)), march)) == {
        "Conv": 1,
        "Sub": 1,
    }


def test_zero_divisors_stay() -> None:
    constant = np.array([1, 2, 0, 4, 5, 6], np.float32).reshape(6, 1, 1)
    assert census(optimize(conv_then(node("Div", "c k"), k=constant), "bayes-e")) == {"Conv": 1, "Div": 1}


def test_bias_behind_a_batch_normalisation_is_rounded_in_every_step() -> None:
    bias, mean, scale, shift = (np.float32(number) for number in (0.1, 0.7, 1.1, 0.3))
    found = Affine(*(np.asarray([number], np.float64) for number in (scale, shift, mean)))
    assert found.of(np.asarray([bias], np.float64))[0] == (bias - mean) * scale + shift
    assert found.offset[0] == (np.float32(0) - mean) * scale + shift
