"""The gate on files for the board: what is built is what was measured, or what was accepted before."""

from __future__ import annotations

from collections.abc import Sequence

from harness.gates.baseline import AcceptedShip, Baseline
from harness.gates.verdicts import Check, Verdict
from harness.shipping.record import ShippedTrial

CHECK = "shipped"
"""Name of the check in a verdict."""


def ship_checks(
    ships: Sequence[ShippedTrial], baseline: Baseline | None, since: str = "the baseline"
) -> dict[str, Check]:
    """A check by trial id for each trial that was to be built.

    Args:
        ships: of the sweep.
        baseline: that it is compared with; None without one.
        since: what messages call the baseline, such as ``last night``.
    """
    known = {} if baseline is None else baseline.trials
    return {
        each.trial: _check(each, known[each.trial].shipped if each.trial in known else None, since) for each in ships
    }


def _check(ship: ShippedTrial, before: AcceptedShip | None, since: str) -> Check:
    shipped = ship.shipped
    if shipped is None:
        return Check(CHECK, _without(ship, before), str(ship))
    if shipped.equal:
        return Check(CHECK, Verdict.PASS, "")
    if before is None:
        return Check(CHECK, Verdict.REGRESSION, f"what is built is not what was measured: {shipped}")
    if before.digest == shipped.digest:
        return Check(CHECK, Verdict.PASS, "")
    changed = f": toolchain {before.toolchain or 'unknown'} → {ship.toolchain or 'unknown'}"
    changed = changed if before.toolchain != ship.toolchain else f", by the same toolchain ({ship.toolchain})"
    return Check(CHECK, Verdict.REGRESSION, f"the shipped file differs since {since}{changed}; {shipped}")


def _without(ship: ShippedTrial, before: AcceptedShip | None) -> Verdict:
    """The check of a trial that was not built: MISSING without a toolchain, NO GATE for a setting that never could."""
    if ship.refused:
        return Verdict.NO_GATE if before is None else Verdict.REGRESSION
    return Verdict.ERROR if ship.toolchain else Verdict.MISSING
