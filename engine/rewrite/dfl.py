"""Distances of detectors' boxes as expected values of distributions (distribution focal loss): a convolution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import attribute, shape_of
from engine.optimize.base import axes_of, initializer_of, is_standard
from engine.rewrite.base import Array, Chain, Rewrite, has_shapes, is_float
from engine.rewrite.softmax import axes_of_softmax


@dataclass(frozen=True)
class Expectation:
    """A Softmax whose result is weighted and summed over the axis that it normalises.

    Attributes:
        source: what the Softmax reads.
        axis: that is summed, of rank 4.
        weights: float32, shape (length of the axis,).
        softmax: the node.
    """

    source: ir.Value
    axis: int
    weights: Array
    softmax: ir.Node


class DflAsConvolution(Rewrite):
    """Softmax and weighted sum as a Softmax over the last axis and a 1x1 convolution of one channel."""

    name = "dfl"
    says = (
        "The expected value of a distribution (Softmax, weights, sum, as in heads with DFL) becomes a Softmax over the "
        "last axis and a 1x1 convolution to one channel."
    )
    everywhere = True
    op_types = frozenset({"Conv", "MatMul", "ReduceSum"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        if not has_shapes(node) or not is_float(node):
            return False
        found = expectation(node)
        if found is None:
            return False
        shape, axis = shape_of(found.source), found.axis
        others = [index for index in range(4) if index != axis]
        # Behind a Transpose to (batch, rest, rest, axis) and one that makes the axis the channels, as torch writes a
        # Softmax over channels: the pair is taken into the Softmax where the source has the axis there already.
        last = chain.transpose(found.source, [others[0], others[2], others[1], axis])
        softmax = chain.add("Softmax", [last], axis=3)
        self.requests.append(str(chain.nodes[-1].name))
        channels = chain.transpose(softmax, [0, 3, 2, 1])
        weights = chain.constant("weights", found.weights.reshape(1, -1, 1, 1).astype(np.float32))
        summed_shape = (shape[others[0]], 1, shape[others[1]], shape[others[2]])
        summed = chain.add("Conv", [channels, weights], summed_shape, kernel_shape=[1, 1])
        chain.reshape(summed, shape_of(node.outputs[0]))
        self.places.append(str(found.softmax.name))
        return True


def expectation(node: ir.Node) -> Expectation | None:
    """What ``node``, the last of a pattern, computes; None where it is none, or a form that runs as it is."""
    match node.op_type:
        case "Conv":
            found = _of_convolution(node)
        case "MatMul":
            found = _of_product(node)
        case _:
            found = _of_sum(node)
    return found


def is_expectation_layer(node: ir.Node) -> bool:
    """Whether ``node`` has weights that were not trained: the whole numbers from 0, which DFL sums with."""
    index = 1
    weights = initializer_of(node.inputs[index]) if len(node.inputs) > index else None
    return weights is not None and weights.size > 1 and np.array_equal(weights.ravel(), np.arange(weights.size))


def _softmax_before(value: ir.Value | None, axis: int) -> ir.Node | None:
    """The Softmax over ``axis`` alone that gives ``value``, of rank 4, and that nothing else reads."""
    node = None if value is None else value.producer()
    if node is None or not is_standard(node, "Softmax") or node.inputs[0] is None:
        return None
    shape = shape_of(node.outputs[0])
    if len(shape) != 4 or sole_reader(node.outputs[0], once=True) is None:
        return None
    long = [each for each in axes_of_softmax(node) if shape[each] > 1]
    return node if long == [axis] else None


def _of_convolution(node: ir.Node) -> Expectation | None:
    """Softmax over the channels, Conv 1x1 to one channel."""
    weights = initializer_of(node.inputs[1]) if len(node.inputs) == 2 else None
    if weights is None or weights.shape[0] != 1 or weights.shape[2:] != (1, 1) or attribute(node, "group", 1) != 1:
        return None
    if any(attribute(node, "pads", ())) or set(attribute(node, "strides", (1,))) != {1}:
        return None
    softmax = _softmax_before(node.inputs[0], 1)
    if softmax is None or softmax.inputs[0] is None:
        return None
    return Expectation(softmax.inputs[0], 1, weights.ravel(), softmax)


def _of_product(node: ir.Node) -> Expectation | None:
    """Softmax over the last axis, MatMul with a vector."""
    weights = initializer_of(node.inputs[1])
    if weights is None or weights.size != weights.shape[0] or weights.size < 2:
        return None
    softmax = _softmax_before(node.inputs[0], 3)
    if softmax is None or softmax.inputs[0] is None:
        return None
    return Expectation(softmax.inputs[0], 3, weights.ravel(), softmax)


def _of_sum(node: ir.Node) -> Expectation | None:
    """Softmax over one axis, Mul with weights along it, ReduceSum over it."""
    product = None if node.inputs[0] is None else node.inputs[0].producer()
    if product is None or not is_standard(product, "Mul") or sole_reader(product.outputs[0], once=True) is not node:
        return None
    shape = shape_of(product.outputs[0])
    axes = axes_of(node, len(shape))
    if axes is None or len(axes) != 1 or len(shape) != 4:
        return None
    for value, other in (tuple(product.inputs), tuple(reversed(product.inputs))):
        weights = initializer_of(other)
        softmax = _softmax_before(value, axes[0])
        if weights is None or softmax is None or softmax.inputs[0] is None:
            continue
        full = weights.reshape((1,) * (4 - weights.ndim) + weights.shape) if weights.ndim <= 4 else weights
        if full.ndim == 4 and full.size == full.shape[axes[0]] == shape[axes[0]]:
            return Expectation(softmax.inputs[0], axes[0], full.ravel(), softmax)
    return None
