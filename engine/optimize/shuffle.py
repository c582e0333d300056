"""Channel shuffle, space-to-depth and depth-to-space written as ``Reshape``, ``Transpose``, ``Reshape``."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import HORIZON_DOMAIN, static_shape
from engine.optimize.base import NodePass, ints, is_standard, make_node, substitute


class CollapseShuffle(NodePass):
    """``Reshape`` to five or six dimensions, ``Transpose``, ``Reshape`` back become one operator, named as the last.

    (N, g, C/g, H, W) transposed to (N, C/g, g, H, W) is ``HzChannelShuffle`` of g groups; (N, C, H/b, b, W/b, b)
    transposed to (N, b, b, C, H/b, W/b) is ``SpaceToDepth``; (N, C, b, b, H, W) transposed to (N, C, H, b, W, b), as
    PixelShuffle is exported, is ``DepthToSpace`` of mode CRD (2 of 2 asked, on bayes-e and bernoulli2).
    """

    op_types = frozenset({"Reshape"})

    def rewrite(self, node: ir.Node) -> bool:
        found = _turned(node)
        if found is None:
            return False
        collapsed = _channel_shuffle(node, found) or _space_to_depth(node, found) or _depth_to_space(node, found)
        if collapsed is None:
            return False
        substitute(node, [collapsed])
        return True


class _Turned(NamedTuple):
    """A map that is reshaped, transposed and reshaped again.

    Attributes:
        source: the map, of four dimensions.
        outer: its shape.
        inner: its shape when it is transposed.
        perm: of the Transpose.
        result: shape of what the last Reshape gives.
    """

    source: ir.Value
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    perm: tuple[int, ...]
    result: tuple[int, ...]


def _turned(node: ir.Node) -> _Turned | None:
    """What the Reshape ``node`` ends, if a Transpose and a Reshape alone lead to it."""
    transpose = _producer(node, "Transpose")
    first = None if transpose is None else _producer(transpose, "Reshape")
    if transpose is None or first is None:
        return None
    source = first.inputs[0]
    outer, inner, result = static_shape(source), static_shape(first.outputs[0]), static_shape(node.outputs[0])
    if source is None or outer is None or inner is None or result is None or len(outer) != 4:
        return None
    return _Turned(source, outer, inner, ints(transpose, "perm", ()), result)


def _channel_shuffle(node: ir.Node, turned: _Turned) -> ir.Node | None:
    source, outer, inner, perm, result = turned
    if result != outer or perm != (0, 2, 1, 3, 4) or inner[0] != outer[0] or inner[3:] != outer[2:]:
        return None
    return make_node(
        "HzChannelShuffle",
        [source],
        name=str(node.name),
        output=f"{node.name}_shuffled",
        like=node.outputs[0],
        attributes={"group": inner[1]},
        domain=HORIZON_DOMAIN,
    )


def _space_to_depth(node: ir.Node, turned: _Turned) -> ir.Node | None:
    source, (batch, channels, height, width), inner, perm, result = turned
    if perm != (0, 3, 5, 1, 2, 4) or len(result) != 4:
        return None
    block = inner[3]
    if inner != (batch, channels, height // block, block, width // block, block):
        return None
    if result != (batch, channels * block * block, height // block, width // block):
        return None
    return _rearranged(node, source, "SpaceToDepth", {"blocksize": block})


def _depth_to_space(node: ir.Node, turned: _Turned) -> ir.Node | None:
    source, (batch, channels, height, width), inner, perm, result = turned
    if perm != (0, 1, 4, 2, 5, 3) or len(result) != 4:
        return None
    block = inner[2]
    if inner != (batch, channels // block**2, block, block, height, width):
        return None
    if result != (batch, channels // block**2, height * block, width * block):
        return None
    return _rearranged(node, source, "DepthToSpace", {"blocksize": block, "mode": "CRD"})


def _producer(node: ir.Node, op_type: str) -> ir.Node | None:
    """The node of ``op_type`` whose output only ``node`` reads as its first input."""
    value = node.inputs[0]
    producer = value.producer() if value is not None else None
    if value is None or not is_standard(producer, op_type) or sole_reader(value, once=True) is not node:
        return None
    return producer


def _rearranged(node: ir.Node, source: ir.Value, op_type: str, attributes: dict[str, int | str]) -> ir.Node:
    return make_node(
        op_type,
        [source],
        name=str(node.name),
        output=f"{node.name}_rearranged",
        like=node.outputs[0],
        attributes=attributes,
    )
