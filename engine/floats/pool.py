"""MaxPool of float32 maps as both simulators compute it: on every CPU the same bits.

ONNX Runtime gives the same bits except for windows with a NaN, with zeros of both signs or with negative infinities
alone: there its result depends on the window's place in the map. A pool with padding stays with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import attribute

Floats = NDArray[np.float32]

_STEPS = ("strides", "dilations")


@dataclass(frozen=True)
class Steps:
    """The windows along one axis.

    Attributes:
        taps: in a window.
        stride: between windows.
        dilation: between taps.
    """

    taps: int
    stride: int
    dilation: int

    def count(self, length: int) -> int:
        """Windows over ``length`` lines."""
        return (length - self.dilation * (self.taps - 1) - 1) // self.stride + 1

    def lines(self, tap: int, length: int) -> slice:
        """What that tap of the windows over ``length`` lines sees."""
        first = tap * self.dilation
        return slice(first, first + (self.count(length) - 1) * self.stride + 1, self.stride)


def windows_of(node: ir.Node, x: Any) -> tuple[Steps, Steps] | None:
    """Windows over rows and columns of a ``MaxPool`` that is computed here; ``None`` for any other.

    Args:
        node: a standard node.
        x: an array or tensor, with ``shape`` and ``dtype``.
    """
    if node.op_type != "MaxPool" or len(node.outputs) != 1 or x.dtype != np.float32 or len(x.shape) != 4:
        return None
    if attribute(node, "auto_pad", "NOTSET") != "NOTSET" or attribute(node, "ceil_mode", 0):
        return None
    given = [attribute(node, "kernel_shape") or (), *(attribute(node, name) or (1, 1) for name in _STEPS)]
    sizes = [[int(v) for v in size] for size in given]
    if any(attribute(node, "pads") or ()) or any(len(size) != 2 for size in sizes) or min(chain(*sizes)) < 1:
        return None
    rows, columns = (Steps(*of_axis) for of_axis in zip(*sizes, strict=True))
    filled = 0 not in x.shape and rows.count(x.shape[2]) > 0 and columns.count(x.shape[3]) > 0
    return (rows, columns) if filled else None


def pooled(x: Floats, windows: Sequence[Steps]) -> Floats:
    """The largest number of every window of ``x`` (maps, channels, height, width).

    First along the rows of a column, then along the columns: what is found so far is kept where the next number is
    less.
    """
    with np.errstate(invalid="ignore"):
        for axis, steps in zip((2, 3), windows, strict=True):
            places = [[slice(None)] * axis + [steps.lines(tap, x.shape[axis])] for tap in range(steps.taps)]
            found = x[tuple(places[0])]
            for place in places[1:]:
                line = x[tuple(place)]
                found = np.where(line < found, found, line)
            x = found
    return x
