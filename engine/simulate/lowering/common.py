"""What the lowerings share: the node as they see it, limits of the machine, fields of windows and layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ops.core.base import Attributes, QuantizedOperator
from engine.ops.core.windows import tap_corners
from engine.simulate.program import Assembler, Operand, Tensor

Array = NDArray[Any]

MAX_SHIFT = 31
"""Shifts of 32-bit lanes; a right shift by more gives the same as one by 31."""
MAX_SCALE = 65535
"""|int16| times this fits 32 bits."""


ACTIVATION_TYPES = (np.dtype(np.int8), np.dtype(np.int16))


@dataclass(frozen=True)
class Call:
    """One quantised node to lower.

    Attributes:
        operator: its semantics.
        attributes: its attributes.
        inputs: activations as tensors, constants as arrays, None where one is omitted.
    """

    operator: QuantizedOperator
    attributes: Attributes
    inputs: Sequence[Operand]

    def image(self, index: int = 0) -> Tensor | None:
        """Input ``index`` where it is an NHWC activation of one sample, int8 or int16; else None."""
        x = self.inputs[index]
        if not isinstance(x, Tensor) or len(x.shape) != 4 or x.shape[0] != 1 or x.dtype not in ACTIVATION_TYPES:
            return None
        return x

    def constants(self, *indices: int) -> list[Array] | None:
        """Those inputs where all of them are constants; else None."""
        found = [x for index in indices if isinstance(x := self.inputs[index], np.ndarray)]
        return found if len(found) == len(indices) else None


Lowering = Callable[[Call, Assembler], Tensor | None]
"""Appends the instructions of a node; its result, or None where the machine cannot express the node."""


def is_window(attributes: Attributes) -> bool:
    """Whether a window's attributes make sense: two dimensions, nothing negative, no step of 0."""
    sizes = [attributes["kernel_shape"], attributes["strides"], attributes.get("dilations", np.ones(2, np.int64))]
    return all(len(size) == 2 and min(size) >= 1 for size in sizes) and min(attributes["pads"]) >= 0


def window_fields(x: Tensor, y: Tensor, attributes: Attributes) -> dict[str, int]:
    """Fields of a sliding window over ``x`` that gives ``y``."""
    return {
        **dict(zip(("in_h", "in_w", "in_c"), x.shape[1:], strict=True)),
        **dict(zip(("out_h", "out_w", "out_c"), y.shape[1:], strict=True)),
        **{"stride_h": int(attributes["strides"][0]), "stride_w": int(attributes["strides"][1])},
    }


def tap_fields(x: Tensor, attributes: Attributes, program: Assembler) -> dict[str, int]:
    """Fields of the positions in a window, one piece of memory each."""
    corners = np.array(tap_corners(attributes), np.int64)
    offsets = (corners[:, 0] * x.shape[2] + corners[:, 1]) * x.shape[3] * x.dtype.itemsize
    return {"taps": len(offsets), "tap_offsets": program.address(offsets)}


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor, in elements."""
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


def per_channel(values: Array, channels: int) -> NDArray[np.int64]:
    """One value per channel, from a list that may hold only one."""
    return np.broadcast_to(np.asarray(values, np.int64), (channels,))


def half_of(shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """What rounds a right shift half up: ``2**(shift - 1)``, 0 for no shift."""
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)


def integer_limits(bits: int) -> dict[str, int]:
    """Fields ``low`` and ``high`` of a signed integer type."""
    return {"low": -(1 << (int(bits) - 1)), "high": (1 << (int(bits) - 1)) - 1}
