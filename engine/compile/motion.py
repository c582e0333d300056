"""How reshapes and transpositions move data: what stays where it is, and what is moved by rows or element by element.

Maps lie pixel by pixel (NHWC), all other tensors in the order of their dimensions. Nodes that move data and have one
reader each are a chain, for which only the order of memory at its ends counts: turning a map into NCHW, flattening its
pixels and turning tokens to the front leaves everything in place. ``docs/evidence/latency.md`` has the evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.compile.partition import is_layout_change
from engine.ir import attribute, shape_of

_MAP_RANK = 4
_PLANES, _PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)
"""Permutations that turn a map into NCHW and back."""


class Motion(StrEnum):
    """What a reshape or a transposition does to the order of memory."""

    NONE = "none"
    """Nothing: later nodes of its chain restore the order."""
    VIEW = "view"
    """Nothing, but rows may be padded otherwise afterwards."""
    ROWS = "rows"
    """Rows of the last dimension are moved, or the last two dimensions change places."""
    ELEMENTS = "elements"
    """Elements of a map are put in the order of NCHW, in rows of another length; or such rows back into a map."""
    BLOCKS = "blocks"
    """Rows are moved in more than four dimensions (queries, keys and values, windows)."""


@dataclass(frozen=True)
class _Chain:
    """What has happened to a tensor since its data were last in place.

    Attributes:
        order: for each element, its position at the start of the chain.
        moved: nodes that reshape or transpose, layout changes left out.
        planes: whether the tensor is a map in NCHW, or what was made of one.
    """

    order: NDArray[np.int32]
    moved: tuple[ir.Node, ...] = ()
    planes: bool = False

    @classmethod
    def start(cls, value: ir.Value) -> _Chain:
        return cls(np.arange(np.prod(shape_of(value), dtype=np.int64), dtype=np.int32))

    @property
    def in_place(self) -> bool:
        """Whether all elements are where they were at the start."""
        return bool((np.diff(self.order) == 1).all())


def motions_of(nodes: Sequence[ir.Node]) -> Mapping[ir.Node, Motion]:
    """What each Reshape and Transpose among ``nodes``, in topological order, does; layout changes are left out."""
    found: dict[ir.Node, Motion] = {}
    chains: dict[ir.Value, _Chain] = {}
    inside = set(nodes)
    for node in nodes:
        source = node.inputs[0] if node.op_type in {"Reshape", "Transpose"} else None
        if source is None:
            continue
        output = node.outputs[0]
        before = chains.get(source) or _Chain.start(source)
        chain = _next(node, before)
        as_planes = before.planes or _of_planes(node, before)
        if not is_layout_change(node):
            leaves = not any(usage.node in inside for usage in output.uses())
            found[node] = Motion.NONE if leaves and _is_of_stored_planes(node, before) else _motion(node, as_planes)
        if chain.moved and chain.in_place and not _of_planes(node, before):
            found |= dict.fromkeys(chain.moved, Motion.NONE)
            found[chain.moved[-1]] = Motion.VIEW
            chain = _Chain.start(output)
        if is_layout_change(node) or len(output.uses()) == 1:
            chains[output] = chain
    return found


def _next(node: ir.Node, chain: _Chain) -> _Chain:
    """``chain`` with ``node`` at its end."""
    source, output = node.inputs[0], node.outputs[0]
    if source is None or node.op_type == "Reshape":
        return _Chain(chain.order, (*chain.moved, node), chain.planes)
    perm = _permutation(node)
    order = chain.order.reshape(shape_of(source)).transpose(perm).ravel()
    if not is_layout_change(node):
        return _Chain(order, (*chain.moved, node), chain.planes)
    return _Chain(order, chain.moved, perm == _PLANES and len(shape_of(output)) == _MAP_RANK)


def _is_of_stored_planes(node: ir.Node, before: _Chain) -> bool:
    """Whether ``node`` gives a map that is stored as NCHW another shape: stores turn maps into NCHW in any case."""
    return node.op_type == "Reshape" and before.planes and not before.moved


def _motion(node: ir.Node, as_planes: bool) -> Motion:
    """What ``node`` does by itself; ``as_planes``: to what is, or becomes, a map in NCHW."""
    source = node.inputs[0]
    before, after = shape_of(source) if source is not None else (), shape_of(node.outputs[0])
    if node.op_type == "Reshape" and not as_planes:
        return Motion.VIEW
    if node.op_type == "Reshape":
        return Motion.ELEMENTS if before[-1] != after[-1] else Motion.ROWS
    perm = merged_permutation(before, _permutation(node))
    if len(perm) <= 1:
        return Motion.VIEW
    return Motion.BLOCKS if len(before) > _MAP_RANK and perm[-1] == len(perm) - 1 else Motion.ROWS


def merged_permutation(shape: Sequence[int], perm: Sequence[int]) -> tuple[int, ...]:
    """``perm`` without dimensions of size 1, those that stay side by side merged into one."""
    axes = [axis for axis in perm if shape[axis] > 1]
    rank = {axis: position for position, axis in enumerate(sorted(axes))}
    heads = [rank[axis] for index, axis in enumerate(axes) if index == 0 or rank[axis] != rank[axes[index - 1]] + 1]
    return tuple(sorted(heads).index(head) for head in heads)


def _of_planes(node: ir.Node, before: _Chain) -> bool:
    """Whether ``node`` makes a map in NCHW, which all its readers turn into NHWC, of what is no map in place."""
    source, readers = node.inputs[0], [usage.node for usage in node.outputs[0].uses()]
    if source is None or node.op_type != "Reshape" or (len(shape_of(source)) == _MAP_RANK and not before.moved):
        return False
    return bool(readers) and all(is_layout_change(reader) and _permutation(reader) == _PIXELS for reader in readers)


def _permutation(node: ir.Node) -> tuple[int, ...]:
    rank = len(shape_of(node.outputs[0]))
    return tuple(int(axis) for axis in attribute(node, "perm", tuple(reversed(range(rank)))))
