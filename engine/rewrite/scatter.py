"""``ScatterND`` at constant places: joined out of slices."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of
from engine.optimize.base import initializer_of
from engine.rewrite.base import Array, Chain, Rewrite, has_shapes, is_float

MOST_RUNS = 16
"""Most runs of neighbouring places: each is a Slice, and one behind it."""


@dataclass(frozen=True)
class Region:
    """Where constant indices write: everywhere along all axes but one.

    Attributes:
        axis: the one.
        places: along it, in the order of the updates.
        grid: shape of the updates, places along ``axis``.
    """

    axis: int
    places: tuple[int, ...]
    grid: tuple[int, ...]


class ScatterAsConcat(Rewrite):
    """``ScatterND`` whose indices are constant as ``Concat`` of slices of data and updates."""

    name = "scatter"
    says = "A ScatterND at constant places (assignments to slices, as in decoders) is joined out of slices."
    op_types = frozenset({"ScatterND"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        data, indices, updates = node.inputs[0], initializer_of(node.inputs[1]), node.inputs[2]
        if data is None or updates is None or not has_shapes(node) or not is_float(node):
            return False
        if indices is None or attribute(node, "reduction", "none") != "none":
            self.remarks.append(f"{node.name} (ScatterND): its indices are computed, or it adds; it stays on the CPU")
            return False
        region = region_of(indices, shape_of(data))
        if region is None:
            self.remarks.append(f"{node.name} (ScatterND): its places are no slice along one axis; it stays on the CPU")
            return False
        written = chain.reshape(updates, region.grid)
        if len(region.places) == shape_of(data)[region.axis]:
            if not chain.nodes:
                chain.add("Identity", [written])
            return True
        chain.concat(_pieces(chain, data, written, region), region.axis)
        return True


def _pieces(chain: Chain, data: ir.Value, written: ir.Value, region: Region) -> list[ir.Value]:
    """Slices of ``data`` and of what is ``written``, in order."""
    axis, size = region.axis, shape_of(data)[region.axis]
    pieces, at, first = [], 0, 0
    for start, stop in runs(region.places):
        if at < start:
            pieces.append(chain.slice(data, axis, at, start))
        pieces.append(chain.slice(written, axis, first, first + stop - start))
        at, first = stop, first + stop - start
    if at < size:
        pieces.append(chain.slice(data, axis, at, size))
    return pieces


def runs(places: tuple[int, ...]) -> list[tuple[int, int]]:
    """``places``, which increase, as runs of neighbours: first, and one behind the last."""
    cuts = [0, *(index for index, (a, b) in enumerate(pairwise(places), 1) if b != a + 1), len(places)]
    return [(places[first], places[last - 1] + 1) for first, last in pairwise(cuts)]


def region_of(indices: Array, shape: tuple[int, ...]) -> Region | None:
    """Where ``indices``, shape (..., indexed axes), write into a tensor of ``shape``; None where that is no slice."""
    depth = indices.shape[-1]
    if not depth or not indices.size:
        return None
    rows = indices.reshape(-1, depth) % np.asarray(shape[:depth])
    sets = [np.unique(rows[:, axis]) for axis in range(depth)]
    if prod(map(len, sets)) != len(rows):
        return None
    grid = np.stack(np.meshgrid(*sets, indexing="ij"), axis=-1).reshape(-1, depth)
    partial = [axis for axis in range(depth) if len(sets[axis]) < shape[axis]]
    if not np.array_equal(grid, rows) or len(partial) > 1:
        return None
    axis = partial[0] if partial else 0
    places = tuple(map(int, sets[axis]))
    if len(runs(places)) > MOST_RUNS:
        return None
    return Region(axis, places, (*map(len, sets), *shape[depth:]))
