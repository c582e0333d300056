"""Queries, keys and values taken out of one tensor of rank 5, which the CPU moves."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import attribute, shape_of, static_shape
from engine.optimize.base import axes_of, graph_of, initializer_of, is_standard
from engine.rewrite.base import Chain, Rewrite, has_shapes, is_float

_MOST_AXES = 4
"""Rank that the BPU computes."""


@dataclass(frozen=True)
class AttentionPart:
    """One entry along the axis that tells queries, keys and values apart.

    Attributes:
        value: the entry, without that axis.
        index: which it is.
        axis: of the moved tensor.
        nodes: that take it out.
    """

    value: ir.Value
    index: int
    axis: int
    nodes: tuple[ir.Node, ...]


class SplitAttention(Rewrite):
    """Reshape to rank 5, Transpose, Gather of each entry as Split, then Reshape and Transpose of each entry.

    So are Split and Squeeze, and Slice and Squeeze, in the place of Gather.
    """

    name = "attention"
    says = (
        "Queries, keys and values that are taken out of one tensor of rank 5 are split before they are reshaped, so "
        "that all tensors are of rank 4."
    )
    everywhere = True
    op_types = frozenset({"Reshape"})

    def rewrite(self, node: ir.Node) -> bool:
        if not has_shapes(node) or not is_float(node) or len(shape_of(node.outputs[0])) != _MOST_AXES + 1:
            return False
        moved, perm = node.outputs[0], tuple(range(_MOST_AXES + 1))
        transpose = sole_reader(moved, once=True)
        if transpose is not None and is_standard(transpose, "Transpose"):
            perm = tuple(attribute(transpose, "perm", tuple(reversed(perm))))
            moved = transpose.outputs[0]
        parts = entries_taken(moved)
        if not parts:
            return False
        self._replace(node, perm, parts)
        return True

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        """Not asked: several outputs take the place of several."""
        return False

    def _replace(self, node: ir.Node, perm: tuple[int, ...], parts: list[AttentionPart]) -> None:
        source, shape = node.inputs[0], shape_of(node.outputs[0])
        if source is None:
            return
        axis = perm[parts[0].axis]
        count, inner = shape[axis], prod(shape[axis + 1 :])
        chain = Chain(node)
        # The entries are runs of the last axis of (all before, entries and what is in each).
        given = shape_of(source)
        rows = prod(shape[:axis])
        if not (given[-1] == count * inner and len(given) <= _MOST_AXES):
            source = chain.reshape(source, (1, rows, count * inner))
        pieces = chain.split(source, len(shape_of(source)) - 1, [inner] * count)
        kept_shape = (*shape[:axis], *shape[axis + 1 :])
        order = [each - (each > axis) for each in perm if each != axis]
        results = {part.value: chain.transpose(chain.reshape(pieces[part.index], kept_shape), order) for part in parts}
        old = [step for part in parts for step in part.nodes]
        values, made = list(results), list(results.values())
        ir.convenience.replace_nodes_and_values(graph_of(node), node, [], chain.nodes, values, made)
        self.places += [str(node.name), *dict.fromkeys(str(step.name) for step in old)]


def entries_taken(moved: ir.Value) -> list[AttentionPart]:
    """The entries that all readers of ``moved`` take out along one axis; empty where one does something else."""
    found: list[AttentionPart] = []
    if moved.is_graph_output():
        return []
    for reader, _ in moved.uses():
        more = _taken_by(reader)
        if not more:
            return []
        found += more
    return found if len({part.axis for part in found}) == 1 else []


def _taken_by(node: ir.Node) -> list[AttentionPart]:
    rank = len(static_shape(node.inputs[0]) or ())
    if is_standard(node, "Gather"):
        index, axis = initializer_of(node.inputs[1]), attribute(node, "axis", 0) % rank
        if index is None or index.ndim:
            return []
        size = shape_of(node.inputs[0])[axis] if node.inputs[0] is not None else 0
        return [AttentionPart(node.outputs[0], int(index) % size, axis, (node,))]
    if is_standard(node, "Split"):
        axis = attribute(node, "axis", 0) % rank
        pieces = list(enumerate(node.outputs))
        if any(shape_of(value)[axis] != 1 for _, value in pieces):
            return []
        return _squeezed([(index, value) for index, value in pieces if value.uses()], axis, node)
    if is_standard(node, "Slice"):
        return _sliced(node, rank)
    return []


def _sliced(node: ir.Node, rank: int) -> list[AttentionPart]:
    arrays = [initializer_of(value) for value in node.inputs[1:]]
    if len(arrays) < 3 or any(array is None or array.size != 1 for array in arrays):
        return []
    start, axis = (int(array.ravel()[0]) for array in (arrays[0], arrays[2]) if array is not None)
    source = node.inputs[0]
    axis %= rank
    if source is None or shape_of(node.outputs[0])[axis] != 1:
        return []
    size = shape_of(source)[axis]
    return _squeezed([(start % size if start >= -size else 0, node.outputs[0])], axis, node)


def _squeezed(pieces: list[tuple[int, ir.Value]], axis: int, node: ir.Node) -> list[AttentionPart]:
    """The entries of ``pieces`` without ``axis``; empty where one is read by anything but Squeeze or Reshape."""
    found = []
    for index, value in pieces:
        if value.is_graph_output() or not value.uses():
            return []
        kept = (*shape_of(value)[:axis], *shape_of(value)[axis + 1 :])
        for reader, _ in value.uses():
            takes_axis = is_standard(reader, "Squeeze") and axes_of(reader, len(shape_of(value))) == (axis,)
            reshapes = is_standard(reader, "Reshape") and static_shape(reader.outputs[0]) == kept
            if not (takes_axis or reshapes):
                return []
            found.append(AttentionPart(reader.outputs[0], index, axis, (node, reader)))
    return found
