"""GridSample, which the CPU computes, behind what the BPU can compute before it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import attribute, shape_of
from engine.optimize.base import graph_of, initializer_of, is_standard
from engine.rewrite.base import Chain, Rewrite, has_shapes, is_float

LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"})
"""Operators that are worth the BPU."""


class GridSampleBehindConvolutions(Rewrite):
    """1x1 convolutions that read a ``GridSample`` in front of it: interpolation is linear, and moves no channels."""

    name = "grid_sample"
    says = "1x1 convolutions that read a GridSample are computed before it, so that the CPU's part moves to the end."
    everywhere = True
    op_types = frozenset({"GridSample"})

    def rewrite(self, node: ir.Node) -> bool:
        conv = sole_reader(node.outputs[0], once=True)
        if conv is not None and _commutes(node, conv):
            self._swap(node, conv)
            return True
        behind = _layers_behind(node)
        if behind:
            self.remarks.append(
                f"{node.name} (GridSample): the CPU computes it, and {len(behind)} layers of the BPU follow "
                f"({behind[0]} first). Only 1x1 convolutions can be moved before it; two networks, cut at it, let "
                "the application sample between them"
            )
        return False

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        """Not asked: a later node is replaced."""
        return False

    def _swap(self, node: ir.Node, conv: ir.Node) -> None:
        source, grid, weights = node.inputs[0], node.inputs[1], conv.inputs[1]
        if source is None:
            return
        shape, result = shape_of(source), shape_of(conv.outputs[0])
        bias = conv.inputs[2] if len(conv.inputs) > 2 else None
        chain = Chain(conv)
        zeros = attribute(node, "padding_mode", "zeros") == "zeros"
        inside = [source, weights, *([] if bias is None or zeros else [bias])]
        mixed = chain.add("Conv", inside, (shape[0], result[1], *shape[2:]), kernel_shape=[1, 1])
        given = {name: value.value for name, value in node.attributes.items()}
        moved = chain.add("GridSample", [mixed, grid], result, **given)
        if bias is not None and zeros:  # places outside of the map are 0 before the bias is added
            array = initializer_of(bias)
            offset = chain.constant("offset", np.asarray(array).reshape(1, -1, 1, 1))
            chain.add("Add", [moved, offset], result)
        end = chain.nodes[-1].outputs[0]
        ir.convenience.replace_nodes_and_values(
            graph_of(node), conv, [conv, node], chain.nodes, [conv.outputs[0]], [end]
        )
        self.places += [str(node.name), str(conv.name)]
        sampler = next(each for each in chain.nodes if each.op_type == "GridSample")
        if (following := sole_reader(sampler.outputs[0], once=True)) is not None and _commutes(sampler, following):
            self._swap(sampler, following)


def _commutes(node: ir.Node, conv: ir.Node) -> bool:
    """Whether ``conv`` is a 1x1 convolution of what ``node`` samples, and can be computed before it."""
    if not is_standard(conv, "Conv") or not has_shapes(node) or not has_shapes(conv) or not is_float(conv):
        return False
    weights = initializer_of(conv.inputs[1])
    if weights is None or weights.shape[2:] != (1, 1) or attribute(conv, "group", 1) != 1:
        return False
    has_bias = len(conv.inputs) > 2 and conv.inputs[2] is not None
    plain = not any(attribute(conv, "pads", ())) and set(attribute(conv, "strides", (1,))) == {1}
    return plain and (not has_bias or initializer_of(conv.inputs[2]) is not None)


def _layers_behind(node: ir.Node) -> list[str]:
    """Names of the layers that depend on ``node``, in running order."""
    reached = set(node.outputs)
    found = []
    for other in graph_of(node):
        if any(value in reached for value in other.inputs):
            reached.update(other.outputs)
            if other.op_type in LAYERS:
                found.append(str(other.name))
    return found
