"""Trials that are computed again although they have a result, to compare both.

A key covers what is known to determine a result. What is not known (a driver, the processor, a defect in a cache) shows
only where a stored result is computed again.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace

from harness.execution.coordinator import Plan, run_sweep
from harness.gates.verdicts import Check, Verdict
from harness.trials.tasks import Bench
from harness.trials.trial import TrialResult, TrialSpec

CHECK = "reproducible"
"""Name of the check in a verdict."""

_MEASURED = frozenset({"peak_memory.mb"})
"""Figures that are measured on the machine, and differ from run to run."""


def tonights(specs: Sequence[TrialSpec], nights: int, day: int) -> list[TrialSpec]:
    """The part of ``specs`` that is due on ``day``, a count of days: each trial once in ``nights``, one at least."""
    ordered = sorted(specs, key=lambda spec: spec.key)
    period = min(nights, len(ordered))
    return [spec for index, spec in enumerate(ordered) if index % period == day % period] if period else []


def recheck(specs: Sequence[TrialSpec], plan: Plan) -> dict[str, Check]:
    """Compute ``specs`` without anything that is kept, and compare with what is stored; checks by trial id."""
    if not specs:
        return {}
    bench = plan.bench
    name = f".recheck-{uuid.uuid4().hex[:12]}"
    url = f"{bench.store_url}/{name}" if bench.store_url else ""
    scratch = Bench(bench.workdir / name, threads=bench.threads, store_url=url)
    try:
        anew = run_sweep(specs, replace(plan, bench=scratch, fresh=False, most_trials=None))
    finally:
        shutil.rmtree(scratch.workdir, ignore_errors=True)
        if bench.exchange is not None:
            bench.exchange.remove(name)
    checks = {}
    for result in anew:
        stored = bench.store.get(result.spec)
        difference = "" if stored is None else difference_of(stored, result)
        verdict, message = (Verdict.ERROR, f"not reproducible: {difference}") if difference else (Verdict.PASS, "")
        checks[result.spec.id] = Check(CHECK, verdict, message)
    return checks


def difference_of(stored: TrialResult, anew: TrialResult) -> str:
    """How a result that was computed anew differs from the one that was stored, in words; empty where it does not."""
    if anew.failure is not None:
        same = stored.failure is not None and stored.failure.message == anew.failure.message
        return "" if same else f"recomputed, it fails in stage {anew.failure.stage}: {anew.failure.message}"
    if stored.failure is not None:
        return f"recomputed, it has figures; the stored result is a failure in stage {stored.failure.stage}"
    before, after = stored.metrics(), anew.metrics()
    names = [name for name in before.keys() | after.keys() if name not in _MEASURED]
    found = [
        f"{name} is {_text(before.get(name))} as stored and {_text(after.get(name))} recomputed"
        for name in sorted(names)
        if before.get(name) != after.get(name)
    ]
    return "; ".join(found)


def _text(value: float | None) -> str:
    return "absent" if value is None else repr(value)
