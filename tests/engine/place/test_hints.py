"""Hints: one for every reason, the most special first."""

from __future__ import annotations

import pytest

from engine.place.hints import DEFAULT_HINT, hint_for


@pytest.mark.parametrize(
    ("op_type", "reason", "part"),
    [
        ("Neg", "bayes has no operator for Neg", "-1"),
        ("NewOperator", "bayes has no operator for NewOperator", "application"),
        ("Softmax", "Softmax runs on the BPU only if node_info or run_on_bpu asks for it", "run_on_bpu"),
        ("Resize", "nearest scales must be of [2, 4]", "powers of two"),
        ("Concat", "only rank-4 tensors are concatenated on the BPU", "rank-4"),
        ("TopK", "5000 values are searched, 4096 may be", DEFAULT_HINT),
    ],
)
def test_hint(op_type: str, reason: str, part: str) -> None:
    assert part in hint_for(op_type, reason)
