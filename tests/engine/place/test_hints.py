"""Hints: looked up by the code of a reason."""

from __future__ import annotations

import pytest

from engine.ops.core.reasons import Code, Reason, because
from engine.place.hints import DEFAULT_HINT, HINTS, hint_for


@pytest.mark.parametrize(
    ("op_type", "reason", "part"),
    [
        ("Add", because(Code.UNDEFINED_CONSTANT), "finite"),
        ("Neg", because(Code.NO_OPERATOR, march="bayes", op_type="Neg"), "-1"),
        ("NewOperator", because(Code.NO_OPERATOR, march="bayes", op_type="NewOperator"), "application"),
        ("Softmax", because(Code.ON_REQUEST, op_type="Softmax"), "run_on_bpu"),
        ("Softmax", because(Code.LAST_AXIS, op_type="Softmax", axis=1), "with a Transpose in front and one behind"),
        ("Conv", because(Code.CONVOLUTION_2D), "of three: as a two-dimensional one per slice of depth"),
        ("Resize", because(Code.NEAREST_SCALES, allowed="[2, 4]"), "powers of two"),
        ("Concat", because(Code.RANK_4, done="concatenated"), "rank-4"),
        ("Resize", because(Code.ANTIALIAS), DEFAULT_HINT),
        ("Pad", because(Code.PAD_MODE, mode="reflect"), "constant or edge"),
    ],
)
def test_hint(op_type: str, reason: Reason, part: str) -> None:
    assert part in hint_for(op_type, reason)


def test_a_name_in_a_reason_gives_no_hint() -> None:
    """It did while hints were found by patterns in the sentence."""
    named = because(Code.PART_OF_CPU_NODE, node="custom operator with a constant of another rank")
    assert hint_for("Relu", named) == HINTS[Code.PART_OF_CPU_NODE]


def test_an_absent_operator_is_advised_by_type_alone() -> None:
    assert Code.NO_OPERATOR not in HINTS
