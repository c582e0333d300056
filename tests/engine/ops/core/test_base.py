"""What operators and rules are without a word of their own, and what they must say."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.ops.core.base import BpuOperator, FloatRule, Lowering, QuantizedOperator, StandardOperator, Tie
from tests.engine.ops.operators import float_node, tensor

MAP = (1, 4, 8, 8)


class Plain(FloatRule):
    op_types = ("Plain",)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        raise NotImplementedError


def test_a_plain_rule_runs_everywhere_on_one_activation() -> None:
    rule, march, node = Plain(), load_chip("bayes-e"), float_node("Plain", [tensor("x", *MAP)], MAP)
    assert (rule.refusal(node, march), rule.late_refusal(node, march), rule.decompose(node)) == (None, None, None)
    assert (rule.tie(node), rule.activations(node), dict(rule.weights(node))) == (Tie.NONE, (0,), {})
    assert rule.fixed_thresholds(node, "int8") == (None, None)
    assert not rule.absorbs([node], node, march)
    assert (rule.int16_inputs, rule.int16_outputs) == (True, True)
    flags = (
        rule.passive,
        rule.requantized_to_int16,
        rule.wide_results_of_wide_inputs,
        rule.sums_exactly,
        rule.on_request,
    )
    assert flags == (False,) * 5
    assert rule.index_outputs == ()


@pytest.mark.parametrize("wide", [True, False])
def test_a_result_stays_int32_where_the_rule_says_so(wide: bool) -> None:
    rule = type("Wide", (Plain,), {"int32_output": wide})()
    assert rule.stays_int32(float_node("Plain", [tensor("x", *MAP)], MAP)) is wide


@pytest.mark.parametrize(
    ("base", "missing"),
    [
        (BpuOperator, {"cost", "float_types", "instructions", "rows"}),
        (StandardOperator, {"cost", "float_types", "instructions", "rows"}),
        (QuantizedOperator, {"cost", "error_bound", "float_types", "instructions", "portable", "reference", "rows"}),
        (FloatRule, {"lower"}),
    ],
)
def test_what_a_backend_needs_must_be_there(base: type, missing: set[str]) -> None:
    assert set(base.__abstractmethods__) == missing  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=min(missing)):
        base()
