"""Affine functions with a number per channel: which nodes compute one, and what it does to numbers.

Nothing is one that would make a number infinite or undefined: an infinite constant times a zero, or an overflow, is NaN
where the separate operators give a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import attribute, static_shape
from engine.optimize.base import Array, initializer_of


@dataclass(frozen=True)
class Affine:
    """``y = (x - mean) * scale + shift`` per channel (axis 1).

    Attributes:
        scale: float64, shape (channels,).
        shift: float64, shape (channels,).
        mean: float64, shape (channels,) or ().
    """

    scale: NDArray[np.float64]
    shift: NDArray[np.float64]
    mean: NDArray[np.float64] = field(default_factory=lambda: np.zeros(()))

    @property
    def offset(self) -> NDArray[np.float64]:
        """What zero becomes."""
        return self.of(np.zeros_like(self.scale))

    def of(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The function of ``x``, which holds float32 numbers, every step rounded to float32.

        As the original: all 8 biases of a transposed convolution that takes a batch normalisation (``db_text``).
        """
        with np.errstate(all="ignore"):
            x32, mean, scale, shift = (np.asarray(a, np.float32) for a in (x, self.mean, self.scale, self.shift))
            return np.asarray((x32 - mean) * scale + shift, np.float64)


def affine_of(node: ir.Node) -> tuple[ir.Value, Affine] | None:
    """The tensor and the per-channel affine function that ``node`` applies to it.

    Returns:
        ``None`` for anything else, also where scale or shift is no finite float32 number, and for a constant minus a
        tensor, which the original has otherwise (no recorded conversion shows how; provisional).
    """
    found = _any_affine_of(node)
    return found if found is not None and representable(found[1].scale, found[1].offset) else None


def representable(*arrays: NDArray[Any]) -> bool:
    """Whether all numbers are finite in float32."""
    return all(bool(np.all(np.abs(array) <= np.finfo(np.float32).max)) for array in arrays)


def _any_affine_of(node: ir.Node) -> tuple[ir.Value, Affine] | None:
    if node.op_type == "BatchNormalization":
        return _affine_of_batch_norm(node)
    left, right = node.inputs[0], node.inputs[1]
    left_constant, right_constant = initializer_of(left), initializer_of(right)
    if left is None or right is None or (left_constant is None) == (right_constant is None):
        return None
    value, array = (left, right_constant) if right_constant is not None else (right, left_constant)
    shape = static_shape(value)
    if array is None or shape is None or shape != static_shape(node.outputs[0]) or value.dtype != ir.DataType.FLOAT:
        return None
    operand = per_channel(array, shape)
    if operand is None:
        return None
    one, zero = np.ones_like(operand), np.zeros_like(operand)
    match node.op_type:
        case "Add":
            return value, Affine(one, operand)
        case "Sub" if value is left:
            return value, Affine(one, -operand)
        case "Mul":
            return value, Affine(operand, zero)
        case "Div" if value is left and np.all(operand != 0.0):
            return value, Affine(one / operand, zero)
    return None


def _affine_of_batch_norm(node: ir.Node) -> tuple[ir.Value, Affine] | None:
    value = node.inputs[0]
    arrays = [initializer_of(item) for item in node.inputs[1:5]]
    training = attribute(node, "training_mode", 0) or any(output.uses() for output in node.outputs[1:])
    if value is None or any(array is None for array in arrays) or training:
        return None
    gamma, beta, mean, variance = (np.asarray(array, np.float32) for array in arrays)
    with np.errstate(all="ignore"):
        # In float32, as the original: all weights of the 8 such nodes of densenet, repvgg_unfused and db_text.
        scale = gamma / np.sqrt(variance + np.float32(attribute(node, "epsilon", 1e-5)))
        return value, Affine(*(array.astype(np.float64) for array in (scale, beta, mean)))


def per_channel(array: Array, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """``array``, broadcast to ``shape``, as one value per channel (axis 1); ``None`` for an array of another shape.

    Its shape decides, whatever its numbers are: a vector along another axis does not count even if they are equal (the
    scales of a LayerNorm in ``swin``), nor does a map of equal pixels (12 of 12 asked: factors and summands of zeros,
    and of one number per channel; the attention of LeViT and EfficientFormerV2 before any training).
    """
    if len(shape) < 2 or array.ndim > len(shape):
        return None
    wide = np.asarray(array, np.float64).reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if wide.size > wide.shape[1] or (wide.size > 1 and wide.shape[1] == 1 != shape[1]):
        return None
    return np.ascontiguousarray(np.broadcast_to(wide.reshape(-1), (shape[1],)))


MAP_RANK = 4
"""Dimensions of a map: samples, channels, rows and columns."""


def becomes_depthwise(node: ir.Node) -> bool:
    """Whether ``node`` multiplies a map per channel, as a depthwise convolution will."""
    found = affine_of(node) if node.op_type in ("Mul", "Div") else None
    shape = None if found is None else static_shape(found[0])
    return shape is not None and len(shape) == MAP_RANK and shape[0] == 1
