"""What ``ptqlab run`` and ``ptqlab nightly`` share: a suite is opened and checked, and runs under a progress bar."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.console import say
from engine.errors import ConfigError
from harness.cli.output import show_problems
from harness.cli.progress import progress_bar

if TYPE_CHECKING:
    from harness.cli.init import OwnSuite
    from harness.execution.coordinator import Plan
    from harness.gates.judgement import References
    from harness.report.results import Sweep
    from harness.suites.expansion import Expansion
    from harness.suites.suite import Suite
    from harness.trials.trial import TrialSpec

EXIT_INTERRUPTED = 130

_ADDRESS_SPACE_MB = 1000
"""Megabytes of address space without which libraries that a sweep imports crash, or leave out what does not load.

Measured with ``python -m tests.faults.machines "little memory" --commands run,nightly`` on the smallest network: 1,000
are enough, with 600 and 800 Python itself was aborted or Pillow had no WebP.
"""


class Retry(StrEnum):
    """Which trials that have a result run again."""

    NONE = "none"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How a suite is swept, as options of these names say.

    Attributes:
        workdir, executor, workers, store, fresh, retry, fail_fast: where and how trials run.
        time_limit, limit: bounds of a trial and of the sweep, for ``run`` alone.
        tracker, tracking_uri, record: where the sweep is recorded.
        explain_budget: seconds for a bisection.
    """

    workdir: Path
    executor: str
    workers: int | None
    store: str | None
    fresh: bool
    retry: Retry
    fail_fast: bool
    tracker: str | None
    tracking_uri: str | None
    explain_budget: float
    time_limit: float | None = None
    limit: int | None = None
    record: bool = True

    def suite(self, name: str) -> Suite:
        """The suite ``name``, a name or a file, whose cards are looked for beside it too.

        Raises:
            ConfigError: there is no such suite or tracker, or a package lacks that the tracker needs.
        """
        from harness.files.paths import find_beside
        from harness.suites.suite import open_suite
        from harness.tracking.trackers import chosen_tracker

        find_beside(name)
        suite = open_suite(name)
        return suite if self.tracker is None else suite.model_copy(update={"tracker": chosen_tracker(self.tracker)})

    def plan(self, *, share_threads: bool) -> Plan:
        """How trials run; ``share_threads``: workers divide the CPUs among them."""
        from engine.simulate.fast import available_cpus
        from harness.execution.coordinator import Plan, executor_factory
        from harness.files.exchange import checked_url
        from harness.trials.tasks import Bench

        workers = self.workers or available_cpus()
        threads = max(1, available_cpus() // workers) if share_threads else 1
        return Plan(
            bench=Bench(self.workdir.resolve(), threads=threads, store_url=checked_url(self.store)),
            executor=executor_factory(self.executor),
            workers=workers,
            fresh=self.fresh,
            retry_failed=self.retry is Retry.FAILED,
            time_limit=self.time_limit,
            fail_fast=self.fail_fast,
            most_trials=self.limit,
        )


def checked_trials(suite: Suite, workdir: Path, expansion: Expansion | None = None) -> list[TrialSpec]:
    """The trials of ``suite``, after its cards were looked through for mistakes; a refusal is kept for ``why``.

    Args:
        suite: what to sweep.
        workdir: where a refusal is kept.
        expansion: of the suite, if it is known already.

    Raises:
        PtqlabError: a selection matches nothing, or a card or its data are wrong or absent.
    """
    from harness.execution.planning import resolve
    from harness.sweeps.checking import refuse_mistakes
    from harness.sweeps.planning import expansion_of
    from harness.sweeps.refusals import refusal_kept

    with refusal_kept(suite.name, workdir):
        points = (expansion or expansion_of(suite)).points
        show_problems(refuse_mistakes(suite, points))
        return resolve(suite, points)


def refuse_little_memory() -> None:
    """Refuse to sweep in less address space than Python and its libraries need.

    Raises:
        ConfigError: the process is limited to less.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _ADDRESS_SPACE_MB * 2**20:
        allowed = f"{limit // 2**20:,} MB of address space"
        raise ConfigError(
            f"this process may use {allowed}; a sweep needs {_ADDRESS_SPACE_MB:,}: raise the limit (ulimit -v)"
        )


def handed_over(own: OwnSuite, specs: Sequence[TrialSpec], plan: Plan) -> Mapping[str, float]:
    """Keep for ``specs`` what the float model gave when the cards of ``own`` were made.

    Returns:
        Seconds that it takes for a sample where all threads compute samples, by model.
    """
    from harness.execution.pipeline import keep_float_outputs

    run = own.float_run()
    if run is None:
        return {}
    return {spec.model: run.seconds for spec in keep_float_outputs(specs, plan.bench, run.outputs)}


def swept(
    suite: Suite,
    plan: Plan,
    specs: Sequence[TrialSpec],
    references: References,
    wanted: Wanted,
    *,
    asked: str,
    night: int | None = None,
    float_seconds: Mapping[str, float] | None = None,
) -> Sweep:
    """Run ``suite`` under a progress bar; ends the program where the user interrupts it.

    Args:
        suite: what to sweep.
        plan: how to run.
        specs: the trials.
        references: what the gate compares with.
        wanted: what the options say.
        asked: name or file of the suite with which the command continues after an interruption.
        night: nights within which every reused trial is computed again, of a sweep whose drift is followed; else None.
        float_seconds: what :func:`handed_over` returns.
    """
    plan.begin_workers(specs)
    from harness.sweeps.estimates import Estimates
    from harness.sweeps.sweep import run_suite

    known = Estimates.of_store(plan.bench.store)
    for model, seconds in (float_seconds or {}).items():
        known.measured(model, seconds)
    with progress_bar(known, plan.workers) as progress:
        try:
            return run_suite(
                suite,
                plan,
                references=references,
                specs=specs,
                record=wanted.record,
                tracking_uri=wanted.tracking_uri,
                observers=[progress],
                night=night is not None,
                recheck_nights=night or 0,
                explain_seconds=wanted.explain_budget,
                asked=asked,
                tell=progress.tell,
            )
        except KeyboardInterrupt:
            say(f"interrupted; {progress.kept} finished trials are kept. The same command continues.")
            sys.exit(EXIT_INTERRUPTED)
