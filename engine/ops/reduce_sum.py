"""HzSQuantizedReduceSum: sum over one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import onnx_ir as ir

from engine.ops.core.base import FloatRule, Lowering
from engine.ops.core.bounds import Bound, Case, reduction
from engine.ops.core.float_nodes import refused_reduction
from engine.ops.core.reasons import Reason
from engine.ops.reduce_mean import ReduceMean, lower_reduction, reduction_stage

if TYPE_CHECKING:
    from engine.chips import Chip


class ReduceSum(ReduceMean):
    """The same arithmetic as the mean; only the ratio in its parameters differs."""

    op_type = "HzSQuantizedReduceSum"
    float_types: ClassVar[tuple[str, ...]] = ("ReduceSum",)

    def error_bound(self, case: Case) -> Bound:
        return reduction(case, reduction_stage(case.attributes), mean=False)


class ReduceSumRule(FloatRule):
    """ReduceSum over one axis."""

    op_types = ("ReduceSum",)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_reduction(node, march)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        lower_reduction(chain[0], lowering, "HzSQuantizedReduceSum", 1)
