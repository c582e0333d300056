"""Attribute schemas that several quantised operators share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ops.core.base import Attribute

Schema = Mapping[str, Attribute]
"""Attributes of an operator by name."""

DATA_FORMAT = Attribute("str", "NHWC", "layout of rank-4 activations; always NHWC")
OUTPUT_BIT = Attribute("int", 8, "width of the output: 8, 16 or 32")
ROUNDING = Attribute("str", "ROUND", "ROUND: the last shift rounds half up; FLOOR: it floors")
KERNEL = Attribute("ints", doc="window height and width")
PADS = Attribute("ints", (0, 0, 0, 0), "top, left, bottom, right")
STRIDES = Attribute("ints", (1, 1), "vertical, horizontal")
DILATIONS = Attribute("ints", (1, 1), "vertical, horizontal")
GROUP = Attribute("int", 1, "groups of channels that do not mix")
ACTIVATION = Attribute("str", "", "'relu', or empty")
WEIGHT_THRESHOLDS = Attribute("floats", (), "weight thresholds per output channel; a record, not used in arithmetic")
USE_BIAS = Attribute("int", 1, "0: there is no bias input")
INPUT_SCALES = Attribute(
    "floats",
    (),
    "scale of an input that calibration gave one per channel and that was merged into one; a record: the original's"
    " outputs follow without it (three convolutions of two networks, mobilenet_v3_c and sknet_c, one value each)",
)


def pad_spatial(x: NDArray[Any], pads: NDArray[np.int64], value: int) -> NDArray[Any]:
    """Pad height and width of NHWC ``x`` by ``pads`` (top, left, bottom, right) with ``value``."""
    top, left, bottom, right = (int(p) for p in pads)
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)
