"""The gate on files for the board."""

from __future__ import annotations

import pytest

from harness.gates.baseline import AcceptedShip, Baseline, BaselineTrial
from harness.gates.shipped import ship_checks
from harness.gates.verdicts import Check, Verdict
from harness.shipping.record import DepartedNode, Shipped, ShippedTrial
from tests.harness.shipping.test_record import EQUAL

OTHER = EQUAL.model_copy(update={"first": DepartedNode(node="n", what="w", reason="unknown"), "digest": "b"})


def built(shipped: Shipped, toolchain: str = "1.25") -> ShippedTrial:
    return ShippedTrial(trial="t", key="k", shipped=shipped, toolchain=toolchain)


def baseline(digest: str | None, toolchain: str = "1.24.3") -> Baseline:
    accepted = None if digest is None else AcceptedShip(digest=digest, toolchain=toolchain)
    return Baseline(suite="s", version=1, trials={"t": BaselineTrial(shipped=accepted)})


def check(ship: ShippedTrial, before: Baseline | None, since: str = "last night") -> Check:
    return ship_checks([ship], before, since)["t"]


def test_a_new_toolchain_that_builds_something_else_is_named() -> None:
    found = check(built(OTHER), baseline("a"))
    assert found.verdict is Verdict.REGRESSION
    assert found.message.startswith("the shipped file differs since last night: toolchain 1.24.3 → 1.25; DIFFERENT: ")


def test_the_same_toolchain_that_builds_something_else() -> None:
    found = check(built(OTHER, "1.24.3"), baseline("a"), "the baseline")
    assert found.verdict is Verdict.REGRESSION
    assert "differs since the baseline, by the same toolchain (1.24.3)" in found.message


def test_without_a_baseline_what_differs_from_what_was_measured_fails() -> None:
    for before in (None, baseline(None)):
        found = check(built(OTHER), before)
        assert found.verdict is Verdict.REGRESSION
        assert "not what was measured" in found.message


def test_what_is_equal_passes_and_so_does_a_difference_that_was_accepted() -> None:
    assert check(built(EQUAL), baseline("other")).verdict is Verdict.PASS
    assert check(built(OTHER), baseline("b")).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("ship", "before", "verdict"),
    [
        (ShippedTrial(trial="t", key="k", problem="no toolchain"), None, Verdict.MISSING),
        (ShippedTrial(trial="t", key="k", problem="it failed", toolchain="1.25"), None, Verdict.ERROR),
        (ShippedTrial(trial="t", key="k", problem="per_channel", refused=True), None, Verdict.NO_GATE),
        (ShippedTrial(trial="t", key="k", problem="per_channel", refused=True), baseline("a"), Verdict.REGRESSION),
    ],
)
def test_a_trial_of_which_nothing_was_built(ship: ShippedTrial, before: Baseline | None, verdict: Verdict) -> None:
    found = check(ship, before)
    assert found.verdict is verdict
    assert ship.problem in found.message
