"""Softmax over other axes than the last, which alone the BPU takes."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from engine.ir import shape_of
from engine.ops.softmax import softmax_axis
from engine.rewrite.base import Chain, Rewrite, float_source, opset_of_node

_ONE_AXIS = 13
"""First opset whose Softmax is over one axis; before, it is over all axes from its own on."""


class SoftmaxOverLastAxis(Rewrite):
    """``Softmax(x, axis)`` as ``Transpose``, ``Softmax`` over the last axis, ``Transpose``."""

    name = "softmax"
    says = "A Softmax over another axis than the last is computed over the last, with a Transpose on both sides."
    op_types = frozenset({"Softmax"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        source = float_source(node)
        if source is None:
            return False
        if is_over_last_axis(node):
            return False
        axes = axes_of_softmax(node)
        if len(axes) > 1:
            self.remarks.append(
                f"{node.name} (Softmax): before opset 13 it normalises over all axes from its own on, here "
                f"{len(axes)}; if only the first of them is meant, export the network at opset 13"
            )
        result = softmax_over_last(chain, source, axes)
        self.requests += [str(each.name) for each in chain.nodes if each.op_type == "Softmax"]
        return result is not None


def axes_of_softmax(node: ir.Node) -> tuple[int, ...]:
    """Axes that a ``Softmax`` normalises over."""
    rank, axis = len(shape_of(node.outputs[0])), softmax_axis(node)
    return (axis,) if opset_of_node(node) >= _ONE_AXIS else tuple(range(axis, rank))


def is_over_last_axis(node: ir.Node) -> bool:
    """Whether ``node`` normalises the last axis, and axes of length 1 besides."""
    shape = shape_of(node.outputs[0])
    long = [axis for axis in axes_of_softmax(node) if shape[axis] > 1]
    return long in ([], [len(shape) - 1]) and softmax_axis(node) == len(shape) - 1


def softmax_over_last(chain: Chain, source: ir.Value, axes: tuple[int, ...]) -> ir.Value | None:
    """Append a Softmax of ``source`` over ``axes``, one or all from one on, as one over the last axis of rank 4."""
    shape = shape_of(source)
    rank = len(shape)
    long = [axis for axis in axes if shape[axis] > 1]
    if rank > 4:
        return None
    if len(long) > 1 or (long and long[0] == rank - 1):  # several axes are one, the last
        rows, length = prod(shape[: axes[0]]), prod(shape[axis] for axis in axes)
        flat = chain.reshape(source, (1, 1, rows, length))
        return chain.reshape(_last(chain, flat), shape)
    axis = long[0] if long else rank - 1
    ahead = (1,) * (4 - rank)
    lifted = chain.reshape(source, (*ahead, *shape))
    perm = [0, 1, 2, 3]
    moved = axis + 4 - rank
    perm[moved], perm[3] = perm[3], perm[moved]
    return chain.reshape(chain.transpose(_last(chain, chain.transpose(lifted, perm)), perm), shape)


def _last(chain: Chain, value: ir.Value) -> ir.Value:
    return chain.add("Softmax", [value], axis=len(shape_of(value)) - 1)
