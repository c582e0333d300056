"""Every block of convolutional networks, in several spellings."""

from __future__ import annotations

import pytest

from engine.conformance.hunt.grammar.maps import BODIES, STEMS, Block, down
from tests.engine.conformance.hunt.grammar.running import SEEDS, drawing, output_of


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("block", dict.fromkeys((*BODIES, down)), ids=lambda block: block.__name__)
def test_a_body_gives_a_map(block: Block, seed: int) -> None:
    net = drawing(seed)
    (found,) = output_of(net, block(net, "x"))
    assert found.shape[0] == 1
    assert found.ndim == 4
    assert min(found.shape) >= 1


@pytest.mark.parametrize("shape", [(1, 3, 16, 24), (1, 1, 17, 15)])
@pytest.mark.parametrize("block", dict.fromkeys(STEMS), ids=lambda block: block.__name__)
def test_a_stem_takes_pictures_of_even_and_odd_sizes(block: Block, shape: tuple[int, ...]) -> None:
    net = drawing(1, *shape)
    (found,) = output_of(net, block(net, "x"))
    assert found.shape[1] in (8, 12, 16)
    assert found.shape[2] <= shape[2]
