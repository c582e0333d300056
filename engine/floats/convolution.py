"""Convolution of float32 over one axis as both simulators compute it: on every CPU the same bits.

The CPU's side of a quantised network has such nodes, in temporal networks for instance. On a CPU with AVX-512, ONNX
Runtime on one thread gave the same bits for each of 100 random shapes with more than one output channel in a group, of
20 to 600 products a sum. On other CPUs results of sums of more than 128 products may differ from ONNX Runtime's. It
takes another way for a single channel: such nodes stay with it, as do maps of two dimensions and convolutions of more
than :data:`MOST_WORK`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.fused import fused
from engine.ir import attribute

Floats = NDArray[np.float32]

MOST_WORK = 1 << 25
"""Multiply-adds of a sample, beyond which the definition would take more than a second."""
_BLOCK, _FEWEST_POSITIONS = 128, 16
"""Products and positions that ONNX Runtime's matrix product takes at once; and the fewest positions."""


@dataclass(frozen=True)
class RowWindow:
    """The window of a convolution over one axis.

    Attributes:
        before: zeros in front of the input.
        behind: zeros at its end.
        stride: between windows.
        dilation: between taps.
        groups: of channels.
    """

    before: int
    behind: int
    stride: int
    dilation: int
    groups: int

    def positions(self, length: int, taps: int) -> int:
        """Windows over an input of ``length``."""
        return (length + self.before + self.behind - self.dilation * (taps - 1) - 1) // self.stride + 1


def window_of(node: ir.Node, inputs: Sequence[Any]) -> RowWindow | None:
    """The window of a ``Conv`` of float32 over one axis that is computed here; ``None`` for any other.

    Args:
        node: a standard node.
        inputs: arrays or tensors, with ``shape`` and ``dtype``.
    """
    x, weights, *rest = inputs
    given = [x, weights, *(bias for bias in rest if bias is not None)]
    if node.op_type != "Conv" or any(value.dtype != np.float32 for value in given):
        return None
    if len(x.shape) != 3 or len(weights.shape) != 3 or attribute(node, "auto_pad", "NOTSET") != "NOTSET":
        return None
    before, behind = attribute(node, "pads") or (0, 0)
    (stride,), (dilation,) = attribute(node, "strides") or (1,), attribute(node, "dilations") or (1,)
    found = RowWindow(int(before), int(behind), int(stride), int(dilation), int(attribute(node, "group", 1)))
    fits = weights.shape[1] * found.groups == x.shape[1] and weights.shape[0] % found.groups == 0
    sensible = min(found.before, found.behind) >= 0 and min(found.stride, found.dilation) >= 1
    work = weights.size * found.positions(x.shape[2], weights.shape[2]) if sensible else 0
    biases = all(bias.shape == weights.shape[:1] for bias in given[2:])
    several = weights.shape[0] > found.groups
    return found if fits and several and biases and 0 < work <= MOST_WORK else None


def products_at_once(products: int, positions: int) -> int:
    """How many of the ``products`` of a sum are added up by themselves before they count.

    ONNX Runtime's blocks of a matrix: twice as long wherever half the positions are enough.
    """
    block, across = _BLOCK, _BLOCK
    while positions < products and across > _FEWEST_POSITIONS and across // 2 >= positions:
        block, across = 2 * block, across // 2
    return block


def convolved(x: Floats, weights: Floats, bias: Floats | None, window: RowWindow) -> Floats:
    """The sum of ``x * weights`` in every window, plus ``bias``.

    From 0 on, one multiply-add (rounded once) after the other: by input channel, then by tap; after each
    :func:`products_at_once` from 0 anew, and these sums are added up. The bias is added last.

    Args:
        x: (samples, channels, length).
        weights: (outputs, channels / groups, taps).
        bias: (outputs).
        window: where the windows lie.

    Returns:
        (samples, outputs, positions).
    """
    outputs, inside, taps = weights.shape
    count = window.positions(x.shape[2], taps)
    padded = np.pad(x, ((0, 0), (0, 0), (window.before, window.behind)))
    groups = np.arange(outputs) // (outputs // window.groups) * inside
    block = products_at_once(inside * taps, count)
    total, part = np.full((2, len(x), outputs, count), -0.0, np.float32)
    with np.errstate(all="ignore"):
        for index, (channel, tap) in enumerate(product(range(inside), range(taps))):
            if index % block == 0:
                total, part = total + part, np.zeros_like(part)
            first = tap * window.dilation
            values = padded[:, groups + channel, first : first + (count - 1) * window.stride + 1 : window.stride]
            part = fused(values, weights[:, channel, tap, None], part)
        total = total + part
        return total if bias is None else total + bias[:, None]
