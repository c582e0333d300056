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


class NotLowered(Exception):  # noqa: N818 - says what happened; it is no error
    """The machine has no instructions for a node: its definition is called instead.

    A lowering raises it with the reason; its partial result is discarded. It is the only way not to lower
    a node: any other exception is a defect.
    """


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

    def tensor(self, index: int = 0) -> Tensor:
        """Input ``index``, an activation.

        Raises:
            NotLowered: it is a constant or omitted.
        """
        x = self.inputs[index]
        if not isinstance(x, Tensor):
            raise NotLowered(f"input {index} is no activation")
        return x

    def image(self, index: int = 0) -> Tensor:
        """Input ``index``, an NHWC activation of one sample, int8 or int16.

        Raises:
            NotLowered: it is something else.
        """
        x = self.images(index)
        if x.shape[0] != 1:
            raise NotLowered(f"input {index} holds {x.shape[0]} maps")
        return x

    def images(self, index: int = 0) -> Tensor:
        """Input ``index``, an NHWC activation, int8 or int16.

        Raises:
            NotLowered: it is something else.
        """
        x = self.tensor(index)
        if len(x.shape) != 4 or x.dtype not in ACTIVATION_TYPES:
            raise NotLowered(f"input {index} is no map in int8 or int16")
        return x

    def constants(self, *indices: int) -> list[Array]:
        """The inputs of these numbers, which must be constants.

        Raises:
            NotLowered: one is computed or omitted.
        """
        found = [x for index in indices if isinstance(x := self.inputs[index], np.ndarray)]
        if len(found) < len(indices):
            raise NotLowered(f"inputs {', '.join(map(str, indices))} are not all constants")
        return found


Lowering = Callable[[Call, Assembler], Tensor]
"""Appends the instructions of a node; its result. It raises NotLowered where the machine cannot express the node."""


def check_window(attributes: Attributes) -> None:
    """A window's attributes must make sense: two dimensions, nothing negative, no step of 0.

    Raises:
        NotLowered: they do not.
    """
    sizes = [attributes["kernel_shape"], attributes["strides"], attributes.get("dilations", np.ones(2, np.int64))]
    if any(len(size) != 2 or min(size) < 1 for size in sizes) or min(attributes["pads"]) < 0:
        raise NotLowered("its window is not one of two dimensions with steps and pads that are not negative")


def integer_output(bits: int) -> np.dtype[Any]:
    """numpy type of a result of int8 or int16.

    Raises:
        NotLowered: another width.
    """
    found = {8 * kind.itemsize: kind for kind in ACTIVATION_TYPES}.get(int(bits))
    if found is None:
        raise NotLowered(f"its results have {bits} bits")
    return found


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


def broadcast_strides(own: Sequence[int], full: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor of shape ``own`` over shape ``full``, in elements; 0 where it repeats."""
    shape = (1,) * (len(full) - len(own)) + tuple(own)
    return tuple(0 if dim == 1 else stride for dim, stride in zip(shape, dense_strides(shape), strict=True))


Axis = tuple[int, ...]
"""Size of an axis, and the strides of some tensors along it, in elements."""


def joined(shape: Sequence[int], *strides: Sequence[int]) -> list[Axis]:
    """The axes longer than 1, outermost first; neighbours are joined where all strides go on evenly."""
    axes: list[Axis] = []
    for axis in zip(shape, *strides, strict=True):
        if axis[0] == 1:
            continue
        if axes and all(outer == inner * axis[0] for outer, inner in zip(axes[-1][1:], axis[1:], strict=True)):
            axes[-1] = (axes[-1][0] * axis[0], *axis[1:])
        else:
            axes.append(axis)
    return axes


def per_channel(values: Array, channels: int) -> NDArray[np.int64]:
    """One value per channel, from a list that may hold only one.

    Raises:
        NotLowered: the list is of another length.
    """
    listed = np.asarray(values, np.int64).ravel()
    if len(listed) not in (1, channels):
        raise NotLowered(f"a list of {len(listed)} values for {channels} channels")
    return np.broadcast_to(listed, (channels,))


def half_of(shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """What rounds a right shift half up: ``2**(shift - 1)``, 0 for no shift."""
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)


def integer_limits(bits: int) -> dict[str, int]:
    """Fields ``low`` and ``high`` of a signed integer type."""
    return {"low": -(1 << (int(bits) - 1)), "high": (1 << (int(bits) - 1)) - 1}
