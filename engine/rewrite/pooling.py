"""Pooling over one and over three axes, as two-dimensional ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from engine.ir import attribute, shape_of
from engine.optimize.base import ints
from engine.rewrite.base import Chain, Rewrite, float_source

_GLOBAL = {"GlobalAveragePool": "AveragePool", "GlobalMaxPool": "MaxPool"}
_AUTO = ("", "NOTSET", "VALID")


@dataclass(frozen=True)
class PoolWindow:
    """A pooling, an entry per spatial axis.

    Attributes:
        op_type: ``MaxPool`` or ``AveragePool``.
        kernel, strides, before, after, dilations: of it.
        counts_pads: whether padding counts in an average.
    """

    op_type: str
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilations: tuple[int, ...]
    counts_pads: bool

    def of(self, axes: Sequence[int | None]) -> dict[str, Any]:
        """Attributes of the two-dimensional pooling over ``axes`` of this one; ``None`` pools nothing."""

        def pick(values: tuple[int, ...], nothing: int) -> list[int]:
            return [nothing if axis is None else values[axis] for axis in axes]

        found: dict[str, Any] = {
            "kernel_shape": pick(self.kernel, 1),
            "strides": pick(self.strides, 1),
            "pads": [*pick(self.before, 0), *pick(self.after, 0)],
        }
        if self.op_type == "AveragePool":
            return {**found, "count_include_pad": int(self.counts_pads)}
        return {**found, **({"dilations": pick(self.dilations, 1)} if set(self.dilations) != {1} else {})}


class PoolingInSteps(Rewrite):
    """Pooling of rank 5 as one over height and width and one over depth; of rank 3 with a height of 1."""

    name = "pooling"
    says = (
        "Pooling over three axes becomes one over height and width and one over depth; over one axis, one with a "
        "height of 1."
    )
    op_types = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        source = float_source(node)
        if source is None or len(node.outputs) > 1:
            return False
        shape, result = shape_of(source), shape_of(node.outputs[0])
        if len(shape) not in (3, 5):
            return False
        window = pool_window(node, shape[2:])
        if window is None:
            self.remarks.append(f"{node.name} ({node.op_type}): auto_pad or ceil_mode; it stays on the CPU")
            return False
        batch, channels = shape[:2]
        if len(shape) == 3:
            flat = chain.reshape(source, (batch, channels, 1, shape[2]))
            pooled = chain.add(window.op_type, [flat], (batch, channels, 1, result[2]), **window.of((None, 0)))
            chain.reshape(pooled, result)
            return True
        depth, height, width = result[2:]
        maps = chain.reshape(source, (batch, channels * shape[2], *shape[3:]))
        flat = chain.add(window.op_type, [maps], (batch, channels * shape[2], height, width), **window.of((1, 2)))
        rows = chain.reshape(flat, (batch, channels, shape[2], height * width))
        pooled = chain.add(window.op_type, [rows], (batch, channels, depth, height * width), **window.of((0, None)))
        chain.reshape(pooled, result)
        return True


def pool_window(node: ir.Node, sides: tuple[int, ...]) -> PoolWindow | None:
    """What ``node`` pools; None where its sizes are not written out, or rounded up."""
    rank = len(sides)
    ones, zeros = (1,) * rank, (0,) * (2 * rank)
    if node.op_type in _GLOBAL:
        return PoolWindow(_GLOBAL[node.op_type], sides, ones, zeros[:rank], zeros[:rank], ones, counts_pads=False)
    if attribute(node, "auto_pad", "") not in _AUTO or attribute(node, "ceil_mode", 0):
        return None
    pads = ints(node, "pads", zeros)
    return PoolWindow(
        node.op_type,
        ints(node, "kernel_shape", ones),
        ints(node, "strides", ones),
        pads[:rank],
        pads[rank:],
        ints(node, "dilations", ones),
        counts_pads=bool(attribute(node, "count_include_pad", 0)),
    )
