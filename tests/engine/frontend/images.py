"""Run-time images as a model gets them, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import InputSpec
from engine.frontend.colour import INPUT_OFFSET, conversion_matrix, unpack_nv12
from engine.terms import InputType, Layout

Images = NDArray[Any]


def unpacked(images: Images, spec: InputSpec) -> Images:
    """Run-time images, uint8 in ``spec.type_rt`` and ``spec.layout_rt`` or packed nv12, as (N, H, W, C)."""
    if spec.type_rt is InputType.NV12:
        return unpack_nv12(images)
    return images.transpose(0, 2, 3, 1) if spec.layout_rt is Layout.NCHW else images


def to_model_input(images: Images, spec: InputSpec) -> NDArray[np.float32]:
    """Run-time images as the input of the float stages: float32 minus 128, in the layout of the float model."""
    moved = unpacked(images, spec).astype(np.float32) - np.float32(INPUT_OFFSET)
    return np.ascontiguousarray(moved if spec.layout_train is Layout.NHWC else moved.transpose(0, 3, 1, 2))


def as_trained(images: Images, spec: InputSpec) -> NDArray[np.float32]:
    """What run-time images become in the training format, before mean and scale: float32, shape (N, H, W, C)."""
    pixels = unpacked(images, spec)
    matrix = conversion_matrix(spec.type_rt, spec.type_train, spec.space_and_range)
    return pixels.astype(np.float32) if matrix is None else matrix.apply(pixels)
