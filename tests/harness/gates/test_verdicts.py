"""Verdicts: which is the worst, which is good, what is said."""

from __future__ import annotations

import itertools

import pytest

from harness.gates.verdicts import Check, TrialVerdict, Verdict, worst

ORDER = (
    Verdict.PASS,
    Verdict.NO_GATE,
    Verdict.IMPROVEMENT,
    Verdict.MISSING,
    Verdict.REGRESSION,
    Verdict.ERROR,
)
"""From the best to the worst."""


@pytest.mark.parametrize(("better", "worse"), list(itertools.combinations(ORDER, 2)))
def test_the_worst_counts_whatever_the_order(better: Verdict, worse: Verdict) -> None:
    assert worst([better, worse, better]) is worse
    assert worst([worse, better]) is worse


def test_nothing_judged_is_nothing_against() -> None:
    assert worst([]) is Verdict.PASS
    assert TrialVerdict("a", ()).verdict is Verdict.PASS


def test_a_check_is_left_out() -> None:
    checks = (Check("accuracy", Verdict.PASS, ""), Check("shipped", Verdict.REGRESSION, "differs"))
    assert TrialVerdict("a", checks).without("shipped") == TrialVerdict("a", checks[:1])
    assert TrialVerdict("a", checks).without("latency").verdict is Verdict.REGRESSION


def test_what_speaks_against_a_result() -> None:
    assert [verdict for verdict in Verdict if verdict.is_good] == [Verdict.PASS, Verdict.NO_GATE]


def test_a_message_has_a_line_per_check_that_does_not_pass() -> None:
    checks = (
        Check("accuracy", Verdict.REGRESSION, "fell"),
        Check("cosine", Verdict.PASS, "equal"),
        Check("latency", Verdict.NO_GATE, "1 ms"),
        Check("ddr", Verdict.IMPROVEMENT, "less"),
    )
    found = TrialVerdict("a", checks)
    assert found.verdict is Verdict.REGRESSION
    assert found.message == "accuracy: REGRESSION: fell\nddr: IMPROVEMENT: less"
    assert TrialVerdict("a", checks[1:3]).message == ""
