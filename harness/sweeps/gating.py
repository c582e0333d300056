"""The gate of one suite in one test session: trials, accepted baseline, verdicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from engine.errors import ConfigError
from engine.simulate.fast import available_cpus
from harness.execution.coordinator import Observer, Plan, executor_factory, run_sweep
from harness.files import paths
from harness.files.workdir import default_workdir
from harness.gates.accepting import acceptance
from harness.gates.baseline import (
    Baseline,
    baseline_path,
    load_baseline,
    read_baseline,
    save_baseline,
    updated_baseline,
)
from harness.gates.judge import judge, missing_trial
from harness.gates.judgement import Judgement, References, digest_of
from harness.gates.verdicts import Check, TrialVerdict, Verdict
from harness.report.results import REPORT_FILE, Sweep, sweep_folder
from harness.suites.suite import Suite, open_suite, suite_path
from harness.sweeps.announcing import tell_ci
from harness.sweeps.baselines import resolve_baseline
from harness.sweeps.judging import judged_anew
from harness.sweeps.planning import plan_trials, within
from harness.sweeps.refusals import refusal_kept
from harness.sweeps.sweep import run_suite
from harness.sweeps.written import load_sweep
from harness.trials.tasks import Bench
from harness.trials.trial import TrialResult, TrialSpec

_MOST_FOLDERS = 5
"""Trials whose folders are named where only some were selected."""


@dataclass(frozen=True)
class GateOptions:
    """What the command line asks of the gate.

    Attributes:
        suite: name of a bundled suite, or a YAML file.
        baseline: its accepted baseline, a file or ``@alias``; None for the bundled one.
        update: write the results to the baseline.
        accept_loss: write them although figures are worse than in the baseline before, beyond noise.
        workdir: of results and cache; None for the default.
        executor: as ``--executor`` of ``ptqlab run``.
        tracking_uri: where an alias is looked up; None for the working directory's store.
    """

    suite: str
    baseline: str | None = None
    update: bool = False
    accept_loss: bool = False
    workdir: str | None = None
    executor: str = "processes"
    tracking_uri: str | None = None


class SuiteGate:
    """Runs a suite's trials and judges them.

    Args:
        options: of the command line.

    Raises:
        PtqlabError: suite, cards, data or baseline are missing or wrong.

    Attributes:
        path: file of the suite.
        suite: its content.
        specs: its trials.
    """

    def __init__(self, options: GateOptions) -> None:
        self._options = options
        self.path: Path = suite_path(options.suite).resolve()
        paths.find_beside(options.suite)
        self.suite: Suite = open_suite(options.suite)
        workdir = Path(options.workdir or default_workdir()).resolve()
        with refusal_kept(self.suite.name, workdir):
            self.specs: list[TrialSpec] = plan_trials(self.suite)
        self.baseline_path = baseline_path(self.path)
        if options.baseline:
            self.baseline_path = resolve_baseline(options.baseline, self.suite, workdir, options.tracking_uri)
        if options.update and options.baseline and options.baseline.startswith("@"):
            raise ConfigError("--ptqlab-update-baseline writes files; to move an alias, use ptqlab nightly --accept")
        if options.update and paths.is_installed(self.baseline_path):
            raise ConfigError(
                f"--ptqlab-update-baseline would write into the installation ({self.baseline_path}); name a file of "
                "your own with --ptqlab-baseline, or copy the suite"
            )
        workers = available_cpus()
        self._plan = Plan(
            bench=Bench(workdir),
            executor=executor_factory(options.executor),
            workers=workers,
        )
        if not options.update:
            _ = self.baseline

    @cached_property
    def baseline(self) -> Baseline:
        """The accepted baseline; read when the first verdict is due, so that a new one counts at once."""
        return load_baseline(self.baseline_path, self.suite)

    @property
    def leftovers(self) -> list[str]:
        """Baseline entries that no trial of the suite belongs to; none if the baseline is being written anew."""
        if self._options.update:
            return []
        have = {spec.id for spec in self.specs}
        return [name for name in self.baseline.trials if name not in have]

    def run(self, keys: Collection[str], observers: Sequence[Observer] = ()) -> str:
        """Run the trials with these keys, and write the baseline if that was asked for; lines about it.

        Args:
            keys: of the selected trials.
            observers: told how it goes.

        Raises:
            ConfigError: a new baseline is asked for, but not all trials were selected, one of them failed, or it would
                accept a loss beyond noise that nobody said is accepted.
        """
        specs = [spec for spec in self.specs if spec.key in keys]
        if len(specs) < len(self.specs):
            if self._options.update:
                raise ConfigError("--ptqlab-update-baseline needs all trials of the suite; select none")
            results = run_sweep(specs, within(self.suite.budget, self._plan), observers)
            lines = [f"suite {self.suite.name}: {len(results)} of {len(self.specs)} trials selected"]
            for result in results[:_MOST_FOLDERS]:
                lines.append(f"{result.spec.id}: {self._plan.bench.store.folder(result.spec.key).as_uri()}")
            return "\n".join(lines)
        before = self._before() if self._options.update else None
        references = References(baseline=None if self._options.update and before is None else self.baseline_path)
        sweep = run_suite(
            self.suite,
            self._plan,
            specs=specs,
            record=False,
            references=references,
            observers=observers,
            asked=self._options.suite,
        )
        written = ""
        if self._options.update:
            lines = self._accept(sweep, before)
            written = f"\nbaseline written: {self.baseline_path}" + "".join(f"\n  {line}" for line in lines)
            sweep = judged_anew(sweep, References(baseline=self.baseline_path), self._plan.bench.workdir)
        summary = sweep.summary
        announced = "".join(f"\n{line}" for line in tell_ci(sweep, self._plan.bench.workdir))
        report = sweep_folder(self._plan.bench.workdir, self.suite.name) / REPORT_FILE
        return (
            f"suite {self.suite.name}: {sweep.verdict.value}, {len(specs)} trials, {len(sweep.failed)} failed, "
            f"{summary.reused} reused, {summary.seconds:.1f} s\nreport {report.as_uri()}{written}{announced}"
        )

    def _before(self) -> Baseline | None:
        """The baseline that is to be replaced; None where there is none of this suite and version."""
        old = read_baseline(self.baseline_path) if self.baseline_path.is_file() else None
        return old if old is not None and (old.suite, old.version) == (self.suite.name, self.suite.version) else None

    def _accept(self, sweep: Sweep, before: Baseline | None) -> list[str]:
        """Write the baseline; what that accepts, in words."""
        found = acceptance(before, sweep.summary.judgement, sweep.results) if before else None
        old = read_baseline(self.baseline_path) if self.baseline_path.is_file() else None
        new = updated_baseline(old, self.suite, sweep.results, self._plan.bench.store, sweep.summary.origin)
        if found is not None and found.losses and not self._options.accept_loss:
            raise ConfigError(
                f"{self.baseline_path}: {found.refusal()}\nptqlab why {self.suite.name} says what changed; where these "
                "losses are meant, add --ptqlab-accept-loss"
            )
        save_baseline(new, self.baseline_path)
        return [f"{len(sweep.results)} trials, for the first time"] if found is None else found.lines()

    def result(self, spec: TrialSpec) -> TrialResult | None:
        """The finished result of a trial."""
        return self._plan.bench.store.get(spec)

    def verdict(self, spec: TrialSpec) -> TrialVerdict:
        """What the sweep's judgement says of the trial; judged here where only some trials ran."""
        result = self.result(spec)
        if result is None:
            return TrialVerdict(spec.id, (Check("trial", Verdict.ERROR, "it was selected but did not run"),))
        if self._judgement is not None:
            return self._judgement.of(spec.id)
        return judge(result, self._plan.bench.store.predictions(spec.key), self.baseline, self.suite.gates)

    def cause(self, spec: TrialSpec) -> str:
        """Why the trial differs from the baseline, in a sentence; empty where the sweep does not say."""
        explanation = self._sweep.summary.explanation if self._sweep is not None else None
        causes = explanation.of(spec.id) if explanation is not None else None
        return causes.headline if causes is not None else ""

    @property
    def _judgement(self) -> Judgement | None:
        return None if self._sweep is None else self._sweep.summary.judgement

    @cached_property
    def _sweep(self) -> Sweep | None:
        """The sweep of these trials against this baseline that was the last, here or in xdist's controller.

        None where there is none, since only some of the trials were selected.
        """
        try:
            sweep = load_sweep(self._plan.bench.workdir, self.suite.name)
        except ConfigError:
            return None
        same = sweep.summary.trials == tuple(self.specs) and sweep.summary.suite == self.suite
        return sweep if same and sweep.summary.judgement.baseline_digest == digest_of(self.baseline_path) else None

    def leftover(self, name: str) -> TrialVerdict:
        """The verdict on one of :attr:`leftovers`."""
        return missing_trial(name)
