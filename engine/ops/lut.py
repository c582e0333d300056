"""HzLut: a function of one int8 activation as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.schema import DATA_FORMAT, Schema


class Lut(QuantizedOperator):
    """``y = table[x + 128]``."""

    op_type = "HzLut"
    attributes: ClassVar[Schema] = {
        "lut_type": Attribute("str", "", "name of the function; a record"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8, table int8 (256,) (ARITHMETIC.md 1, HzLut)."""
        x, table = (np.asarray(value) for value in inputs)
        return (table.ravel()[x.astype(np.intp) + 128],)
