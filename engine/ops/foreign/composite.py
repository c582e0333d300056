"""Float operators of domain ``horizon``: what the optimiser creates, what they compute, what they are in standard ONNX.

One table, :data:`COMPOSITES`. The element-wise ones carry the numpy function that look-up tables are filled with
(reference/arithmetic.md 2.7); all of them expand to standard nodes, so that ONNX Runtime can run a float stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedOpsetsPass

from engine.errors import ModelError
from engine.ir import HORIZON_DOMAIN, attribute, shape_of
from engine.ops.core.special import error_function, sigmoid

Array = NDArray[Any]
Function = Callable[[Array, Mapping[str, Any]], Array]

PREPROCESS = "HzPreprocess"


class CompositeExpansion:
    """Collects the standard nodes that stand for one composite node, with names derived from it."""

    def __init__(self, node: ir.Node) -> None:
        self.node = node
        self.nodes: list[ir.Node] = []

    def add(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Append a node; its output."""
        name = f"{self.node.name}_{op_type}_{len(self.nodes)}"
        value = ir.Value(name=f"{name}_output", type=self.node.outputs[0].type)
        self.nodes.append(ir.node(op_type, inputs, attributes, outputs=[value], name=name))
        return value

    def scalar(self, number: float) -> ir.Value:
        """A float32 constant."""
        return self.constant(np.asarray(number, np.float32))

    def shape(self, dims: Sequence[int]) -> ir.Value:
        """An int64 vector."""
        return self.constant(np.asarray(dims, np.int64))

    def constant(self, array: Array) -> ir.Value:
        """A constant of the array's type."""
        tensor = ir.Tensor(array)
        value = ir.Value(
            name=f"{self.node.name}_Constant_{len(self.nodes)}",
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(array.shape),
            const_value=tensor,
        )
        name = f"{self.node.name}_constant_{len(self.nodes)}"
        # Inferring the type of the attribute would take longer than all the rest.
        self.nodes.append(ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], outputs=[value], name=name))
        return value


Expand = Callable[[CompositeExpansion, Sequence[ir.Value]], None]
"""Appends the standard nodes of a composite that reads these inputs; the last one computes the result."""


@dataclass(frozen=True)
class Composite:
    """One float operator of domain ``horizon``.

    Attributes:
        expand: appends the standard nodes; the last one computes the result.
        function: ``f(x, attributes)`` where the operator is element-wise, in the precision of ``x``; else ``None``.
    """

    expand: Expand
    function: Function | None = None


def expand_composites(model: ir.Model, keep: Callable[[ir.Node], bool] | None = None) -> ir.Model:
    """A copy of ``model`` in which every composite is replaced by standard ONNX nodes; other nodes stay as they are.

    Composites that ``keep`` names stay too.

    Outputs keep their names, so that any tensor of the graph can be fetched from either form.
    """
    model = model.clone()
    for node in tuple(model.graph):
        if node.domain == HORIZON_DOMAIN and node.op_type in COMPOSITES and not (keep is not None and keep(node)):
            expand(model.graph, node)
    RemoveUnusedOpsetsPass()(model)
    return model


def reads_integers(node: ir.Node) -> bool:
    """Whether a node that could be a composite or the quantised operator of that name is the latter.

    That says how its map lies; a shuffle on the CPU, in files of the original, does not.
    """
    dtype = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    return "data_format" in node.attributes or (dtype is not None and dtype.is_integer())


def expand(graph: ir.Graph, node: ir.Node) -> Sequence[ir.Node]:
    """Replace the composite ``node`` of ``graph``, in place, by the standard nodes that are returned."""
    return expand_as(graph, node, COMPOSITES[node.op_type].expand)


def expand_as(graph: ir.Graph, node: ir.Node, form: Expand) -> Sequence[ir.Node]:
    """Replace ``node`` as :func:`expand` does, by the nodes that ``form`` appends."""
    expansion = CompositeExpansion(node)
    form(expansion, [value for value in node.inputs if value is not None])
    last = expansion.nodes[-1].outputs[0]
    ir.convenience.replace_nodes_and_values(graph, node, [node], expansion.nodes, [node.outputs[0]], [last])
    return expansion.nodes


def swish(x: Array, _: Mapping[str, Any]) -> Array:
    """``x * sigmoid(x)``."""
    return np.asarray(x * sigmoid(x))


def hard_swish(x: Array, _: Mapping[str, Any]) -> Array:
    """``x * clip(x + 3, 0, 6) / 6``: the order of a float32 table that the original shows (``mobilenet_v3_c``)."""
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6, x.dtype)


def mish(x: Array, _: Mapping[str, Any]) -> Array:
    """``x * tanh(log(1 + exp(x)))``."""
    return np.asarray(x * np.tanh(np.logaddexp(x, np.zeros((), x.dtype))), x.dtype)


def gelu(x: Array, _: Mapping[str, Any]) -> Array:
    """``0.5 * x * (1 + erf(x / sqrt(2)))``."""
    return np.asarray(0.5 * x * (1 + error_function(x * math.sqrt(0.5))), x.dtype)


def rsqrt(x: Array, attributes: Mapping[str, Any]) -> Array:
    """``1 / sqrt(x + epsilon)``, or ``1 / (sqrt(x) + epsilon)`` where ``is_sqrt_add_reciprocal`` is 1."""
    inside, outside = (np.float32(each) for each in epsilons_of_rsqrt(attributes))
    with np.errstate(all="ignore"):
        return np.asarray(1 / (np.sqrt(x + inside) + outside), x.dtype)


