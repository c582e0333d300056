"""``Gemm`` and ``MatMul`` with constant weights become convolutions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.ir import attribute
from engine.march import GraphRules
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

_LAST_AXIS_FIRST, _LAST_AXIS_BACK = (0, 3, 1, 2), (0, 2, 3, 1)
"""Permutations that make the last axis the channels of a map, and back."""


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

    Behind a flattened map the kernel covers the whole map. Otherwise the convolution is 1x1: over a tensor of rank 4
    whose last axis becomes its channels (measured on ``op_matmul_w``), else over the rows as its batch. Names as in the
    original's files: weight ``<node><weight>_conv_weight``, bias ``<node><bias>_conv_bias``, output ``replaced_<y>``.
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
        whole_map = flattened_map(source, dense.weight.shape[1])
        if whole_map is not None:
            conv = self._convolution(node, whole_map, dense, (static_shape(whole_map) or ())[2:])
            parts = [conv, self._restore_shape(node, conv.outputs[0])]
        elif len(shape) == 4:
            first = _transpose(node, "input", source, _LAST_AXIS_FIRST)
            conv = self._convolution(node, first.outputs[0], dense)
            parts = [first, conv, _transpose(node, "output", conv.outputs[0], _LAST_AXIS_BACK)]
        else:
            first = _rows_as_batch(node, source, dense.weight.shape[1])
            conv = self._convolution(node, first.outputs[0], dense)
            parts = [first, conv, self._restore_shape(node, conv.outputs[0])]
        substitute(node, parts)
        return True

    def _convolution(
        self, node: ir.Node, features: ir.Value, dense: Dense, kernel: tuple[int, ...] = (1, 1)
    ) -> ir.Node:
        """The convolution of ``features`` (N, C, H, W): 1x1, or with a kernel that covers the whole map."""
        graph, shape = graph_of(node), static_shape(features) or ()
        weight = dense.weight.reshape(len(dense.weight), -1, *kernel).astype(np.float32)
        inputs: list[ir.Value | None] = [
            features,
            add_initializer(graph, f"{node.name}{dense.weight_name}_conv_weight", weight),
        ]
        if dense.bias is not None:
            name = f"{node.name}{dense.bias_name}_conv_bias"
            inputs.append(add_initializer(graph, name, dense.bias.astype(np.float32)))
        return make_node(
            "Conv",
            inputs,
            name=str(node.name),
            output=f"{self.rules.dense_output_prefix}{node.outputs[0].name}",
            like=node.outputs[0],
            shape=(shape[0], len(weight), *(size - window + 1 for size, window in zip(shape[2:], kernel, strict=True))),
            attributes={
                "kernel_shape": list(kernel),
                "pads": [0, 0, 0, 0],
                "strides": [1, 1],
                "dilations": [1, 1],
                "group": 1,
            },
        )

    def _restore_shape(self, node: ir.Node, value: ir.Value) -> ir.Node:
        """The ``Reshape`` from (N, out, 1, 1) to the shape of the product."""
        result = node.outputs[0]
        target = np.asarray((-1, *(static_shape(result) or ())[1:]), np.int64)
        return make_node(
            "Reshape",
            [value, add_initializer(graph_of(node), f"{node.name}_reshape_output_shape_dim4", target)],
            name=f"{node.name}{self.rules.dense_reshape_suffix}",
            output=f"{node.name}_reshaped",
            like=result,
        )


def _transpose(node: ir.Node, side: str, value: ir.Value, perm: tuple[int, ...]) -> ir.Node:
    """The ``Transpose`` before or behind the convolution that ``node`` becomes."""
    shape = static_shape(value) or ()
    return make_node(
        "Transpose",
        [value],
        name=f"{node.name}_transpose_{side}",
        output=f"{node.name}_transpose_{side}_output",
        like=value,
        shape=tuple(shape[axis] for axis in perm),
        attributes={"perm": list(perm)},
    )


def _rows_as_batch(node: ir.Node, source: ir.Value, features: int) -> ir.Node:
    """The ``Reshape`` of ``source`` (…, features) to (rows, features, 1, 1)."""
    target = np.asarray((-1, features, 1, 1), np.int64)
    return make_node(
        "Reshape",
        [source, add_initializer(graph_of(node), f"{node.name}_reshape_input_shape_dim4", target)],
        name=f"{node.name}_reshape_input",
        output=f"{node.name}_reshape_input_output",
        like=source,
        shape=(int(np.prod((static_shape(source) or ())[:-1])), features, 1, 1),
    )


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
