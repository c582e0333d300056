"""Batch normalisation and factors that no convolution takes in become operators of their own."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import MARK_CONVOLUTION, MARK_MADE, static_shape
from engine.optimize.affine import MAP_RANK, Affine, affine_of, becomes_depthwise
from engine.optimize.affine_constants import CONVOLUTIONS
from engine.optimize.affine_previous import FoldAffineIntoPrevious
from engine.optimize.base import (
    ELEMENTWISE,
    NodePass,
    add_initializer,
    graph_of,
    initializer_of,
    is_standard,
    make_node,
    substitute,
)
from engine.optimize.dense import MatMulToConv
from engine.optimize.pooling import AveragePoolToConv
from engine.terms import Compatibility


class NormOfRowsToProduct(NodePass):
    """A BatchNormalization of two or three dimensions that no convolution takes becomes a product and a sum.

    They are called ``<node>_mul`` and ``<node>_add``, their numbers per channel ``<node>_mul_constant`` and so on. One
    that a Gemm gives or alone reads waits until that is a convolution. Speaker embeddings (ECAPA), rows behind a Linear
    or a mean: 51 of 52 forms asked on bayes-e have the original's graph (22 before).
    """

    op_types = frozenset({"BatchNormalization"})

    def rewrite(self, node: ir.Node) -> bool:
        found = affine_of(node)
        if found is None or not self.remains(node):
            return False
        (value, affine), graph, result = found, graph_of(node), node.outputs[0]
        tail = (1,) * (len(static_shape(value) or ()) - 2)
        parts: list[ir.Node] = []
        for op_type, numbers in (("Mul", affine.scale), ("Add", affine.offset)):
            name = f"{node.name}_{op_type.lower()}"
            array = numbers.astype(np.float32).reshape(1, -1, *tail)
            operand = add_initializer(graph, f"{name}_constant", array)
            source = parts[0].outputs[0] if parts else value
            parts.append(make_node(op_type, [source, operand], name=name, output=f"{name}_output", like=result))
        substitute(node, parts)
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of such a tensor, neither behind nor in front of a Gemm."""
        shape, value = static_shape(node.inputs[0]), node.inputs[0]
        if shape is None or value is None or len(shape) not in (2, 3) or affine_of(node) is None:
            return False
        following, conv = sole_reader(node.outputs[0], once=True), value.producer()
        is_taken_in = is_standard(conv, *CONVOLUTIONS) and sole_reader(value, once=True) is node
        return not (is_taken_in or is_standard(conv, "Gemm") or is_standard(following, "Gemm"))


class AffineToDepthwise(NodePass):
    """A per-channel factor that no convolution takes becomes a depthwise 1x1 convolution, and takes the sum behind it.

    So does a BatchNormalization. Not a factor of several samples (windows of attention: ``mobilevit``), and no sum
    alone (10 of 10 asked behind a Tanh, a MaxPool and the input, of one number and of one per channel; in the recorded
    networks none does).
    """

    op_types = frozenset({"BatchNormalization", "Add", "Sub", "Mul", "Div"})

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self._fold_into_previous = FoldAffineIntoPrevious(compatibility).rewrite

    def rewrite(self, node: ir.Node) -> bool:
        if self._fold_into_previous(node):
            return True
        found = affine_of(node)
        if found is None or node.name is None:
            return False
        value, affine = found
        shape = static_shape(value)
        if shape is None or len(shape) != MAP_RANK or node.op_type in ("Add", "Sub"):
            return False
        if node.op_type in ("Mul", "Div") and shape[0] != 1:
            return False
        # 5 of 5 in densenet, 2 of 2 in repvgg_unfused, and so is the result; products keep theirs (12 in 5 networks).
        name = f"UNIT_CONV_FOR_{node.name}" if node.op_type == "BatchNormalization" else node.name
        conv = depthwise_convolution(graph_of(node), value, affine, node.name, name, f"{node.name}_depthwise")
        substitute(node, [conv])
        if node.op_type == "BatchNormalization" and not conv.outputs[0].is_graph_output():
            conv.outputs[0].name = conv.name
        return True

    def remains(self, node: ir.Node) -> bool:
        """A BatchNormalization of a map, if its numbers are finite."""
        if node.op_type != "BatchNormalization" or node.name is None:
            return False
        return len(static_shape(node.inputs[0]) or ()) == MAP_RANK and affine_of(node) is not None


