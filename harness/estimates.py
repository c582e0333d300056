"""How long trials take, estimated from earlier sweeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from harness.trials.trial import TrialResult, TrialSpec, TrialStore

_Kind = tuple[str, ...]


_MOST = 2000
"""Trials that are read: of a store of 10,000 the latest say enough, and reading them takes a second."""


@dataclass
class Estimates:
    """Seconds of trials by what they have in common, the closest likeness first.

    Stages that another trial had computed already are missing in a trial's time, so that what a first trial of a model
    takes is more than the others say; the middle one of the known times is taken.
    """

    _known: dict[_Kind, list[float]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, results: Iterable[TrialResult]) -> Estimates:
        """From ``results``; failures are ignored."""
        found = cls()
        for result in results:
            found.add(result)
        return found

    @classmethod
    def of_store(cls, store: TrialStore) -> Estimates:
        """From the latest trials that ``store`` has."""
        folders = sorted(store.root.glob("[!.]*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
        kept = (store.read(folder.name) for folder in folders[:_MOST])
        return cls.of(result for result in kept if result is not None)

    def add(self, result: TrialResult) -> None:
        """Take in the time of a trial."""
        if result.ok and result.seconds:
            for kind in _kinds(result.spec):
                self._known[kind].append(sum(result.seconds.values()))

    def seconds(self, spec: TrialSpec) -> float | None:
        """What ``spec`` takes; None where nothing of its model is known."""
        for kind in _kinds(spec):
            if kind in self._known:
                return median(self._known[kind])
        return None

    def total(self, specs: Sequence[TrialSpec], workers: int) -> float | None:
        """Time of ``specs`` on this number of workers; trials of unknown models count as the mean of the others.

        None where nothing is known of any.
        """
        known = [seconds for spec in specs if (seconds := self.seconds(spec)) is not None]
        if not known:
            return None
        return sum(known) / len(known) * len(specs) / max(1, min(workers, len(specs)))


def _kinds(spec: TrialSpec) -> tuple[_Kind, ...]:
    """What a trial is like: model, march and settings; model, march and engine; model."""
    settings = spec.settings
    model, march = spec.model, spec.march.value
    return (model, march, settings.label), (model, march, "engine", settings.engine.value), (model,)


def in_words(seconds: float) -> str:
    """A time for people: ``40 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
