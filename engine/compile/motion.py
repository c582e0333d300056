"""How reshapes and transpositions move data: what stays where it is, and what is moved by rows or element by element.

Maps lie pixel by pixel (NHWC), all other tensors in the order of their dimensions. Nodes that move data and have one
reader each are a chain, for which only the order of memory at its ends counts: turning a map into NCHW, flattening its
pixels and turning tokens to the front leaves everything in place. ``docs/evidence/latency.md`` has the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import onnx_ir as ir

from engine.compile.partition import is_layout_change
from engine.graph.order import Order
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
    LAID = "laid"
    """A map is laid out channel by channel, and products or transpositions read its joined rows."""
    ROWS = "rows"
    """Rows of the last dimension are moved, or the last two dimensions change places."""
    PLANES = "planes"
    """Rows of each channel of a map are moved (channels are shuffled)."""
    BLOCKS = "blocks"
    """The channels of a pixel become a block of pixels (DepthToSpace)."""
    FOLDED = "folded"
    """Blocks of pixels become channels (SpaceToDepth)."""
    PIXELS = "pixels"
    """Whole rows of the last dimension change places in more than four dimensions (windows)."""
    HEADS = "heads"
    """Rows are cut into heads that a product of two tensors takes one after the other."""
    COLUMNS = "columns"
    """Rows of pixels that lie one below the other are cut, as attention of PyTorch does."""
    JOINED = "joined"
    """Rows of each map of a batch are joined, element by element: heads, in attention of PyTorch."""
    TURNED = "turned"
    """Pixels and channels of a map change places: queries, keys and values of attention over channels."""
    SPREAD = "spread"
    """Rows of heads are cut into the rows of a map; an element of every head is moved at a time."""
    ELEMENTS = "elements"
    """Elements are moved one at a time: where the elements of a map get rows of another length in the order of NCHW, or
    such rows become a map; where the channels of a pixel become a row of pixels of one channel; where rows are cut, and
    in more than four dimensions behind that (queries, keys and values).
    """


@dataclass(frozen=True)
class _Chain:
    """What has happened to a tensor since its data were last in place.

    Attributes:
        row: length of the rows at the start of the chain.
        order: of its elements, by their positions at the start of the chain.
        moved: nodes that reshape or transpose, layout changes left out.
        planes: whether the tensor is a map in NCHW, or what was made of one.
    """

    row: int
    order: Order
    moved: tuple[ir.Node, ...] = ()
    planes: bool = False

    @classmethod
    def start(cls, value: ir.Value) -> _Chain:
        shape = shape_of(value)
        return cls(shape[-1] if shape else 1, Order.start(math.prod(shape)))


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
            producer = source.producer()
            cut = None if producer is None else found.get(producer)
            stored = leaves and _is_of_stored_planes(node, before)
            found[node] = Motion.NONE if stored else _motion(node, as_planes, cut, producer in inside)
            cutting = source.producer()
            if cutting is not None and cut is Motion.ELEMENTS and _turns_matrix(cutting, chain):
                found |= {cutting: Motion.TURNED, node: Motion.NONE}
        if chain.moved and chain.order.in_place and not _of_planes(node, before):
            if len(chain.moved) > 1 or is_layout_change(node):
                found |= dict.fromkeys(chain.moved, Motion.NONE)
                becomes_line = chain.row > 1 and shape_of(output)[-1] == 1
                found[chain.moved[-1]] = Motion.ELEMENTS if becomes_line else Motion.VIEW
            chain = _Chain.start(output)
        if is_layout_change(node) or len(output.uses()) == 1:
            chains[output] = chain
    for node in [node for node, motion in found.items() if motion is Motion.ELEMENTS]:
        turned = _heads_of_product(node)
        if turned is not None:
            found |= {node: Motion.HEADS, turned: Motion.NONE}
    return found


def _turns_matrix(cutting: ir.Node, chain: _Chain) -> bool:
    """Whether what was cut out of rows by ``cutting`` has these rows as its columns at the end of ``chain``."""
    source, axes = cutting.inputs[0], chain.order.axes
    row = 0 if source is None or cutting.op_type != "Reshape" else shape_of(source)[-1]
    return isinstance(axes, tuple) and len(axes) == 2 and axes[0] == (row, 1) and axes[1][1] == row


def _heads_of_product(node: ir.Node) -> ir.Node | None:
    """The transposition that brings heads to the front which ``node`` cuts rows into, if products alone read them."""
    readers = [usage.node for usage in node.outputs[0].uses()]
    turned = readers[0] if len(readers) == 1 else None
    if node.op_type != "Reshape" or turned is None or turned.op_type != "Transpose" or is_layout_change(turned):
        return None
    after = [usage.node for usage in turned.outputs[0].uses()]
    in_front = _permutation(turned)[-2:] == (1, 3) and len(_permutation(turned)) == _MAP_RANK
    return turned if after and in_front and all(map(_is_product, after)) else None


def rearranged_inputs(nodes: Sequence[ir.Node]) -> Mapping[ir.Node, tuple[int, ...]]:
    """Positions of the activations that a node reads in another layout than the node of ``nodes`` behind them left.

    Reshapes and transpositions are left out, which are layers of their own, and what the chain of movements puts back
    in order, in rows of the same length.
    """
    left: dict[ir.Value, tuple[_Chain, int]] = {}
    found: dict[ir.Node, tuple[int, ...]] = {}
    inside = set(nodes)
    for node in nodes:
        source = node.inputs[0] if node.inputs else None
        if source is not None and node.op_type in {"Reshape", "Transpose"}:
            chain, row = left.get(source) or (_Chain.start(source), shape_of(source)[-1])
            if source in left or (source.producer() in inside and _is_integer_value(source)):
                left[node.outputs[0]] = _next(node, chain), row
            continue
        activations = [value for value in node.inputs if value is not None and value.const_value is None]
        changed = tuple(
            position
            for position, value in enumerate(activations)
            if value in left
            and (producer := value.producer()) is not None
            and is_layout_change(producer)
            and not (left[value][0].order.in_place and left[value][1] == shape_of(value)[-1])
        )
        if changed:
            found[node] = changed
    return found


def _is_integer_value(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_integer()


def _next(node: ir.Node, chain: _Chain) -> _Chain:
    """``chain`` with ``node`` at its end."""
    source, output = node.inputs[0], node.outputs[0]
    if source is None or node.op_type == "Reshape":
        return replace(chain, moved=(*chain.moved, node))
    perm = _permutation(node)
    order = chain.order.transposed(shape_of(source), perm)
    if not is_layout_change(node):
        return replace(chain, order=order, moved=(*chain.moved, node))
    return replace(chain, order=order, planes=perm == _PLANES and len(shape_of(output)) == _MAP_RANK)


def _is_of_stored_planes(node: ir.Node, before: _Chain) -> bool:
    """Whether ``node`` gives a map that is stored as NCHW another shape: stores turn maps into NCHW in any case."""
    return node.op_type == "Reshape" and before.planes and not before.moved


def _motion(node: ir.Node, as_planes: bool, cut: Motion | None, inner: bool) -> Motion:
    """What ``node`` does by itself.

    Args:
        node: a Reshape or Transpose.
        as_planes: to what is, or becomes, a map in NCHW.
        cut: what the node in front of it does, which may cut rows.
        inner: whether a node of the subgraph is in front of it; what enters lies in the order of its dimensions.
    """
    source = node.inputs[0]
    before, after = shape_of(source) if source is not None else (), shape_of(node.outputs[0])
    if node.op_type == "Reshape" and as_planes:
        if before[-1] == after[-1]:
            return Motion.ROWS if inner else Motion.VIEW
        joined = len(before) == len(after) and before[-1] > after[-1] == 1 and _joins_rows(before, after[:-1])
        if joined or _joins_rows(before, after):
            return Motion.LAID if _is_operand(node) else Motion.VIEW
        return Motion.SPREAD if _spreads_heads(node) else Motion.ELEMENTS
    if node.op_type == "Reshape" and _scatters(before, after):
        return Motion.COLUMNS if _cuts_columns(before, after) else Motion.ELEMENTS
    if node.op_type == "Reshape":
        return Motion.JOINED if _joins_batch(before, after) else Motion.VIEW
    perm = merged_permutation(before, _permutation(node))
    if len(perm) <= 1:
        return Motion.VIEW
    if len(before) <= _MAP_RANK or perm[-1] != len(perm) - 1:
        return Motion.ROWS
    if cut is Motion.COLUMNS:
        return Motion.NONE
    return Motion.ELEMENTS if cut is Motion.ELEMENTS else Motion.PIXELS


def _is_operand(node: ir.Node) -> bool:
    """Whether products and transpositions alone read what ``node`` computes, in four dimensions."""
    readers = [usage.node for usage in node.outputs[0].uses()]
    turning = ("Transpose" in reader.op_type and not is_layout_change(reader) for reader in readers)
    found = all(turned or _is_product(reader) for turned, reader in zip(turning, readers, strict=True))
    return bool(readers) and found and len(shape_of(node.outputs[0])) == _MAP_RANK


def _spreads_heads(node: ir.Node) -> bool:
    """Whether ``node`` makes a map of the rows of several heads that no product left one below the other."""
    source = node.inputs[0]
    if source is None or _is_product(source.producer()):
        return False
    before, after = shape_of(source), shape_of(node.outputs[0])
    return len(before) == len(after) == _MAP_RANK and before[1] > before[0] == 1 and after[1] > before[1]


def _is_product(node: ir.Node | None) -> bool:
    """Whether ``node`` multiplies two activations as matrices."""
    if node is None or "atmul" not in node.op_type.lower():
        return False
    return sum(value is not None and value.const_value is None for value in node.inputs) > 1


def _scatters(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether a reshape of what is no map in NCHW moves elements one at a time.

    It does so where it cuts rows (but not those of a map of several rows of pixels into up to four dimensions), and
    where it makes rows of single elements.
    """
    if _sizes(before) == _sizes(after):
        return before[-1] == 1 < after[-1]
    if len(after) > _MAP_RANK:
        return before[-1] != after[-1]
    is_map = len(before) == _MAP_RANK and min(before[1:3]) > 1
    return (after[-1] < before[-1] and not is_map) or before[-1] == 1


