"""ScatterND at constant places."""

from __future__ import annotations

import numpy as np
import pytest

from engine.rewrite.scatter import Region, ScatterAsConcat, region_of, runs
from tests.engine.rewrite.networks import operators, rewritten, source, stays

EVERYWHERE = np.stack(np.meshgrid(np.arange(1), np.arange(4), np.arange(8), [0, 1, 6], indexing="ij"), -1).tolist()


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("y = ScatterND(x, [[0, 0], [0, 2]], W(2, 8, 8))", {"Slice", "Concat"}),
        ("y = ScatterND(x, [[0, 1]], Slice(Reshape(x, [4, 8, 8]), [0], [1], [0]))", {"Slice", "Concat", "Reshape"}),
        (f"y = ScatterND(x, {EVERYWHERE}, Slice(x, [2], [5], [3]))", {"Slice", "Concat"}),
        ("y = ScatterND(x, [[0, -1]], W(1, 8, 8))", {"Slice", "Concat"}),
        ("u = Relu(x); y = ScatterND(x, [[0, 0], [0, 1], [0, 2], [0, 3]], Reshape(u, [4, 8, 8]))", {"Relu", "Reshape"}),
    ],
)
def test_it_is_joined_out_of_slices(text: str, kinds: set[str]) -> None:
    assert set(operators(rewritten(ScatterAsConcat(), source(text, 16)))) <= kinds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("y = ScatterND(x, [[0, 2], [0, 0]], W(2, 8, 8))", "no slice along one axis"),
        ("y = ScatterND(x, [[0, 0, 1], [0, 1, 2]], W(2, 8))", "no slice along one axis"),
        ('y = ScatterND(x, [[0, 0]], W(1, 8, 8), reduction="add")', "computed, or it adds"),
        (
            "i = Unsqueeze(ArgMax(ReduceMax(x, axes=[1, 2, 3], keepdims=0), axis=0), [1]); y = ScatterND(x, i, x)",
            "computed",
        ),
    ],
)
def test_other_places_stay_and_are_named(text: str, why: str) -> None:
    change = ScatterAsConcat()
    assert stays(change, source(text, 16))
    assert why in change.remarks[0]


def test_regions_and_runs() -> None:
    assert region_of(np.array([[0, 1], [0, 2]]), (1, 4, 5)) == Region(1, (1, 2), (1, 2, 5))
    assert region_of(np.array([[0], [0]]), (2, 3)) is None
    assert runs((0, 1, 4, 6, 7)) == [(0, 2), (4, 5), (6, 8)]
