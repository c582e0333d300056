"""Averages at the border, which the BPU divides by the size of the window, made those of the float network."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of
from engine.optimize.base import ints
from engine.rewrite.base import Array, Chain, Rewrite, float_source

_SAME = ("SAME_UPPER", "SAME_LOWER")


class BorderAverage(Rewrite):
    """``AveragePool`` that leaves its border out as one that counts it, times a constant map.

    A window of n values of which m lie on the map has the average ``sum / m``; the pool that counts the border gives
    ``sum / n``, and the map holds ``n / m``. Windows that ``ceil_mode`` lets reach beyond the border are the same case:
    the border becomes as wide as they need.
    """

    name = "border_average"
    says = (
        "Averages at the border, which the BPU divides by the size of the whole window, are multiplied by a constant "
        "map that makes them those of the float network."
    )
    op_types = frozenset({"AveragePool"})
    everywhere = True
    for_accuracy = True

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        source = float_source(node)
        if source is None or len(shape_of(source)) != 4:
            return False
        if attribute(node, "count_include_pad", 0) or max(ints(node, "dilations", (1, 1))) > 1:
            return False
        size, pooled = shape_of(source)[2:], shape_of(node.outputs[0])[2:]
        kernel, strides = ints(node, "kernel_shape", ()), ints(node, "strides", (1, 1))
        reach = [(count - 1) * stride + window for count, stride, window in zip(pooled, strides, kernel, strict=True)]
        first = self._first(node, size, reach)
        last = [max(0, end - side - begin) for end, side, begin in zip(reach, size, first, strict=True)]
        if not any((*first, *last)):
            return False
        axes = zip(size, pooled, kernel, strides, first, strict=True)
        rows, columns = (_counts(*axis) for axis in axes)
        if min(rows.min(), columns.min()) < 1:  # a window beside the map, whose average is not defined
            return False
        whole = kernel[0] * kernel[1]
        pool = chain.add(
            "AveragePool",
            [source],
            shape_of(node.outputs[0]),
            kernel_shape=list(kernel),
            strides=list(strides),
            pads=[*first, *last],
            count_include_pad=1,
        )
        shares = (whole / np.outer(rows, columns))[np.newaxis, np.newaxis].astype(np.float32)
        chain.add("Mul", [pool, chain.constant("border", shares)], shape_of(node.outputs[0]))
        return True

    @staticmethod
    def _first(node: ir.Node, size: tuple[int, ...], reach: list[int]) -> list[int]:
        """Rows above and columns left of the map."""
        auto = attribute(node, "auto_pad", "NOTSET")
        if auto not in _SAME:
            return list(ints(node, "pads", (0, 0, 0, 0))[:2])
        total = [max(0, end - side) for end, side in zip(reach, size, strict=True)]
        return [count // 2 if auto == "SAME_UPPER" else count - count // 2 for count in total]


def _counts(size: int, pooled: int, window: int, stride: int, first: int) -> Array:
    """Values of the map in every window along one axis."""
    starts = np.arange(pooled) * stride - first
    counts: Array = np.minimum(starts + window, size) - np.maximum(starts, 0)
    return counts
