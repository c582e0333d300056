"""Inputs of a source model with the loss of colour that the converted model has when it is fed with YUV.

A user prepares images for the source model from their pixels. The converted model gets them as NV12 or YUV 4:4:4,
rounded, and with one chroma for four pixels. That is no fault of the preprocessing, so the source model's input goes
through the same conversion before the two are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.data.sources import as_fed
from engine.config import InputSpec
from engine.frontend.colour import INPUT_OFFSET, conversion_matrix
from engine.frontend.preprocess import saved_inputs
from engine.terms import InputType, Layout

Array = NDArray[Any]

_NEAR = 1e-2
"""Levels within which a pixel that was normalised and taken back counts as the whole number that it was."""


def with_colours_of(original: ir.Model, source_feed: Mapping[str, Array]) -> dict[str, Array]:
    """``source_feed`` as the user's preprocessing would give it of images that went through YUV.

    Args:
        original: the original_float model, which names the formats of its inputs.
        source_feed: what the source model takes, normalised, samples along the first dimension.
    """
    specs = {spec.name: spec for spec in saved_inputs(original)}
    return {
        name: _round_trip(array, specs[name]) if name in specs and _loses_colour(specs[name]) else array
        for name, array in source_feed.items()
    }


def _loses_colour(spec: InputSpec) -> bool:
    goes_through_yuv = spec.type_rt in (InputType.NV12, InputType.YUV444)
    return spec.is_image and goes_through_yuv and spec.type_train in (InputType.RGB, InputType.BGR)


def _round_trip(normalised: Array, spec: InputSpec) -> Array:
    """Normalised images to pixels, to the run-time format, back, and normalised again; float32, the same shape."""
    nchw = spec.layout_train is Layout.NCHW
    mean, scale = (_per_channel(values, default) for values, default in ((spec.mean, 0.0), (spec.scale, 1.0)))
    if not scale.all():  # nothing is left of the pixels
        return normalised
    pixels = pixels_of(normalised, spec)
    whole = np.rint(pixels)
    pixels = np.where(np.abs(pixels - whole) < _NEAR, whole, pixels).astype(np.float32)
    fed = as_fed(pixels.transpose(0, 3, 1, 2) if nchw else pixels, spec)
    matrix = conversion_matrix(spec.type_rt, spec.type_train, spec.space_and_range)
    if matrix is None:
        return normalised
    seen = matrix.apply((fed.transpose(0, 2, 3, 1) if nchw else fed) + np.float32(INPUT_OFFSET))
    again = ((seen - mean) * scale).astype(np.float32)
    return np.ascontiguousarray(again.transpose(0, 3, 1, 2) if nchw else again)


def pixels_of(normalised: Array, spec: InputSpec) -> NDArray[np.float64]:
    """Normalised images as pixels again, channels last; shape (N, H, W, C). No scale may be 0."""
    mean, scale = _per_channel(spec.mean, 0.0), _per_channel(spec.scale, 1.0)
    images = normalised.astype(np.float64)
    return (images.transpose(0, 2, 3, 1) if spec.layout_train is Layout.NCHW else images) / scale + mean


def are_reversed(actual: Array, expected: Array, spec: InputSpec) -> bool:
    """Whether two normalised batches hold the same images with their channels in reverse order.

    What YUV loses of a colour remains different. The means may have been reversed with the channels, or not.
    """
    if not _per_channel(spec.scale, 1.0).all():
        return False
    channels = 1 if spec.layout_train is Layout.NCHW else 3
    pairs = (
        (pixels_of(actual, spec), pixels_of(expected, spec)),
        tuple(np.moveaxis(each.astype(np.float64), channels, -1) for each in (actual, expected)),
    )
    return any(
        float(np.abs(first[..., ::-1] - second).mean()) < _MUCH_LESS * float(np.abs(first - second).mean())
        for first, second in pairs
    )


_MUCH_LESS = 0.25
"""Share of an error below which another order of the channels explains it."""


def _per_channel(values: tuple[float, ...], default: float) -> NDArray[np.float64]:
    return np.asarray(values or (default,), np.float64)
