"""1x1 convolutions with more input channels than one can take are computed in parts."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.chips import Chip
from engine.ir import attribute, static_shape
from engine.optimize.base import (
    Array,
    NodePass,
    add_initializer,
    graph_of,
    initializer_of,
    ints,
    make_node,
    make_split,
    substitute,
)


class SplitWideConv(NodePass):
    """A dense 1x1 convolution with too many input channels becomes a ``Split``, one convolution per part, and ``Add``s.

    Parts are as equal as they can be. Every ``Add`` can be the fused sum of the part before it, so the last
    convolution keeps the node's name, bias and, where nothing follows, int32 output. Beyond the march's limit the
    convolution stays whole and runs on the CPU (reference/operators.md, Limits: "4096 (as Conv + Split)").
    """

    op_types = frozenset({"Conv"})

    def __init__(self, march: Chip) -> None:
        self.part = march.graph.conv_1x1_part
        self.limit = march.limits.conv_1x1_channels

    def remains(self, node: ir.Node) -> bool:
        """A dense 1x1 convolution with the given numbers of channels."""
        weight, shape = initializer_of(node.inputs[1]), static_shape(node.inputs[0])
        if self.part is None or weight is None or shape is None or len(shape) != 4:
            return False
        plain = weight.shape[2:] == (1, 1) and attribute(node, "group", 1) == 1 and not any(ints(node, "pads", ()))
        return plain and self.part < shape[1] <= self.limit

    def rewrite(self, node: ir.Node) -> bool:
        source, weight = node.inputs[0], initializer_of(node.inputs[1])
        if self.part is None or source is None or weight is None or not self.remains(node):
            return False
        channels = (static_shape(source) or ())[1]
        sizes = [len(part) for part in np.array_split(np.arange(channels), -(-channels // self.part))]
        split = make_split(graph_of(node), source, 1, sizes, f"{node.name}_split")
        new_nodes, total = [split], None
        for index, kernel in enumerate(np.split(weight, np.cumsum(sizes)[:-1], axis=1)):
            conv = _part(node, index, split.outputs[index], np.ascontiguousarray(kernel), last=index == len(sizes) - 1)
            new_nodes.append(conv)
            if total is not None:
                new_nodes.append(_sum(node, index, conv.outputs[0], total))
            total = new_nodes[-1].outputs[0]
        substitute(node, new_nodes)
        return True


def _part(node: ir.Node, index: int, source: ir.Value, weight: Array, *, last: bool) -> ir.Node:
    """The convolution of part ``index``; the last one has the bias."""
    name = str(node.name) if last else f"{node.name}_part_{index}"
    kernel = add_initializer(graph_of(node), f"{node.name}_weight_{index}", weight)
    inputs = [source, kernel, *(node.inputs[2:] if last else ())]
    attributes = {key: value.value for key, value in node.attributes.items()}
    return make_node(
        "Conv",
        inputs,
        name=name,
        output=f"{node.name}_part_{index}_output",
        like=node.outputs[0],
        attributes=attributes,
    )


def _sum(node: ir.Node, index: int, part: ir.Value, total: ir.Value) -> ir.Node:
    """What part ``index`` adds to the parts before it."""
    name = f"{node.name}_sum_{index}"
    return make_node("Add", [part, total], name=name, output=f"{name}_output", like=node.outputs[0])
