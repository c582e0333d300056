"""HzLeakyRelu (bernoulli2): leaky ReLU with one slope."""

from __future__ import annotations

from typing import ClassVar

from engine.ops.core.base import Attribute
from engine.ops.core.bounds import Bound, Case
from engine.ops.core.schema import DATA_FORMAT, Schema
from engine.ops.core.tables import table_bound
from engine.ops.prelu import PRelu


class LeakyRelu(PRelu):
    """The arithmetic of :class:`~engine.ops.prelu.PRelu` with one slope for all channels."""

    op_type = "HzLeakyRelu"
    float_types: ClassVar[tuple[str, ...]] = ("LeakyRelu",)
    attributes: ClassVar[Schema] = {
        "alpha_scale": Attribute("int", doc="multiplier of negative values"),
        "alpha_shift": Attribute("int", doc="rounding shift of the product"),
        "data_format": DATA_FORMAT,
    }

    def error_bound(self, case: Case) -> Bound:
        return table_bound(self, case)
