"""``ptqlab why``: what changed between the last sweep of a suite and its baseline, and what that did."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli.console import say
from harness.cli.options import ExplainBudget, Workdir
from harness.files import workdir as workdirs


def why(
    suite: Annotated[str, typer.Argument(help="Suite that was run: its name, or its file.")],
    workdir: Workdir = workdirs.DEFAULT,
    baseline: Annotated[
        str | None,
        typer.Option(help="Compare with another baseline, a file or @anchor; the verdict stays that of the sweep."),
    ] = None,
    tracking_uri: Annotated[
        str | None, typer.Option(help="Store of the tracker, in which an @alias is looked up.")
    ] = None,
    explain_budget: ExplainBudget = 0.0,
) -> None:
    """Show what changed since the baseline, which artefact and node differ first, and which images flipped.

    Where the last sweep was refused before any trial ran, say why, and then what was found before.
    """
    from dataclasses import replace

    from harness.gates.baseline import load_baseline
    from harness.gates.explanation import in_words
    from harness.report.results import SWEEP_FILE, sweep_folder
    from harness.suites.suite import open_suite
    from harness.sweeps.baselines import resolve_baseline
    from harness.sweeps.bisecting import bisected
    from harness.sweeps.judging import explained
    from harness.sweeps.refusals import refused
    from harness.sweeps.written import load_sweep, write_sweep
    from harness.trials.trial import TrialStore

    if suite.endswith((".yaml", ".yml")):
        suite = open_suite(suite).name
    refusal = refused(suite, workdir)
    if refusal is not None:
        say(f"REFUSED: {suite}, {refusal.at}: no trial ran")
        say(f"  {' '.join(refusal.message.split())}")
        if not (sweep_folder(workdir, suite) / SWEEP_FILE).is_file():
            return
        say("the sweep before that:")
    sweep = load_sweep(workdir, suite)
    if baseline is not None:
        accepted = load_baseline(
            resolve_baseline(baseline, sweep.summary.suite, workdir, tracking_uri), sweep.summary.suite
        )
        sweep = explained(sweep, accepted, TrialStore(workdir / "trials"))
    explanation = bisected(sweep, sweep_folder(workdir, suite), explain_budget)
    if baseline is None and explanation != sweep.summary.explanation:
        sweep = replace(sweep, summary=sweep.summary.model_copy(update={"explanation": explanation}))
        write_sweep(sweep, workdir)
    say(f"{sweep.verdict.value}: {suite}, sweep {sweep.summary.id} of {sweep.summary.started_at}")
    if explanation is None:
        say("it was not compared with a baseline")
        return
    lines = in_words(explanation)
    for line in lines or ["nothing recorded has changed since the baseline, and every trial passes"]:
        say(line)
