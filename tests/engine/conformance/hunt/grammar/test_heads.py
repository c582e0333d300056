"""Every end of a network, on one level and on two."""

from __future__ import annotations

import numpy as np
import pytest

from engine.conformance.hunt.grammar.heads import DETECTORS, MAP_HEADS, PIXEL_HEADS, Detector, MapHead, embedding
from tests.engine.conformance.hunt.grammar.running import SEEDS, drawing, output_of, run


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("head", dict.fromkeys((*MAP_HEADS, *PIXEL_HEADS)), ids=lambda head: head.__name__)
def test_a_head_of_one_map(head: MapHead, seed: int) -> None:
    net = drawing(seed)
    net.output(*head(net, "x"))
    assert all(each.size for each in run(net))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("head", dict.fromkeys(DETECTORS), ids=lambda head: head.__name__)
def test_a_head_of_one_level_and_of_two(head: Detector, seed: int) -> None:
    for count in (1, 2):
        net = drawing(seed)
        net.output(*head(net, ["x", net.layer("x", 8, 3, 2)][:count]))
        assert all(each.size for each in run(net))


def test_an_embedding_has_length_one() -> None:
    net = drawing(1)
    (found,) = output_of(net, *embedding(net, "x"))
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-5)
