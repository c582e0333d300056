"""Gate for pytest: ``pytest --ptqlab-suite smoke`` runs a suite's trials and compares them with the accepted baseline.

One item per trial, named by the trial's id. The sweep runs once, before the first item; with pytest-xdist in the
controlling process, and the workers find its results. Without ``--ptqlab-suite`` the plugin does nothing, and nothing
else of ptqlab is imported.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import PtqlabError

if TYPE_CHECKING:
    from harness.gates.verdicts import TrialVerdict
    from harness.sweeps.gating import SuiteGate
    from harness.trials.trial import TrialSpec

GATE: pytest.StashKey[SuiteGate] = pytest.StashKey()
REPORT: pytest.StashKey[str] = pytest.StashKey()

_NEEDS_SUITE = (
    "--ptqlab-baseline",
    "--ptqlab-update-baseline",
    "--ptqlab-accept-loss",
    "--ptqlab-workdir",
    "--ptqlab-tracking-uri",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the gate."""
    group = parser.getgroup("ptqlab", "accuracy gate")
    group.addoption("--ptqlab-suite", metavar="SUITE", help="bundled suite or YAML file whose trials are gated")
    group.addoption(
        "--ptqlab-baseline",
        metavar="FILE",
        help="accepted baseline, or @last-good (default: reports/baselines/SUITE.json)",
    )
    group.addoption(
        "--ptqlab-update-baseline", action="store_true", help="accept the results: write them to the baseline"
    )
    group.addoption(
        "--ptqlab-accept-loss",
        action="store_true",
        help="with --ptqlab-update-baseline: accept figures that are worse than before, beyond noise",
    )
    group.addoption("--ptqlab-workdir", metavar="DIR", help="folder of results and cache (default: that of ptqlab run)")
    group.addoption("--ptqlab-tracking-uri", metavar="URI", help="tracker's store in which @last-good is looked up")
    group.addoption("--ptqlab-executor", metavar="NAME", default="processes", help="as --executor of ptqlab run")


def pytest_configure(config: pytest.Config) -> None:
    """With a suite and no other arguments its trials are all that is collected; with arguments they come on top."""
    name = config.getoption("--ptqlab-suite")
    if name is None:
        for option in _NEEDS_SUITE:
            if config.getoption(option):
                raise pytest.UsageError(f"{option} needs --ptqlab-suite")
        return
    from harness.sweeps.gating import GateOptions, SuiteGate

    if config.getoption("--ptqlab-accept-loss") and not config.getoption("--ptqlab-update-baseline"):
        raise pytest.UsageError("--ptqlab-accept-loss needs --ptqlab-update-baseline")
    options = GateOptions(
        suite=name,
        baseline=config.getoption("--ptqlab-baseline"),
        update=config.getoption("--ptqlab-update-baseline"),
        accept_loss=config.getoption("--ptqlab-accept-loss"),
        workdir=config.getoption("--ptqlab-workdir"),
        executor=config.getoption("--ptqlab-executor"),
        tracking_uri=config.getoption("--ptqlab-tracking-uri"),
    )
    try:
        gate = config.stash[GATE] = SuiteGate(options)
    except PtqlabError as error:
        raise pytest.UsageError(str(error)) from error
    given = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    own = [argument for argument in given if Path(argument.partition("::")[0]).resolve() == gate.path]
    trials = [f"{gate.path}::{argument.partition('::')[2]}" for argument in own if "::" in argument]
    config.args = [*(argument for argument in given if argument not in own), *(trials or [str(gate.path)])]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The suite's file is collected as one item per trial."""
    gate = parent.config.stash.get(GATE, None)
    if gate is None or file_path.resolve() != gate.path:
        return None
    collector: pytest.Collector = SuiteFile.from_parent(parent, path=file_path)
    return collector


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Run the sweep once, before any item; workers of pytest-xdist leave that to their controller."""
    config = session.config
    gate = config.stash.get(GATE, None)
    if gate is None or config.option.collectonly or hasattr(config, "workerinput"):
        return
    distributed = getattr(config.option, "dist", "no") != "no"  # then this process collects no items
    selected = (item.spec.key for item in session.items if isinstance(item, TrialItem))
    keys = {spec.key for spec in gate.specs} if distributed else set(selected)
    if not keys:
        if session.items:  # else pytest itself ends with "no tests collected"
            raise pytest.UsageError(f"--ptqlab-suite {gate.suite.name}: none of its trials is selected")
        return
    try:
        config.stash[REPORT] = gate.run(keys, [_Progress(config, len(keys))])
    except PtqlabError as error:
        raise pytest.UsageError(str(error)) from error


class _Progress:
    """Writes a line per trial while the sweep runs."""

    def __init__(self, config: pytest.Config, trials: int) -> None:
        self._terminal = config.pluginmanager.get_plugin("terminalreporter")
        self._trials, self._done = trials, 0

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        """How many there are."""
        self._say(f"{len(specs)} trials")

    def prepared(self, preparation: Any, prepared: Any) -> None:
        """What several trials share."""
        seconds = sum(prepared.seconds.values())
        self._say(f"{preparation.specs[0].model}: prepared in {seconds:.1f} s")

    def at_work(self, trials: Any) -> None:
        """Lines are for what is there."""

    def finished(self, result: Any, *, reused: bool) -> None:
        """One more trial is finished."""
        self._done += 1
        figure = f"{result.accuracy.metric} {result.accuracy.value:.4f}" if result.accuracy else "failed"
        self._say(f"[{self._done}/{self._trials}] {result.spec.id}: {figure}{' (reused)' if reused else ''}")

    def _say(self, text: str) -> None:
        if self._terminal is not None:
            self._terminal.write_line(f"ptqlab: {text}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was run."""
    report = config.stash.get(REPORT, None)
    if report is not None:
        terminalreporter.section("ptqlab")
        terminalreporter.line(report)


