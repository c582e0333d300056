"""HzSQuantizedReduceSum: sum over one axis."""

from __future__ import annotations

from engine.ops.reduce_mean import ReduceMean


class ReduceSum(ReduceMean):
    """The same arithmetic as the mean; only the ratio in its parameters differs."""

    op_type = "HzSQuantizedReduceSum"
