"""Every block that attends, over maps and over tokens."""

from __future__ import annotations

import numpy as np
import pytest

from engine.conformance.hunt.grammar.attention import MAP_ATTENTION, TOKEN_BLOCKS, TokenBlock, attend
from engine.conformance.hunt.grammar.maps import Block
from tests.engine.conformance.hunt.grammar.running import SEEDS, drawing, output_of


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("block", dict.fromkeys(MAP_ATTENTION), ids=lambda block: block.__name__)
def test_attention_over_a_map_gives_a_map_of_its_size(block: Block, seed: int) -> None:
    for height, width in ((8, 8), (6, 9), (7, 5)):
        net = drawing(seed, 1, 8, height, width)
        (found,) = output_of(net, block(net, "x"))
        assert found.shape[2:] == (height, width)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("block", dict.fromkeys(TOKEN_BLOCKS), ids=lambda block: block.__name__)
def test_attention_over_tokens_gives_tokens(block: TokenBlock, seed: int) -> None:
    net = drawing(seed, 1, 12, 16)
    (found,) = output_of(net, block(net, "x"))
    assert found.shape[0] == 1
    assert found.shape[2] == 16


def test_scores_are_scaled_once_wherever_they_are() -> None:
    for seed in range(6):  # behind the product, divided, or the queries
        net = drawing(seed, 1, 2, 5, 4)
        (found,) = output_of(net, attend(net, "x", "x", "x"))
        x = net.data()["x"][0].astype(np.float64)
        scores = x @ x.transpose(0, 1, 3, 2) / 2
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ x
        assert found == pytest.approx(expected, abs=1e-4)