class SuiteFile(pytest.File):
    """The YAML file of a suite."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item per trial, and one per baseline entry that no trial belongs to."""
        gate = self.config.stash[GATE]
        for spec in gate.specs:
            yield TrialItem.from_parent(self, name=spec.id, spec=spec)
        for name in gate.leftovers:
            yield LeftoverItem.from_parent(self, name=name)


class VerdictNotPassError(Exception):
    """A verdict that is not PASS."""


class _VerdictItem(pytest.Item):
    """Reports a verdict."""

    @abstractmethod
    def verdict(self) -> TrialVerdict:
        """The verdict."""

    def runtest(self) -> None:
        """Fail unless the verdict is PASS."""
        verdict = self.verdict()
        self.user_properties.append(("verdict", verdict.verdict.value))
        if verdict.message:
            cause = self.cause()
            why = f"\nwhy: {cause}" if cause else ""
            raise VerdictNotPassError(f"{verdict.verdict.value}: {verdict.trial}\n{verdict.message}{why}")

    def cause(self) -> str:
        """Why it is not PASS, in a sentence; empty if unknown."""
        return ""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Verdicts and refusals in words, without a traceback."""
        if isinstance(excinfo.value, VerdictNotPassError | PtqlabError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where the item stands."""
        return self.path, None, self.name


class TrialItem(_VerdictItem):
    """One trial against the baseline.

    Attributes:
        spec: the trial.
    """

    def __init__(self, *, spec: TrialSpec, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.spec = spec

    def verdict(self) -> TrialVerdict:
        """Verdict on the trial's result; its figures become properties of the JUnit report."""
        gate = self.config.stash[GATE]
        result = gate.result(self.spec)
        self.user_properties.append(("trial_key", self.spec.key))
        if result is not None:
            self.user_properties.extend(result.metrics().items())
        return gate.verdict(self.spec)

    def cause(self) -> str:
        """What changed between baseline and sweep."""
        return self.config.stash[GATE].cause(self.spec)


class LeftoverItem(_VerdictItem):
    """A baseline entry without a trial."""

    def verdict(self) -> TrialVerdict:
        """MISSING."""
        return self.config.stash[GATE].leftover(self.name)
