"""Colour formats: the matrices that become part of a model, and the conversions of uint8 images.

BT.601. ``regular`` uses the whole range 0..255, ``bt601_video`` luma 16..235 (CALIBRATION.md 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.config import InputType, SpaceAndRange
from engine.errors import ConfigError, UnsupportedError

Image = NDArray[np.uint8]

SUPPORTED_CONVERSIONS: dict[InputType, tuple[InputType, ...]] = {
    InputType.YUV444: (InputType.NV12, InputType.YUV444),
    InputType.RGB: (InputType.NV12, InputType.YUV444, InputType.RGB, InputType.BGR),
    InputType.BGR: (InputType.NV12, InputType.YUV444, InputType.RGB, InputType.BGR),
    InputType.GRAY: (InputType.GRAY,),
    InputType.FEATUREMAP: (InputType.FEATUREMAP,),
}
"""Run-time formats per training format (the documents' table of ``input_type_train`` and ``input_type_rt``)."""


@dataclass(frozen=True)
class ColourMatrix:
    """``converted = matrix @ (pixel - offset)`` over the channels of a pixel.

    Attributes:
        matrix: float32, shape (3, 3), rows = channels of the result.
        offset: float32, shape (3,).
    """

    matrix: NDArray[np.float32]
    offset: NDArray[np.float32]


_YUV_TO_RGB = {
    SpaceAndRange.REGULAR: (((1, 0, 1.4017), (1, -0.3437, -0.7142), (1, 1.7722, 0)), (0, 128, 128)),
    SpaceAndRange.BT601_VIDEO: (((1.164, 0, 1.596), (1.164, -0.391, -0.813), (1.164, 2.018, 0)), (16, 128, 128)),
}
"""Matrix and offset from YUV to RGB (CALIBRATION.md 5)."""


def conversion_matrix(source: InputType, target: InputType, space: SpaceAndRange) -> ColourMatrix | None:
    """The matrix from run-time format ``source`` to training format ``target``; ``None`` where they have the same channels.

    ``nv12`` counts as ``yuv444``: the hardware repeats the chroma before the model sees it.

    Raises:
        UnsupportedError: the documents' table has no such conversion.
    """
    if source not in SUPPORTED_CONVERSIONS.get(target, ()):
        allowed = ", ".join(kind.value for kind in SUPPORTED_CONVERSIONS.get(target, ())) or "none"
        raise UnsupportedError(
            f"input_type_train {target.value!r} not supported transform to input_type_rt {source.value!r} for now. "
            f"Allowed: {allowed}"
        )
    if source is target or target is InputType.YUV444:
        return None
    if source in (InputType.RGB, InputType.BGR):
        return ColourMatrix(np.eye(3, dtype=np.float32)[::-1].copy(), np.zeros(3, np.float32))
    rows, offset = _YUV_TO_RGB[space]
    matrix = np.asarray(rows, np.float32)
    return ColourMatrix(matrix[::-1].copy() if target is InputType.BGR else matrix, np.asarray(offset, np.float32))
