"""Colour formats: the matrices that become part of a model, and the conversions of images.

Images here are (N, H, W, C); NV12 is (N, H * 3 / 2, W): the luma plane, below it the interleaved chroma of every second
pixel of every second row. YUV is BT.601: over the whole range 0..255, or luma 16..235 for ``bt601_video``.

The conversions to YUV are the original's: its calibration thresholds for image inputs follow from them exactly (goldens
``p_yuv`` and ``p_nv12``). It converts floats without rounding for ``yuv444``; for ``nv12`` it truncates to uint8 and
lets the upper left pixel of every 2x2 block give the chroma, so that ``nv12`` thresholds can be twice as large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import InputSpec
from engine.errors import InferenceError, UnsupportedError
from engine.terms import SUPPORTED_CONVERSIONS, InputType, Layout, SpaceAndRange

Images = NDArray[Any]

INPUT_OFFSET = 128
"""What is subtracted from a uint8 image before it enters the model."""


@dataclass(frozen=True)
class ColourMatrix:
    """``converted = matrix @ (pixel - offset)`` over the channels of a pixel.

    Attributes:
        matrix: float32, shape (3, 3), rows = channels of the result.
        offset: float32, shape (3,).
    """

    matrix: NDArray[np.float32]
    offset: NDArray[np.float32]

    def apply(self, images: Images) -> NDArray[np.float32]:
        """The converted images, float32, neither rounded nor clipped."""
        pixels = images.astype(np.float32) - self.offset
        return np.asarray(np.einsum("oc,...c->...o", self.matrix, pixels), np.float32)


_YUV_TO_RGB = {
    SpaceAndRange.REGULAR: (((1, 0, 1.4017), (1, -0.3437, -0.7142), (1, 1.7722, 0)), (0, 128, 128)),
    SpaceAndRange.BT601_VIDEO: (((1.164, 0, 1.596), (1.164, -0.391, -0.813), (1.164, 2.018, 0)), (16, 128, 128)),
}
"""Matrix and offset of what the model computes (reference/calibration.md 5)."""

_RGB_TO_YUV = {
    SpaceAndRange.REGULAR: (((0.299, 0.587, 0.114), (-0.169, -0.331, 0.5), (0.5, -0.419, -0.081)), (0, 128, 128)),
    SpaceAndRange.BT601_VIDEO: (
        ((0.257, 0.504, 0.098), (-0.148, -0.291, 0.439), (0.439, -0.368, -0.071)),
        (16, 128, 128),
    ),
}
"""Matrix and what is added after it; ``regular`` is measured, ``bt601_video`` is the standard's."""


def check_conversion(type_train: InputType, type_rt: InputType) -> None:
    """Refuse a pair that the documents' table does not have.

    Raises:
        UnsupportedError: it has not.
    """
    if type_rt not in SUPPORTED_CONVERSIONS.get(type_train, ()):
        allowed = ", ".join(kind.value for kind in SUPPORTED_CONVERSIONS.get(type_train, ())) or "none"
        raise UnsupportedError(
            f"input_type_train {type_train.value!r} not supported transform to input_type_rt {type_rt.value!r} for "
            f"now. Allowed: {allowed}"
        )


def conversion_matrix(type_rt: InputType, type_train: InputType, space: SpaceAndRange) -> ColourMatrix | None:
    """The matrix from run-time to training format; ``None`` where both have the same channels.

    ``nv12`` counts as ``yuv444``: the hardware repeats the chroma before the model sees it.

    Raises:
        UnsupportedError: there is no such conversion.
    """
    check_conversion(type_train, type_rt)
    if type_rt is type_train or type_train is InputType.YUV444:
        return None
    if type_rt in (InputType.RGB, InputType.BGR):
        return ColourMatrix(np.eye(3, dtype=np.float32)[::-1].copy(), np.zeros(3, np.float32))
    rows, offset = _YUV_TO_RGB[space]
    matrix = np.asarray(rows, np.float32)
    return ColourMatrix(matrix[::-1].copy() if type_train is InputType.BGR else matrix, np.asarray(offset, np.float32))


def convert_colour(
    images: Images, source: InputType, target: InputType, space: SpaceAndRange = SpaceAndRange.REGULAR
) -> NDArray[np.uint8]:
    """Convert uint8 images of a training format to a run-time format, as a camera would deliver them.

    Args:
        images: uint8, shape (N, H, W, C), in format ``source``.
        source: ``rgb``, ``bgr``, ``yuv444`` or ``gray``.
        target: a run-time format that the documents' table allows for ``source``.
        space: range of the YUV result of ``nv12``.

    Returns:
        uint8 images; for ``nv12`` of shape (N, H * 3 / 2, W), H and W must be even.
    """
    source, target = InputType(source), InputType(target)
    check_conversion(source, target)
    if source is target:
        return np.asarray(images, np.uint8)
    if target in (InputType.RGB, InputType.BGR):
        return np.ascontiguousarray(images[..., ::-1], np.uint8)
    yuv = images if source is InputType.YUV444 else _to_yuv(images, source, space)
    if target is InputType.YUV444:
        return np.asarray(np.clip(np.rint(yuv), 0, 255), np.uint8)
    return pack_nv12(_truncate(yuv))


