"""Convolutions whose kernels cover what a ``Reshape`` made channels of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from engine.ir import attribute, static_shape
from engine.optimize.base import NodePass, initializer_of, ints, is_standard, replace_constant

LONGEST_COVERED_SIDE = 7
"""Longest side of a map that a kernel covers: sides of 1 to 7 are covered, 8, 9 and 12 are not (78 asked)."""
_MAP_RANK = 4
_PIXEL = (1, 1)


class CoverByKernel(NodePass):
    """A 1x1 convolution of channels that a ``Reshape`` made of rows, or of a whole map, has a kernel that covers them.

    (N, C, H, W) to (N, C * H, 1, W) becomes a kernel of (H, 1), to (N, C * H * W, 1, 1) one of (H, W), if no side is
    longer than :data:`LONGEST_COVERED_SIDE`; whatever gives the map and whatever else reads the ``Reshape``, if that is
    no output: 137 of 137 asked on bayes-e and bernoulli2 each, products and Gemms of lines and maps among them, and the
    steps of LSTMs. Not convolutions in groups, with strides or pads, nor where the columns, a part of the rows or the
    batch become channels.
    """

    op_types = frozenset({"Conv"})

    def rewrite(self, node: ir.Node) -> bool:
        found, weight = _covered(node), initializer_of(node.inputs[1])
        if found is None or weight is None:
            return False
        replace_constant(node, 1, weight.reshape(len(weight), -1, *found.kernel))
        node.replace_input_with(0, found.source)
        node.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", found.kernel)
        return True

    def remains(self, node: ir.Node) -> bool:
        """Such a convolution."""
        return _covered(node) is not None


@dataclass(frozen=True)
class _Covered:
    """What a convolution can read instead of a ``Reshape`` of it: a map, and the kernel that it takes."""

    source: ir.Value
    kernel: tuple[int, int]


def _covered(node: ir.Node) -> _Covered | None:
    """What ``node`` can cover; ``None`` of any other convolution."""
    read, weight = node.inputs[0], initializer_of(node.inputs[1])
    reshape = None if read is None else read.producer()
    if read is None or reshape is None or weight is None or not is_standard(reshape, "Reshape"):
        return None
    source, before, after = reshape.inputs[0], static_shape(reshape.inputs[0]), static_shape(read)
    if source is None or before is None or after is None or read.is_graph_output():
        return None
    kernel = _kernel(before, after) if _is_of_pixels(node, weight.shape) else None
    return None if kernel is None or max(kernel) > LONGEST_COVERED_SIDE else _Covered(source, kernel)


def _kernel(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, int] | None:
    """The part of a map of shape ``before`` that becomes channels of ``after``; ``None`` where another part does."""
    if len(before) != _MAP_RANK or len(after) != _MAP_RANK:
        return None
    for kernel in ((before[2], 1), before[2:]):
        rest = tuple(size - window + 1 for size, window in zip(before[2:], kernel, strict=True))
        if kernel != _PIXEL and after == (before[0], before[1] * math.prod(kernel), *rest):
            return kernel[0], kernel[1]
    return None


def _is_of_pixels(node: ir.Node, weight: tuple[int, ...]) -> bool:
    """Whether ``node`` sums the channels of single pixels of a map: no groups, strides or pads."""
    return (
        weight[2:] == _PIXEL
        and attribute(node, "group", 1) == 1
        and set(ints(node, "strides", _PIXEL)) == {1}
        and not any(ints(node, "pads", ()))
        and attribute(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
    )
