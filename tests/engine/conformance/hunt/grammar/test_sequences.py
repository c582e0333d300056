"""Blocks over lines, vectors and frames."""

from __future__ import annotations

import pytest

from engine.conformance.hunt.grammar.attention import TokenBlock
from engine.conformance.hunt.grammar.sequences import LINE_BLOCKS, five_dimensions, line_outputs, vector_network
from tests.engine.conformance.hunt.grammar.running import drawing, output_of, run


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("block", dict.fromkeys(LINE_BLOCKS), ids=lambda block: block.__name__)
def test_a_block_keeps_the_steps(block: TokenBlock, seed: int) -> None:
    net = drawing(seed, 1, 9, 8)
    (found,) = output_of(net, block(net, "x"))
    assert found.shape[:2] == (1, 9)


@pytest.mark.parametrize("seed", range(4))
def test_outputs_of_lines_vectors_and_frames(seed: int) -> None:
    for shape, end in (((1, 9, 8), line_outputs), ((1, 12), vector_network), ((1, 2, 3, 16, 16), five_dimensions)):
        net = drawing(seed, *shape)
        net.output(*end(net, "x"))
        assert all(each.size for each in run(net))