def to_quantized_input(images: Images, spec: InputSpec, layout: Layout) -> NDArray[np.int8]:
    """Run-time images as the input of the quantised stage.

    Args:
        images: uint8, in ``spec.type_rt`` and ``spec.layout_rt`` (NHWC where that is not given), or packed nv12.
        spec: the input.
        layout: of the result.

    Returns:
        int8: the images minus 128.
    """
    pixels = (_unpacked(images, spec).astype(np.int16) - INPUT_OFFSET).astype(np.int8)
    return np.ascontiguousarray(pixels if layout is Layout.NHWC else pixels.transpose(0, 3, 1, 2))


def _unpacked(images: Images, spec: InputSpec) -> Images:
    """Run-time images as (N, H, W, C), which is what the hardware hands to the model."""
    if spec.type_rt is InputType.NV12:
        return unpack_nv12(images)
    return images.transpose(0, 2, 3, 1) if spec.layout_rt is Layout.NCHW else images


def calibration_input(images: Images, spec: InputSpec) -> NDArray[np.float32]:
    """Images of the training format, uint8 or float, as the input of the float stages.

    Args:
        images: shape (N, H, W, C), in format ``spec.type_train``, not normalised.
        spec: the input.

    Returns:
        float32 minus 128, in the colours of ``spec.type_rt`` and the layout of the float model.
    """
    ordered = in_run_time_order(images, spec)
    if ordered is not None:
        return _in_layout(ordered.astype(np.float32) - np.float32(INPUT_OFFSET), spec)
    pixels = images.astype(np.float32)
    if spec.type_train is InputType.YUV444:
        return _in_layout(pixels - np.float32(INPUT_OFFSET), spec)
    pixels = _to_yuv(pixels, spec.type_train, spec.space_and_range)
    if spec.type_rt is InputType.NV12 and spec.space_and_range is SpaceAndRange.REGULAR:
        pixels = unpack_nv12(pack_nv12(_truncate(pixels))).astype(np.float32)
    return _in_layout(pixels - np.float32(INPUT_OFFSET), spec)


def in_run_time_order(images: Images, spec: InputSpec) -> Images | None:
    """Images of the training format in the colours of ``spec.type_rt``, a view; None where those must be computed.

    Args:
        images: uint8 or float, shape (N, H, W, C), in format ``spec.type_train``.
        spec: the input.
    """
    check_conversion(spec.type_train, spec.type_rt)
    if spec.type_train is spec.type_rt:
        return images
    return images[..., ::-1] if {spec.type_train, spec.type_rt} == {InputType.RGB, InputType.BGR} else None


def pack_nv12(yuv: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """YUV 4:4:4 (N, H, W, 3) to NV12 (N, H * 3 / 2, W): chroma of the upper left pixel of every 2x2 block."""
    count, height, width, _ = yuv.shape
    if height % 2 or width % 2:
        raise InferenceError(f"nv12 needs even height and width, the images are {height}x{width}")
    chroma = yuv[:, ::2, ::2, 1:].reshape(count, height // 2, width)
    return np.concatenate([yuv[..., 0], chroma], axis=1)


def unpack_nv12(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """NV12 (N, H * 3 / 2, W) to YUV 4:4:4 (N, H, W, 3): every chroma value repeated over its 2x2 block."""
    if images.ndim != 3 or images.shape[1] % 3 or images.shape[2] % 2:
        raise InferenceError(f"nv12 images have shape (N, H * 3 / 2, W) with even H and W, given is {images.shape}")
    count, rows, width = images.shape
    height = rows * 2 // 3
    chroma = images[:, height:].reshape(count, height // 2, width // 2, 2)
    return np.concatenate([images[:, :height, :, np.newaxis], chroma.repeat(2, axis=1).repeat(2, axis=2)], axis=3)


def _to_yuv(images: Images, source: InputType, space: SpaceAndRange) -> NDArray[np.float32]:
    """RGB or BGR to YUV in float32, not rounded."""
    rows, offset = _RGB_TO_YUV[space]
    rgb = images if source is InputType.RGB else images[..., ::-1]
    matrix = np.asarray(rows, np.float32)
    return np.asarray(
        np.einsum("oc,...c->...o", matrix, rgb.astype(np.float32)) + np.asarray(offset, np.float32), np.float32
    )


def _truncate(yuv: Images) -> NDArray[np.uint8]:
    return np.clip(yuv, 0, 255).astype(np.uint8)


def _in_layout(images: NDArray[np.float32], spec: InputSpec) -> NDArray[np.float32]:
    return np.ascontiguousarray(images if spec.layout_train is Layout.NHWC else images.transpose(0, 3, 1, 2))