def epsilons_of_rsqrt(attributes: Mapping[str, Any]) -> tuple[float, float]:
    """What an ``HzRsqrt`` adds below its root, and behind it."""
    epsilon = float(attributes.get("epsilon", 0.0))
    return (0.0, epsilon) if attributes.get("is_sqrt_add_reciprocal", 0) else (epsilon, 0.0)


def _expand_preprocess(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    image, weight, bias = inputs
    node = expansion.node
    channels_last = attribute(node, "data_format", "NCHW") == "NHWC"
    shape = image.shape
    if channels_last and shape is not None:
        shape = ir.Shape([shape[axis] for axis in (0, 3, 1, 2)])
    if channels_last:
        image = expansion.add("Transpose", image, perm=[0, 3, 1, 2])
        image.shape = shape
    result = expansion.add("Conv", image, weight, bias, kernel_shape=[1, 1], group=attribute(node, "channel_group", 1))
    result.shape = shape
    if channels_last:
        expansion.add("Transpose", result, perm=[0, 2, 3, 1])


def _expand_shuffle(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    shape = shape_of(inputs[0])
    group = attribute(expansion.node, "group")
    if group is None or shape[1] % group:
        raise ModelError(f"node {expansion.node.name!r}: group {group} does not divide {shape[1]} channels")
    split = expansion.add("Reshape", inputs[0], expansion.shape((0, group, shape[1] // group, *shape[2:])))
    split.shape = ir.Shape((shape[0], group, shape[1] // group, *shape[2:]))
    swapped = expansion.add("Transpose", split, perm=[0, 2, 1, 3, 4])
    swapped.shape = ir.Shape((shape[0], shape[1] // group, group, *shape[2:]))
    expansion.add("Reshape", swapped, expansion.shape((0, *shape[1:]))).shape = ir.Shape(shape)


def _expand_swish(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    expansion.add("Mul", inputs[0], expansion.add("Sigmoid", inputs[0]))


def _expand_hard_swish(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    """``x * clip(x + 3, 0, 6) / 6``: the order that gives the original's thresholds of MobileNetV3 bit for bit."""
    shifted = expansion.add("Add", inputs[0], expansion.scalar(3.0))
    bounded = expansion.add("Min", expansion.add("Max", shifted, expansion.scalar(0.0)), expansion.scalar(6.0))
    expansion.add("Div", expansion.add("Mul", inputs[0], bounded), expansion.scalar(6.0))


def _expand_mish(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    expansion.add("Mul", inputs[0], expansion.add("Tanh", expansion.add("Softplus", inputs[0])))


def _expand_gelu(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    erf = expansion.add("Erf", expansion.add("Mul", inputs[0], expansion.scalar(math.sqrt(0.5))))
    halved = expansion.add("Mul", inputs[0], expansion.scalar(0.5))
    expansion.add("Mul", halved, expansion.add("Add", erf, expansion.scalar(1.0)))


def _expand_rsqrt(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    epsilon = expansion.scalar(attribute(expansion.node, "epsilon", 0.0))
    if attribute(expansion.node, "is_sqrt_add_reciprocal", 0):
        divisor = expansion.add("Add", expansion.add("Sqrt", inputs[0]), epsilon)
    else:
        divisor = expansion.add("Sqrt", expansion.add("Add", inputs[0], epsilon))
    expansion.add("Reciprocal", divisor)


def axis_of_softmax(node: ir.Node, rank: int) -> int:
    """The axis, from 0 on, of an ``HzSoftmax`` of a tensor of ``rank``.

    Raises:
        ModelError: there is no such axis.
    """
    axis = attribute(node, "axis")
    if axis is None or not -rank <= axis < rank:
        raise ModelError(f"node {node.name!r}: axis is {axis}; allowed: {-rank} to {rank - 1}")
    return int(axis) % rank


def _expand_softmax(expansion: CompositeExpansion, inputs: Sequence[ir.Value]) -> None:
    """Over one axis alone; before operator set 13 ``Softmax`` takes all axes from its own on as one."""
    rank = len(shape_of(inputs[0]))
    axis = axis_of_softmax(expansion.node, rank)
    swapped = list(range(rank))
    swapped[axis], swapped[-1] = swapped[-1], swapped[axis]
    if swapped[-1] == rank - 1:
        expansion.add("Softmax", inputs[0], axis=rank - 1)
        return
    last = expansion.add("Softmax", expansion.add("Transpose", inputs[0], perm=swapped), axis=rank - 1)
    expansion.add("Transpose", last, perm=swapped)


COMPOSITES: Mapping[str, Composite] = {
    PREPROCESS: Composite(_expand_preprocess),
    "HzChannelShuffle": Composite(_expand_shuffle),
    "HzSwish": Composite(_expand_swish, swish),
    "HzHardSwish": Composite(_expand_hard_swish, hard_swish),
    "HzMish": Composite(_expand_mish, mish),
    "HzGelu": Composite(_expand_gelu, gelu),
    "HzRsqrt": Composite(_expand_rsqrt, rsqrt),
    "HzSoftmax": Composite(_expand_softmax),
}
"""Every float operator of domain ``horizon`` but ``HzCalibration``, by operator type."""
