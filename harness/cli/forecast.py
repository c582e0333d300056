"""What ``ptqlab run --dry-run`` and ``--resume`` print: trials to run, and unfinished sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.console import say

if TYPE_CHECKING:
    from harness.execution.coordinator import Plan
    from harness.trials.trial import TrialSpec


def show_forecast(specs: Sequence[TrialSpec], plan: Plan) -> None:
    """Trials that are there, trials to compute by model and march, and the time that they take."""
    from itertools import groupby

    from engine.cli.progress import in_words
    from harness.execution.coordinator import is_reusable
    from harness.sweeps.estimates import Estimates

    store = plan.bench.store
    missing = []
    for spec in specs:
        found = None if plan.fresh else store.get(spec)
        if found is None or not is_reusable(found, retry_failed=plan.retry_failed):
            missing.append(spec)
    wanted = missing[: plan.most_trials]
    estimates = Estimates.of_store(store)
    say(f"{len(specs)} trials: {len(specs) - len(missing)} have a result, {len(wanted)} would be computed")
    if len(wanted) < len(missing):
        say(f"{len(missing) - len(wanted)} would remain for the next run")
    for (model, march), group in groupby(wanted, key=lambda spec: (spec.model, spec.march.value)):
        own = list(group)
        estimates.probe(own[0])
        seconds, search = estimates.total(own, 1), estimates.searches(own)
        known = "time unknown, because the model cannot be run" if seconds is None else f"about {in_words(seconds)}"
        ranked = f", {in_words(search)} of it for top_k" if seconds is not None and search else ""
        say(f"  {model} on {march}: {len(own)} trials, {known}{'' if seconds is None else ' of work'}{ranked}")
    total = estimates.total(wanted, plan.workers)
    if total is not None:
        probed = estimates.probed({spec.model for spec in wanted})
        source = f"the speed of the float model of {', '.join(probed)}" if probed else "earlier trials"
        say(f"about {in_words(total)} on {plan.workers} workers, from {source}")


def show_unfinished(workdir: Path) -> None:
    """Unfinished sweeps, with the command that continues each."""
    from shlex import join

    from harness.sweeps.resuming import unfinished

    found = unfinished(workdir)
    for each in found:
        failed = f", {each.failed} failed" if each.failed else ""
        state = f"{each.done} of {each.total} trials{failed}, started {each.started_at}, {each.why}"
        say(f"{each.suite}: {state}; continue with: {join(['ptqlab', 'run', each.asked])}")
    if not found:
        say(f"every sweep in {workdir} is complete")
