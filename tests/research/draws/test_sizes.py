"""Shapes of inputs."""

from __future__ import annotations

import math
import random

import pytest

from research.draws.sizes import CHANNELS, even_map, few_elements, many_tokens, rung


@pytest.mark.parametrize("seed", range(20))
def test_shapes_are_what_they_are_called(seed: int) -> None:
    rng = random.Random(seed)
    assert all(size % 4 == 0 for size in even_map(rng)[1:])
    assert math.prod(few_elements(rng)[2:]) <= 64
    assert len(many_tokens(rng)) == 3
    assert sum(a != b for a, b in zip(rung(rng), (1, 32, 64, 64), strict=True)) <= 1


def test_channels_lie_around_multiples_of_sixteen() -> None:
    assert {15, 16, 17, 31, 32, 33, 63, 64, 65} <= set(CHANNELS)