def _cuts_columns(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether a reshape cuts rows of a map of one pixel a row."""
    *_, height, width, _ = (1, 1, *before)
    return height > width == 1 and len(before) > 2 and after[-1] < before[-1]


def _joins_batch(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether a reshape joins the rows of each map of a batch."""
    if len(before) != _MAP_RANK:
        return False
    batch, height, width, channels = before
    return batch > height == 1 < width and after[-1] == width * channels


def _joins_rows(planes: Sequence[int], after: Sequence[int]) -> bool:
    """Whether rows of each channel become longer rows, channels staying apart."""
    pixels = math.prod(planes[-2:])
    return after[-1] % planes[-1] == 0 and pixels % after[-1] == 0


def _sizes(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size > 1]


def merged_permutation(shape: Sequence[int], perm: Sequence[int]) -> tuple[int, ...]:
    """``perm`` without dimensions of size 1, those that stay side by side merged into one."""
    axes = [axis for axis in perm if shape[axis] > 1]
    rank = {axis: position for position, axis in enumerate(sorted(axes))}
    heads = [rank[axis] for index, axis in enumerate(axes) if index == 0 or rank[axis] != rank[axes[index - 1]] + 1]
    return tuple(sorted(heads).index(head) for head in heads)


def _of_planes(node: ir.Node, before: _Chain) -> bool:
    """Whether ``node`` makes a map in NCHW, which all its readers turn into NHWC, of what is no map in place."""
    source, readers = node.inputs[0], [usage.node for usage in node.outputs[0].uses()]
    if source is None or node.op_type != "Reshape":
        return False
    if len(shape_of(source)) == _MAP_RANK and not before.moved and not _is_product(source.producer()):
        return False
    return bool(readers) and all(is_layout_change(reader) and _permutation(reader) == _PIXELS for reader in readers)


def _permutation(node: ir.Node) -> tuple[int, ...]:
    rank = len(shape_of(node.outputs[0]))
    return tuple(int(axis) for axis in attribute(node, "perm", tuple(reversed(range(rank)))))