class FactorBetweenReshapes(NodePass):
    """A factor of one channel between two Reshapes multiplies all its pixels as channels, by a diagonal weight.

    The first Reshape then gives these, (1, pixels, 1, 1): the row of a ``Gemm`` or the column of a product, times one
    number, in front of another Gemm, an output or anything else that it is reshaped for. Parts are called
    ``<factor>_reshape_conv``, the target of the Reshape is the old one's ``<name>_new``. 25 of 25 rows (bayes-e)
    and 8 of 8 columns on each of two marches; SwiftFormer, XCiT.
    """

    op_types = frozenset({"Conv"})

    def rewrite(self, node: ir.Node) -> bool:
        found = _between_reshapes(node)
        if found is None:
            return False
        reshape, scale = found
        graph, channels, name = (
            graph_of(node),
            int(np.prod(static_shape(node.inputs[0]) or ())),
            f"{node.name}_reshape_conv",
        )
        sizes = np.asarray((1, channels, 1, 1), np.int64)
        target = "" if reshape.inputs[1] is None else reshape.inputs[1].name
        reshape.replace_input_with(1, add_initializer(graph, f"{target}_new", sizes))
        for value in (reshape.outputs[0], node.outputs[0]):
            value.shape = ir.Shape(sizes.tolist())
        diagonal = scale * np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)
        node.replace_input_with(1, add_initializer(graph, f"{name}_weight", diagonal))
        node.replace_input_with(2, add_initializer(graph, f"{name}_bias", np.zeros(channels, np.float32)))
        node.name = name
        return True

    def remains(self, node: ir.Node) -> bool:
        """Such a factor."""
        return _between_reshapes(node) is not None


def _between_reshapes(conv: ir.Node) -> tuple[ir.Node, np.float32] | None:
    """The Reshape in front of the factor ``conv`` of one channel, and the number, if a Reshape alone reads its result.

    A factor is a convolution of 1 x 1 whose bias is zero, as :class:`AffineToDepthwise` makes it.
    """
    value, shape = conv.inputs[0], static_shape(conv.inputs[0])
    if value is None or shape is None or shape[:2] != (1, 1) or len(conv.inputs) < 3:
        return None
    weight, bias = initializer_of(conv.inputs[1]), initializer_of(conv.inputs[2])
    if weight is None or bias is None or weight.size != 1 or np.any(bias) or sole_reader(value, once=True) is not conv:
        return None
    before, behind = value.producer(), sole_reader(conv.outputs[0], once=True)
    if before is None or not is_standard(before, "Reshape") or not is_standard(behind, "Reshape"):
        return None
    return (before, np.float32(weight.reshape(-1)[0])) if static_shape(conv.outputs[0]) == shape else None


def mark_factors(model: ir.Model) -> None:
    """Mark each factor per channel of a map: from the end of a round on it is as good as a convolution.

    In its first round it lets pass what passes other arithmetic, one number as one per channel; then no movement passes
    it any more (180 of 180 branches asked on three marches). What a product gives has its first round when the product
    has become a convolution, whose movement it then meets, also behind other arithmetic: a Gelu written with its Tanh
    (48 of 48 branches asked on three marches, two marks of which 12 show); what an average gives has it when that is
    one (8 of 8). :class:`AffineToDepthwise` makes the convolution once the rounds have settled; another one that takes
    it in by then gets its bias of zeros (30 of 30).
    """
    waiting: set[ir.Node] = set()
    for node in model.graph:
        if _waits_for_product(node, waiting):
            waiting.add(node)
        elif becomes_depthwise(node):
            node.metadata_props[MARK_CONVOLUTION] = "yes"


def _waits_for_product(node: ir.Node, waiting: Collection[ir.Node]) -> bool:
    """Whether nothing has passed ``node``, which computes with what a product moves or an average gives, made just now.

    ``waiting``: the nodes before it of which that is so.
    """
    producers = [value.producer() for value in node.inputs if value is not None]
    made = any(
        each is not None
        and (
            each.metadata_props.get(MARK_MADE) in (MatMulToConv.__name__, AveragePoolToConv.__name__) or each in waiting
        )
        for each in producers
    )
    return made and MARK_MADE not in node.metadata_props and node.op_type in ELEMENTWISE


def depthwise_convolution(
    graph: ir.Graph, value: ir.Value, affine: Affine, owner: str, name: str, output: str
) -> ir.Node:
    """A 1x1 convolution of every channel alone that computes ``value * scale + offset``; it is in no graph yet.

    Args:
        graph: gets its weight and its bias.
        value: a map, NCHW.
        affine: one number per channel.
        owner: name of the node that it stands for, after which weight and bias are called.
        name: its own.
        output: name of its result.
    """
    channels = len(affine.scale)
    weight = affine.scale.astype(np.float32).reshape(channels, 1, 1, 1)
    return make_node(
        "Conv",
        [
            value,
            add_initializer(graph, f"UNIT_WEIGHT_FOR_{owner}", weight),
            add_initializer(graph, f"UNIT_BIAS_FOR_{owner}", affine.offset.astype(np.float32)),
        ],
        name=name,
        output=output,
        like=value,
        attributes={
            "kernel_shape": [1, 1],
            "strides": [1, 1],
            "pads": [0, 0, 0, 0],
            "dilations": [1, 1],
            "group": channels,
        },
    )
