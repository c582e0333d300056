"""GroupNorm, and LayerNorm over whole maps, as exporters write them: pooling and 1x1 convolutions.

The mean of a group is that of its channels' means: a global pooling, and a 1x1 convolution that averages the channels
of each group. So every tensor stays a map of rank 4, which all marches compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import attribute, shape_of, static_shape
from engine.optimize.base import axes_of, initializer_of, is_standard
from engine.rewrite.base import Array, Chain, Rewrite, has_shapes, is_float, opset_of_node

MAP_RANK = 4
SCALES_PER_CHANNEL = 21
"""First opset whose GroupNormalization has a scale per channel; before, it has one per group."""


@dataclass(frozen=True)
class Grouped:
    """A normalisation of a map by the mean and variance of groups of channels.

    Attributes:
        source: shape (N, C, H, W).
        groups: of neighbouring channels.
        epsilon: added to the variance.
        scale, bias: float32, shape (C,).
        nodes: that compute it, for messages.
    """

    source: ir.Value
    groups: int
    epsilon: float
    scale: Array
    bias: Array
    nodes: tuple[ir.Node, ...]


class GroupNormOfMaps(Rewrite):
    """GroupNormalization; Reshape, InstanceNormalization, Reshape; or the arithmetic on a tensor of rank 5."""

    name = "group_norm"
    says = (
        "GroupNorm becomes global poolings and 1x1 convolutions that average the channels of each group, on maps of "
        "rank 4."
    )
    everywhere = True
    op_types = frozenset({"GroupNormalization", "Reshape", "Mul", "Div"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        if not has_shapes(node) or not is_float(node):
            return False
        match node.op_type:
            case "GroupNormalization":
                found = _of_operator(node)
            case "Reshape":
                found = _of_instance_norm(node) or _of_arithmetic(node)
            case _:
                found = _of_arithmetic(node)
        if found is None:
            return False
        _write(chain, found)
        self.places += [str(each.name) for each in found.nodes if each is not node]
        return True


def _write(chain: Chain, norm: Grouped) -> None:
    shape = shape_of(norm.source)
    batch, channels = shape[:2]
    size = channels // norm.groups
    block = np.kron(np.eye(norm.groups), np.full((size, size), 1 / size)).astype(np.float32)
    pooled_shape = (batch, channels, 1, 1)

    def mean(value: ir.Value, what: str, sign: float, bias: float) -> ir.Value:
        pooled = chain.add("GlobalAveragePool", [value], pooled_shape)
        kernel = chain.constant(f"{what}_weights", sign * block.reshape(channels, channels, 1, 1))
        offset = chain.constant(f"{what}_bias", np.full(channels, bias, np.float32))
        return chain.add("Conv", [pooled, kernel, offset], pooled_shape, kernel_shape=[1, 1])

    centred = chain.add("Add", [norm.source, mean(norm.source, "mean", -1.0, 0.0)], shape)
    variance = mean(chain.add("Mul", [centred, centred], shape), "variance", 1.0, norm.epsilon)
    inverse = chain.add("Reciprocal", [chain.add("Sqrt", [variance])])
    result = chain.add("Mul", [centred, inverse], shape)
    if not np.all(norm.scale == 1):
        result = chain.add("Mul", [result, chain.constant("scale", norm.scale.reshape(1, -1, 1, 1))], shape)
    if np.any(norm.bias):
        chain.add("Add", [result, chain.constant("bias", norm.bias.reshape(1, -1, 1, 1))], shape)


def _of_operator(node: ir.Node) -> Grouped | None:
    source, scale, bias = node.inputs[0], initializer_of(node.inputs[1]), initializer_of(node.inputs[2])
    if source is None or scale is None or bias is None or len(shape_of(source)) != MAP_RANK:
        return None
    groups, channels = attribute(node, "num_groups"), shape_of(source)[1]
    repeats = channels // groups if opset_of_node(node) < SCALES_PER_CHANNEL else 1
    return Grouped(
        source,
        groups,
        attribute(node, "epsilon", 1e-5),
        np.repeat(scale, repeats),
        np.repeat(bias, repeats),
        (node,),
    )


def _of_instance_norm(node: ir.Node) -> Grouped | None:
    """``node``: the Reshape back to the map."""
    norm = None if node.inputs[0] is None else node.inputs[0].producer()
    before = None if norm is None or norm.inputs[0] is None else norm.inputs[0].producer()
    if norm is None or before is None or not is_standard(norm, "InstanceNormalization"):
        return None
    if not is_standard(before, "Reshape") or sole_reader(norm.outputs[0], once=True) is not node:
        return None
    source, inner = before.inputs[0], static_shape(norm.outputs[0])
    scale, bias = initializer_of(norm.inputs[1]), initializer_of(norm.inputs[2])
    if source is None or inner is None or scale is None or bias is None:
        return None
    groups = _groups(source, inner, node)
    if groups is None or groups != inner[1]:
        return None
    repeats = shape_of(source)[1] // groups
    return Grouped(
        source,
        groups,
        attribute(norm, "epsilon", 1e-5),
        np.repeat(scale, repeats),
        np.repeat(bias, repeats),
        (before, norm, node),
    )


def _groups(source: ir.Value, inner: tuple[int, ...], last: ir.Node) -> int | None:
    """Number of groups where a map is reshaped to (N, groups, ...) and back; None where it is not."""
    shape = static_shape(source)
    if shape is None or len(shape) != MAP_RANK or static_shape(last.outputs[0]) != shape or len(inner) < 3:
        return None
    channels, groups = shape[1], inner[1]
    whole = inner[0] == shape[0] and channels % groups == 0 and prod(inner[2:]) == prod(shape[1:]) // groups
    return groups if whole else None


def _of_arithmetic(node: ir.Node) -> Grouped | None:
    """``(x - mean) / sqrt(variance + epsilon)`` over all axes of the groups, of a reshaped map or over a whole one."""
    last = node
    if node.op_type == "Reshape":
        producer = None if node.inputs[0] is None else node.inputs[0].producer()
        if producer is None or not is_standard(producer, "Mul", "Div"):
            return None
        if sole_reader(producer.outputs[0], once=True) is not node:
            return None
        node = producer
    found = _quotient(node)
    if found is None:
        return None
    centred, variance, epsilon = found
    source, mean = centred.inputs
    if source is None or mean is None or _is_other_mean(mean, source) or not _is_square_mean(variance, centred):
        return None
    shape = shape_of(source)
    if _reduced(mean.producer(), shape) != tuple(range(2, len(shape))) and _reduced(mean.producer(), shape) != (
        1,
        2,
        3,
    ):
        return None
    if _reduced(variance.producer(), shape) != _reduced(mean.producer(), shape):
        return None
    if last is node:  # over a whole map: one group
        if len(shape) != MAP_RANK or _reduced(mean.producer(), shape) != (1, 2, 3):
            return None
        ones = np.ones(shape[1], np.float32)
        return Grouped(source, 1, epsilon, ones, 0 * ones, (centred, node))
    before = source.producer()
    if before is None or not is_standard(before, "Reshape") or before.inputs[0] is None or len(shape) < 3:
        return None
    groups = _groups(before.inputs[0], shape, last)
    if groups is None or _reduced(mean.producer(), shape) != tuple(range(2, len(shape))):
        return None
    ones = np.ones(shape_of(before.inputs[0])[1], np.float32)
    return Grouped(before.inputs[0], groups, epsilon, ones, 0 * ones, (before, centred, node, last))


def _quotient(node: ir.Node) -> tuple[ir.Node, ir.Value, float] | None:
    """The difference, the variance and epsilon of ``d / sqrt(v + e)`` or ``d * (1 / sqrt(v + e))``."""
    centred, divisor = node.inputs
    if centred is None or divisor is None:
        return None
    if node.op_type == "Mul":
        pairs = [(centred, divisor), (divisor, centred)]
        for first, second in pairs:
            inverse = second.producer()
            if inverse is not None and is_standard(inverse, "Reciprocal") and inverse.inputs[0] is not None:
                centred, divisor = first, inverse.inputs[0]
                break
        else:
            return None
    difference, root = centred.producer(), divisor.producer()
    if difference is None or root is None or not is_standard(difference, "Sub") or not is_standard(root, "Sqrt"):
        return None
    total = None if root.inputs[0] is None else root.inputs[0].producer()
    if total is None or not is_standard(total, "Add"):
        return None
    for value, other in (tuple(total.inputs), tuple(reversed(total.inputs))):
        epsilon = initializer_of(other)
        if value is not None and epsilon is not None and epsilon.size == 1:
            return difference, value, float(epsilon.ravel()[0])
    return None


def _is_other_mean(mean: ir.Value, source: ir.Value) -> bool:
    node = mean.producer()
    return node is None or not is_standard(node, "ReduceMean") or node.inputs[0] is not source


def _is_square_mean(variance: ir.Value, centred: ir.Node) -> bool:
    """Whether ``variance`` is the mean of the squares of the difference ``centred``."""
    mean = variance.producer()
    square = None if mean is None or mean.inputs[0] is None else mean.inputs[0].producer()
    if mean is None or square is None or not is_standard(mean, "ReduceMean"):
        return False
    result = centred.outputs[0]
    if is_standard(square, "Mul"):
        return square.inputs[0] is result and square.inputs[1] is result
    power = initializer_of(square.inputs[1]) if is_standard(square, "Pow") else None
    return power is not None and square.inputs[0] is result and power.size == 1 and float(power.ravel()[0]) == 2.0


def _reduced(node: ir.Node | None, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Axes that a ReduceMean that keeps them is over."""
    if node is None or not attribute(node, "keepdims", 1):
        return None
    return axes_of(node, len(shape))
