"""``Gemm`` and ``MatMul`` with constant weights become convolutions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.ir import attribute
from engine.optimize.base import (
    Array,
    NodePass,
    absorb_next,
    add_initializer,
    constant,
    graph_of,
    is_standard,
    make_node,
    sole_consumer,
    static_shape,
    substitute,
)
from engine.optimize.rules import GraphRules


@dataclass(frozen=True)
class Dense:
    """``y = x @ weight + bias`` over the last axis of ``x``.

    Attributes:
        weight: float32, shape (out, in).
        weight_name: the initializer's name in the source.
        bias: float32, shape (out,); ``None`` without bias.
        bias_name: the initializer's name in the source.
    """

    weight: Array
    weight_name: str
    bias: Array | None = None
    bias_name: str = ""


class DenseToConv(NodePass):
    """``Gemm`` and ``MatMul`` by a constant matrix become a convolution and a ``Reshape``.

    Behind a flattened map the kernel covers the whole map. Otherwise rows become the batch of a 1x1 convolution. Names
    as in the original's files: weight ``<node><weight>_conv_weight``, bias ``<node><bias>_conv_bias``, output
    ``replaced_<y>``.
    """

    op_types = frozenset({"Gemm", "MatMul"})

    def __init__(self, rules: GraphRules) -> None:
        self.rules = rules

    def rewrite(self, node: ir.Node) -> bool:
        source, shape = node.inputs[0], static_shape(node.inputs[0])
        if source is None or shape is None or len(shape) < 2 or source.dtype != ir.DataType.FLOAT or node.name is None:
            return False
        if node.op_type == "MatMul":
            _absorb_bias(node)
        dense = dense_of(node)
        if dense is None:
            return False
        self._replace(node, source, shape, dense)
        return True

    def _replace(self, node: ir.Node, source: ir.Value, shape: tuple[int, ...], dense: Dense) -> None:
        graph, result = graph_of(node), node.outputs[0]
        out_channels, in_channels = dense.weight.shape
        new_nodes: list[ir.Node] = []
        map_value = flattened_map(source, in_channels)
        if map_value is None:
            rows = int(np.prod(shape[:-1]))
            target = np.asarray((-1 if shape[0] == rows else rows, in_channels, 1, 1), np.int64)
            new_nodes.append(
                make_node(
                    "Reshape",
                    [source, add_initializer(graph, f"{node.name}_reshape_input_shape_dim4", target)],
                    name=f"{node.name}_reshape_input",
                    output=f"{node.name}_reshape_input_output",
                    like=source,
                    shape=(rows, in_channels, 1, 1),
                )
            )
            map_value = new_nodes[0].outputs[0]
        map_shape = static_shape(map_value) or ()
        kernel = map_shape[2:]
        weight = dense.weight.reshape(out_channels, *map_shape[1:])
        inputs: list[ir.Value | None] = [
            map_value,
            add_initializer(graph, f"{node.name}{dense.weight_name}_conv_weight", weight.astype(np.float32)),
        ]
        if dense.bias is not None:
            name = f"{node.name}{dense.bias_name}_conv_bias"
            inputs.append(add_initializer(graph, name, dense.bias.astype(np.float32)))
        conv = make_node(
            "Conv",
            inputs,
            name=str(node.name),
            output=f"{self.rules.dense_output_prefix}{result.name}",
            like=result,
            shape=(map_shape[0], out_channels, 1, 1),
            attributes={
                "kernel_shape": list(kernel),
                "pads": [0, 0, 0, 0],
                "strides": [1, 1],
                "dilations": [1, 1],
                "group": 1,
            },
        )
        output_shape = np.asarray((-1, *(static_shape(result) or ())[1:]), np.int64)
        reshape = make_node(
            "Reshape",
            [conv.outputs[0], add_initializer(graph, f"{node.name}_reshape_output_shape_dim4", output_shape)],
            name=f"{node.name}{self.rules.dense_reshape_suffix}",
            output=f"{node.name}_reshaped",
            like=result,
        )
        substitute(node, [*new_nodes, conv, reshape])


def dense_of(node: ir.Node) -> Dense | None:
    """The constant matrix product that ``node`` is; ``None`` where an operand is computed or ``x`` is transposed."""
    weight_value = node.inputs[1]
    weight = constant(weight_value)
    if weight_value is None or weight is None or weight.ndim != 2:
        return None
    bias_value = node.inputs[2] if len(node.inputs) > 2 else None
    bias = constant(bias_value)
    if bias_value is not None and bias is None:
        return None
    if node.op_type == "Gemm":
        if attribute(node, "transA", 0):
            return None
        weight = weight if attribute(node, "transB", 0) else weight.T
        weight = _scaled(weight, attribute(node, "alpha", 1.0))
        bias = None if bias is None else _scaled(bias, attribute(node, "beta", 1.0))
    else:
        weight = weight.T
    if bias is not None:
        bias = _per_output(bias, weight.shape[0])
        if bias is None:
            return None
    return Dense(weight, str(weight_value.name), bias, str(bias_value.name) if bias_value is not None else "")


def flattened_map(value: ir.Value, features: int) -> ir.Value | None:
    """The map (N, C, H, W) that ``value`` (N, C*H*W) is a reshaped view of; ``None`` where it is none."""
    producer = value.producer()
    if not is_standard(producer, "Reshape") or producer is None or len(static_shape(value) or ()) != 2:
        return None
    source, shape = producer.inputs[0], static_shape(producer.inputs[0])
    if source is None or shape is None or len(shape) != 4 or int(np.prod(shape[1:])) != features:
        return None
    return source


def _absorb_bias(node: ir.Node) -> None:
    """Let a ``MatMul`` take the vector that a following ``Add`` adds to every row as its third input."""
    following = sole_consumer(node.outputs[0])
    weight = constant(node.inputs[1])
    if following is None or not is_standard(following, "Add") or weight is None or weight.ndim != 2:
        return
    other = following.inputs[1] if following.inputs[0] is node.outputs[0] else following.inputs[0]
    bias = constant(other)
    shape = static_shape(node.outputs[0])
    if bias is None or shape is None or static_shape(following.outputs[0]) != shape:
        return
    if _per_output(bias, weight.shape[1]) is None:
        return
    node.resize_inputs(3)
    node.replace_input_with(2, other)
    absorb_next(node, following)


def _per_output(bias: Array, outputs: int) -> Array | None:
    """``bias`` as one value per output; ``None`` where it differs between rows."""
    if bias.size == 1:
        return np.ascontiguousarray(np.broadcast_to(bias.reshape(()), (outputs,)))
    return bias.reshape(-1) if bias.size == outputs and bias.shape[-1] == outputs else None


def _scaled(array: Array, factor: float) -> Array:
    return array if factor == 1.0 else (array.astype(np.float64) * factor).astype(np.float32)
