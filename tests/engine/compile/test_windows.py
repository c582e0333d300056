"""Maps that are cut into windows and put together again."""

from __future__ import annotations

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.overhead import Overhead
from engine.compile.layers import Layer, Overlap
from engine.compile.overheads import amounts, overhead_us
from engine.compile.windows import cuts_windows
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import layer


def cut(down: int, across: int, side: int, channels: int) -> Layer:
    after = (1, down, across, side, side, channels)
    return layer(CostKind.TRANSPOSE, after, (1, down, side, across, side, channels), motion="pixels")


def joined(down: int, across: int, side: int, channels: int) -> Layer:
    before = (1, down, across, side, side, channels)
    return layer(CostKind.TRANSPOSE, (1, down, side, across, side, channels), before, motion="pixels")


@pytest.mark.parametrize(
    ("windows", "march", "page"),
    [
        ((4, 4, 8, 64), "bayes-e", (96, 95)),
        ((2, 2, 8, 64), "bayes-e", (62, 63)),
        ((2, 2, 8, 128), "bayes-e", (120, 117)),
        ((4, 4, 4, 32), "bayes-e", (19, 19)),
        ((3, 2, 4, 16), "bayes-e", (9, 9)),
        ((2, 2, 7, 64), "bayes-e", (52, 52)),
        ((4, 2, 8, 64), "bayes-e", (70, 69)),
        ((2, 4, 8, 64), "bayes-e", (80, 79)),
        ((4, 4, 8, 64), "bayes", (73, 73)),
        ((2, 2, 8, 256), "bayes", (196, 196)),
        ((3, 2, 4, 24), "bayes", (9, 9)),
        ((2, 2, 7, 64), "bayes", (44, 44)),
    ],
)
def test_windows_by_their_rows_and_their_pixels(
    windows: tuple[int, int, int, int], march: str, page: tuple[float, float]
) -> None:
    """Asked, computing times of a transposition and the reshape beside it, to windows and back."""
    latency = load_latency(march)
    there, back = (overhead_us(each, Overlap.GROUPS, latency) for each in (cut(*windows), joined(*windows)))
    assert (there, back) == pytest.approx(page, rel=0.12)


def test_other_transpositions_are_none() -> None:
    batch = layer(CostKind.TRANSPOSE, (2, 3, 2, 4, 4, 8), (2, 3, 4, 2, 4, 8), motion="pixels")
    assert not cuts_windows(batch)
    assert dict(amounts(batch, Overlap.GROUPS, load_latency("bayes-e")))[Overhead.SWAP] == 1
