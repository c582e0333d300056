"""How long trials take: from earlier ones of their kind, else from the speed of the float model on this machine."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from engine.errors import PtqlabError
from harness.trials.trial import TrialResult, TrialSpec, TrialStore
from harness.trials.work import USUAL_NODES, search_work, searches, usual_work, without_int16

_Kind = tuple[str, ...]

FLOAT_STAGE = "float"
"""Stage that runs the float model on all evaluation samples."""
SEARCH = "sensitivity"
"""Stage that ranks nodes for ``int16: {top_k: …}``; settings that differ in nothing else share it."""

_MOST = 2000
"""Trials that are read: of a store of 10,000 the latest say enough, and reading them takes a second."""

_LEAST = 1.0
"""Seconds that the smallest trial takes."""
_STATISTICS = 5.0
"""What statistics of a calibration sample take, in a preparation, in runs of the float model
(docs/evidence/estimates.md)."""
_NODES_SHARE = 0.55
"""Nodes that are ranked as a share of those in the file: exporters write an activation as several."""


@dataclass
class Estimates:
    """Seconds of trials by what they have in common, the closest likeness first.

    Searches for sensitive nodes are kept apart, since they take longer than all the rest and are run once for several
    trials. Other stages that another trial had computed already are missing in a trial's time too; the middle one of
    the known times is taken. Where nothing of the same settings is known, times are scaled by what settings usually
    take. Times of all trials are corrected by how fast this sweep is beside them: processes that start, other programs
    on the machine.
    """

    _known: dict[_Kind, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    _searches: dict[_Kind, list[float]] = field(default_factory=lambda: defaultdict(list))
    _runs: dict[str, float] = field(default_factory=dict)
    _nodes: dict[str, int] = field(default_factory=dict)
    _searched: set[_Kind] = field(default_factory=set)
    _ready: set[_Kind] = field(default_factory=set)
    _begun: float | None = None
    _last: float = 0.0
    _computed: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, results: Iterable[TrialResult]) -> Estimates:
        """From ``results``; failures are ignored."""
        found = cls()
        for result in results:
            found.learn(result)
        return found

    @classmethod
    def of_store(cls, store: TrialStore) -> Estimates:
        """From the latest trials that ``store`` has."""
        folders = sorted(store.root.glob("[!.]*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
        kept = (store.read(folder.name) for folder in folders[:_MOST])
        return cls.of(result for result in kept if result is not None)

    def learn(self, result: TrialResult) -> None:
        """Take in the time of a trial, of this sweep or an earlier one."""
        if not result.ok or not result.seconds:
            return
        search = result.seconds.get(SEARCH)
        if search is not None:
            for kind in _search_kinds(result.spec):
                self._searches[kind].append(search)
        seconds = sum(result.seconds.values()) - (search or 0.0)
        for kind in _kinds(result.spec):
            self._known[kind].append((seconds, usual_work(result.spec)))

    def finished(self, result: TrialResult, now: float | None = None) -> None:
        """Take in a trial that this sweep has just computed.

        Args:
            result: of the trial.
            now: seconds of a clock; None for that of the machine.
        """
        self.learn(result)
        if searches(result.spec):
            self._searched.add(_search_kinds(result.spec)[0])
        if result.ok and result.seconds:
            self._computed.append(sum(result.seconds.values()))
        self._last = time.monotonic() if now is None else now

    def prepared(self, spec: TrialSpec, seconds: Mapping[str, float], now: float | None = None) -> None:
        """Take in what the preparation of ``spec`` took, by stage; its trials are computed from now on."""
        self._ready.add((spec.model, spec.march.value))
        if FLOAT_STAGE in seconds:
            self.measured(spec.model, seconds[FLOAT_STAGE] / spec.evaluation_samples)
        if self._begun is None:
            self._begun = time.monotonic() if now is None else now

    def measured(self, model: str, seconds: float) -> None:
        """Take in what the float ``model`` takes for a sample."""
        self._runs[model] = seconds

    def probe(self, spec: TrialSpec, samples: int = 3) -> None:
        """Measure the float model on a few samples where nothing is known of it; nothing where it cannot be run."""
        from harness.zoo.cards import load_card
        from harness.zoo.float_baseline import float_outputs

        if (spec.model,) in self._known or spec.model in self._runs:
            return
        with suppress(PtqlabError, OSError, ImportError):
            card, most = load_card(spec.model), min(samples, spec.evaluation_samples)
            float_outputs(card, 1)  # loads libraries and files
            one, several = (min(_timed(partial(float_outputs, card, count)) for _ in range(2)) for count in (1, most))
            self._runs[spec.model] = (several - one) / (most - 1) if several > one else several / most

    def probed(self, models: Collection[str]) -> list[str]:
        """The ``models`` of which only the speed of the float model is known."""
        return sorted(model for model in models if model in self._runs and (model,) not in self._known)

    def seconds(self, spec: TrialSpec) -> float | None:
        """What ``spec`` takes apart from a search for nodes; None where nothing of its model is known."""
        for kind in _kinds(spec):
            if kind in self._known:
                return median(seconds * usual_work(spec) / weight for seconds, weight in self._known[kind])
        if spec.model in self._runs:
            return _LEAST + usual_work(spec) * self._runs[spec.model]
        return None

    def search(self, spec: TrialSpec) -> float | None:
        """What the search for sensitive nodes takes where ``spec`` is the first to need it; None where not known."""
        if not searches(spec):
            return 0.0
        for kind in _search_kinds(spec):
            if kind in self._searches:
                return median(self._searches[kind])
        weight = search_work(spec, self._nodes_of(spec))
        if spec.model in self._runs:
            return weight * self._runs[spec.model]
        seconds = self.seconds(spec)
        return None if seconds is None else seconds * weight / usual_work(spec)

    def running_search(self, spec: TrialSpec, workers: int) -> float | None:
        """:meth:`search` of a trial that runs, at the pace of this sweep."""
        seconds = self.search(spec)
        return None if seconds is None else seconds * self._pace(workers)

    def searches(self, specs: Sequence[TrialSpec]) -> float:
        """What all searches that ``specs`` need take, each once."""
        wanted = {_search_kinds(spec)[0]: spec for spec in specs if searches(spec)}
        return sum(self.search(spec) or 0.0 for kind, spec in wanted.items() if kind not in self._searched)

    def total(self, specs: Sequence[TrialSpec], workers: int) -> float | None:
        """Time of ``specs`` on this number of workers; trials of unknown models count as the mean of the others.

        None where nothing is known of any.
        """
        known = [seconds for spec in specs if (seconds := self.seconds(spec)) is not None]
        if not known:
            return None
        work = sum(known) / len(known) * len(specs) + self.searches(specs) + self._preparations(specs)
        return work * self._pace(workers) / max(1, min(workers, len(specs)))

    def _preparations(self, specs: Sequence[TrialSpec]) -> float:
        """What has yet to be prepared, of models of which only the float model's speed is known."""
        probed = self.probed({spec.model for spec in specs})
        wanted = {(spec.model, spec.march.value): spec for spec in specs if spec.model in probed}
        return sum(
            self._runs[spec.model] * (spec.evaluation_samples + _STATISTICS * spec.calibration_samples)
            for pair, spec in wanted.items()
            if pair not in self._ready
        )

    def _pace(self, workers: int) -> float:
        """Seconds that pass for a second of stages: of this sweep as far as it has got, 1 before that."""
        if self._begun is None or not self._computed:
            return 1.0
        busy = workers * (self._last - self._begun)
        begun = (workers - 1) / 2 * sum(self._computed) / len(self._computed)  # of what is not finished, half
        return max(1.0, busy / (sum(self._computed) + begun)) if sum(self._computed) else 1.0

    def _nodes_of(self, spec: TrialSpec) -> int:
        """About how many nodes are ranked."""
        if spec.model not in self._nodes:
            self._nodes[spec.model] = _nodes_in_file(spec.model)
        return self._nodes[spec.model]


def _timed(run: Callable[[], object]) -> float:
    """Seconds that ``run`` takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _nodes_in_file(model: str) -> int:
    import onnx
    from google.protobuf.message import DecodeError

    from harness.zoo.cards import load_card

    with suppress(PtqlabError, OSError, DecodeError):
        path = load_card(model).model_path()
        return max(1, round(_NODES_SHARE * len(onnx.load(path, load_external_data=False).graph.node)))
    return USUAL_NODES


def _kinds(spec: TrialSpec) -> tuple[_Kind, ...]:
    """What a trial is like: model, march and settings; these without int16; its method; its engine; its model."""
    settings = spec.settings
    model, march, engine = spec.model, spec.march.value, settings.engine.value
    return (
        (model, march, settings.label),
        (model, march, "without int16", without_int16(spec)),
        (model, march, "method", engine, settings.calibration_type.value),
        (model, march, "engine", engine),
        (model,),
    )


def _search_kinds(spec: TrialSpec) -> tuple[_Kind, ...]:
    """What a search is like: the same one; one of the same model on the march; of the model."""
    return (spec.model, spec.march.value, without_int16(spec)), (spec.model, spec.march.value), (spec.model,)
