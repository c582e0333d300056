"""Progress of a sweep: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.cli.output import open_console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from engine.cli.terminal import Terminal
    from harness.execution.coordinator import AtWork
    from harness.sweeps.estimates import Estimates
    from harness.trials.tasks import Preparation, Prepared
    from harness.trials.trial import Failure, TrialResult, TrialSpec

_WORTH_TELLING = 5.0
"""Seconds of a search for nodes from which it is mentioned."""


@contextmanager
def progress_bar(estimates: Estimates | None = None, workers: int = 1) -> Iterator[ProgressBar]:
    """A progress bar on a terminal; a line per trial elsewhere.

    Args:
        estimates: how long trials take; None for nothing known yet.
        workers: trials at a time.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = open_console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, expand=True) as progress:
        yield ProgressBar(progress, console, estimates, workers)


class ProgressBar:
    """Shows the progress of a sweep.

    Attributes:
        kept: trials that have a result so far.
    """

    def __init__(
        self, progress: Progress, console: Terminal, estimates: Estimates | None = None, workers: int = 1
    ) -> None:
        from harness.sweeps.estimates import Estimates

        self._estimates, self._workers = estimates or Estimates(), workers
        self._waiting: dict[str, TrialSpec] = {}
        self.kept = 0
        self._total = 0
        self._told = ""
        self._searched: dict[str, float] = {}
        self._progress, self._console = progress, console
        self._task: TaskID | None = None

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        """The bar's length."""
        self._total = len(specs)
        self._waiting = {spec.key: spec for spec in specs}
        self._task = self._progress.add_task("starting workers", total=len(specs), left="")

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        """What has been prepared."""
        from engine.cli.progress import in_words

        spec = preparation.specs[0]
        self._estimates.prepared(spec, prepared.seconds)
        seconds = sum(prepared.seconds.values())
        own = [each for each in preparation.specs if each.key in self._waiting]
        expected = self._estimates.total(own, 1)
        ahead = "" if expected is None else f"; {len(own)} trials, about {in_words(expected)} of work"
        search = self._estimates.searches(own)
        if ahead and search >= _WORTH_TELLING:
            ahead += f", {in_words(search)} of it for top_k"
        self._say(f"{spec.model} on {spec.march.value}: prepared in {seconds:.1f} s{ahead}", advance=0)

    def at_work(self, trials: Sequence[AtWork]) -> None:
        """A search for nodes that is running, and about how long it takes; elsewhere a line now and then."""
        from engine.cli.progress import BETWEEN_LINES, in_words
        from harness.sweeps.estimates import SEARCH

        for each in trials:
            spec = each.spec
            if each.stage != SEARCH or each.seconds < self._searched.get(spec.key, _WORTH_TELLING):
                continue
            whole = self._estimates.running_search(spec, self._workers)
            ahead = f" of about {in_words(whole)}" if whole is not None and whole > each.seconds else ""
            self._say(f"{spec.model}: ranking nodes, {in_words(each.seconds)}{ahead}", advance=0)
            if not self._console.is_terminal:
                self._searched[spec.key] = each.seconds + BETWEEN_LINES

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        """One more trial is finished."""
        from engine.cli.progress import in_words
        from harness.sweeps.estimates import SEARCH

        self.kept += 1
        self._waiting.pop(result.spec.key, None)
        if not reused:
            self._estimates.finished(result)
        if result.accuracy is not None:
            outcome = f"{result.accuracy.metric} {result.accuracy.value:.4f}"
        else:
            outcome = _failed(result.failure)
        search = 0.0 if reused else result.seconds.get(SEARCH, 0.0)
        ranked = f", nodes ranked in {in_words(search)}" if search >= _WORTH_TELLING else ""
        self._say(f"{result.spec.id}: {outcome}{ranked}{' (reused)' if reused else ''}", advance=1)

    def tell(self, text: str) -> None:
        """What is at work once all trials are finished; elsewhere than on a terminal, each stage of it once."""
        if self._task is not None:
            self._progress.update(self._task, description=text[:60], left="")
        stage = text.partition(", ")[0]
        if not self._console.is_terminal and stage != self._told:
            self._told = stage
            self._console.print(stage, markup=False, highlight=False, soft_wrap=True)

    def _say(self, text: str, advance: int) -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=advance, description=text[:60], left=self._left())
        if not self._console.is_terminal:
            left = self._left(at_least=60.0)
            self._console.print(
                f"[{self.kept}/{self._total}] {text}{left and f', {left}'}", markup=False, highlight=False
            )

    def _left(self, at_least: float = 0.0) -> str:
        """How long the trials that are left take, in words; empty where that is not known, or less."""
        from engine.cli.progress import in_words

        seconds = self._estimates.total(list(self._waiting.values()), self._workers) if self._waiting else None
        return "" if seconds is None or seconds < at_least else f"about {in_words(seconds)} left"


def _failed(failure: Failure | None) -> str:
    """Where a trial failed, and on which worker."""
    stage = f" in stage {failure.stage}" if failure else ""
    return f"failed{stage}{f' (worker {failure.worker})' if failure and failure.worker else ''}"
