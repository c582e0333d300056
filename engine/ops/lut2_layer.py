"""HzLut2Layer: a function of one int16 activation, piecewise from interpolated tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import round_shift, shift_left, shift_right, to_type
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, ROUNDING, Schema

SEGMENT_ENTRIES = 64
OUTER_LEFT, OUTER_RIGHT = 0, 7


class Lut2Layer(QuantizedOperator):
    """Six segments of 64 entries between seven bounds, linear on both outer sides."""

    op_type = "HzLut2Layer"
    attributes: ClassVar[Schema] = {
        "lut_type": Attribute("str", "", "name of the function; a record"),
        "table_param": Attribute("ints", doc="6 * 64 entries, segment by segment"),
        "bound": Attribute("ints", doc="upper bounds of regions 0..6; the eighth value is not used"),
        "scale": Attribute("ints", doc="slope of the table address (segments) or of the function (outer), 8 values"),
        "bias": Attribute("ints", doc="offset of the same, 8 values"),
        "left_shift": Attribute("ints", doc="left shift of bias, 8 values"),
        "right_shift": Attribute("ints", doc="rounding shift of the linear form, 8 values"),
        "symmetry_mode": Attribute("str", "NONE", "always NONE"),
        "output_bit": OUTPUT_BIT,
        "rounding_method": ROUNDING,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int16 or int8 (ARITHMETIC.md 1, HzLut2Layer)."""
        x = np.asarray(inputs[0], np.int64)
        region = (x[..., None] > attributes["bound"][:OUTER_RIGHT]).sum(axis=-1)
        offset = shift_left(attributes["bias"], attributes["left_shift"])[region]
        linear = round_shift(x * attributes["scale"][region] + offset, attributes["right_shift"][region])
        outer = (region == OUTER_LEFT) | (region == OUTER_RIGHT)
        return (to_type(np.where(outer, linear, interpolate(linear, region, attributes)), attributes["output_bit"]),)


def interpolate(address: Array, region: Array, attributes: Attributes) -> Array:
    """Linear interpolation between neighbouring entries; ``address`` has 8 fraction bits."""
    entry, fraction = shift_right(address, 8), address & 255
    start = SEGMENT_ENTRIES * np.clip(region - 1, 0, 5)
    table: Array = attributes["table_param"]
    low = table[start + np.clip(entry, 0, SEGMENT_ENTRIES - 1)]
    high = table[start + np.clip(entry + 1, 0, SEGMENT_ENTRIES - 1)]
    return np.asarray((low * (256 - fraction) + high * fraction + 128) >> 8)
