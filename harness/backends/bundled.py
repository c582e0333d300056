"""One model on one march with its data, and the stages of its trials; results are computed once, kept by content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate import (
    CalibrationOptions,
    HistogramRule,
    Kernels,
    Statistics,
    StatisticsOptions,
    tensors_for,
)
from engine.calibrate.methods.search import candidates_of
from engine.convert.items import (
    CALIBRATED,
    DATA,
    EQUALIZED,
    OPTIMIZED,
    PLACED,
    REFERENCE,
    STATISTICS,
    THREADS,
    THRESHOLDS,
)
from engine.convert.runner import Given, Hooks, Item, Run, Stage, Values
from engine.convert.stages.calibrate import calibration_options
from engine.convert.stages.optimize import OPTIMIZE
from engine.convert.stages.source import READ
from engine.errors import MissingError, PtqlabError
from engine.ir import load_model, save_model, to_bytes
from harness.backends.foreign import hb_mapper_tool
from harness.backends.items import (
    BOARD,
    CALIBRATION_USE,
    CARD,
    DATA_DIGEST,
    EVALUATION_SAMPLES,
    FLOAT_OUTPUTS,
    FOLDER,
    INT16_NODES,
    RANKING,
    STATISTICS_FILE,
    STATISTICS_OPTIONS,
    TENSORS,
    TOOL,
    TRIAL,
)
from harness.backends.pipeline import own_tools, stages_for
from harness.backends.stages.broken import LOOK_AT_FOREIGN_OUTPUTS, LOOK_AT_OUTPUTS
from harness.backends.stages.digest import DIGEST_DATA, DIGEST_FLOAT, DIGEST_MODELS
from harness.backends.stages.doubts import LOOK_AT_DATA
from harness.backends.stages.floats import RUN_FLOAT
from harness.backends.stages.inspect import MEASURE_FOOTPRINT, TABULATE
from harness.backends.stages.rank import RANK
from harness.backends.stages.score import JUDGE, SCORE
from harness.backends.stages.statistics import COLLECT
from harness.backends.values import CalibrationUse, Scored
from harness.files.cache import Codec, content_key, load_arrays, load_json, locked, save_arrays, save_json
from harness.files.strict_yaml import StrictModel
from harness.suites.settings import Engine, Int16Kind, Int16Policy, Settings
from harness.trials.configuration import configuration
from harness.trials.figures import Accuracy, BrokenOutputs, Fidelity, Footprint, TrialNode
from harness.trials.int16 import int16_nodes, without_ranking
from harness.trials.tasks import Bench, StageClock
from harness.trials.trial import TrialSpec, card_key
from harness.zoo.cards import ModelCard, load_card

Array = NDArray[Any]

BY_OPTIONS = "by its options"
"""Key of statistics. The thresholds depend on data and options only, whichever pass collected the statistics."""


@dataclass(frozen=True)
class Network:
    """One model on one march with its data.

    Attributes:
        spec: a trial of it.
        bench: where to work.
        clock: told of every stage that is computed.
    """

    spec: TrialSpec
    bench: Bench
    clock: StageClock

    @cached_property
    def card(self) -> ModelCard:
        """The model's card.

        Raises:
            MissingError: it is not the one that the trial was planned with.
        """
        card = load_card(self.spec.model)
        if card_key(card) != self.spec.card:
            raise MissingError(f"model {card.name}: its card has changed during the sweep; start the sweep again")
        return card

    def run(self, settings: Settings, nodes: Sequence[str] = (), statistics: str = "") -> Run:
        """The stages of a trial with these settings, whose int16 policy asks for ``nodes``.

        Args:
            settings: of the trial.
            nodes: that its int16 policy asks for.
            statistics: key from :meth:`collect_statistics`; empty where the calibration is to collect its own.
        """
        spec = self.spec.model_copy(update={"settings": settings})
        config = configuration(self.card, spec, nodes, self._model)
        use = CalibrationUse(spec.calibration_samples, settings.calibration_seed)
        collected = self._collected(statistics) if statistics else None
        given: dict[Item[Any], Given] = {
            CARD: Given(self.card, content_key(spec.card, spec.file)),
            TRIAL: Given(spec, content_key(spec.march, settings, *own_tools(settings))),
            INT16_NODES: Given(tuple(nodes), content_key(list(nodes))),
            DATA_DIGEST: Given(spec.data, spec.data),
            CALIBRATION_USE: Given(use, content_key(use.samples, use.seed)),
            EVALUATION_SAMPLES: Given(spec.evaluation_samples, str(spec.evaluation_samples)),
            FOLDER: Given(self.bench.workdir / "hb_mapper" / spec.key, ""),
            STATISTICS: Given(collected, BY_OPTIONS),
            THREADS: Given(self.bench.threads, ""),
            BOARD: Given(spec.board, content_key(spec.board)),
        }
        if settings.engine is Engine.HB_MAPPER:
            tool = hb_mapper_tool()
            given[TOOL] = Given(tool, tool)
        return Run(stages_for(settings.engine), config, given, self._hooks, self.bench.fingerprint)

    def collect_statistics(self, settings: Sequence[Settings]) -> str:
        """One pass over the calibration data that serves all ``settings``; the key of its result."""
        tensors: dict[str, None] = {}
        servable: list[CalibrationOptions] = []
        first: tuple[Run, str] | None = None
        for setting in settings:
            if setting.engine is not Engine.BUNDLED and setting.int16.kind is not Int16Kind.TOP_K:
                continue  # it calibrates on its own
            try:
                plain = without_ranking(setting).model_copy(update={"engine": Engine.BUNDLED})
                run = self.run(plain, self._requested(plain))
                asked = calibration_options(run.config)
                options = candidates_of(asked)
                StatisticsOptions.covering(options)
                placed, optimized = run[PLACED].model, run[OPTIMIZED]
            except PtqlabError:
                continue  # its own trial meets the same refusal and reports it
            key = hashlib.sha256(to_bytes(optimized)).hexdigest()
            first = first or (run, key)
            if key == first[1]:  # another graph's trial collects its own
                tensors.update(dict.fromkeys(tensors_for(placed, asked)))
                servable += options
        return "" if first is None else self._collect(*first, sorted(tensors), servable)

    def _collect(self, run: Run, graph: str, names: Sequence[str], servable: Sequence[CalibrationOptions]) -> str:
        """Statistics of these tensors of the optimised graph of ``run``, whose digest is ``graph``."""
        # Sums in the converter's order: a trial's thresholds are those of a conversion, bit for bit.
        independent = self.spec.settings.order_independent_kl
        rule = HistogramRule.ORDER_INDEPENDENT if independent else HistogramRule.REFERENCE
        options = StatisticsOptions.covering(servable, rule, kernels=Kernels.PLAIN, threads=self.bench.threads)
        wanted = options.model_dump(mode="json", exclude={"batch", "threads"})
        given: dict[Item[Any], Given] = {
            DATA: Given(run[DATA], run.key(DATA)),
            OPTIMIZED: Given(run[OPTIMIZED], graph),
            TENSORS: Given(tuple(names), content_key(list(names))),
            STATISTICS_OPTIONS: Given(options, content_key(wanted)),
            STATISTICS_FILE: Given(Path(), ""),
        }
        collection = Run((COLLECT,), run.config, given, self._hooks, self.bench.fingerprint)
        key = collection.key(STATISTICS)
        path = self._statistics_path(key)
        with locked(path):
            if not self.bench.cache.has(path):
                _ = collection.replacing({STATISTICS_FILE: Given(path, "")})[STATISTICS]
                self.bench.cache.share(path)
        return key

    def trial(self, statistics: str) -> tuple[Run, tuple[str, ...]]:
        """The run of the trial, and the nodes that its int16 policy asks for."""
        settings = self.spec.settings
        if settings.engine not in (Engine.BUNDLED, Engine.HB_MAPPER):
            return self.run(settings), ()
        nodes = self._requested(settings, statistics)
        run = self.run(settings, nodes, statistics)
        if settings.engine is not Engine.BUNDLED:
            return run, nodes
        # Trials with equal thresholds share all that follows: from here on the model counts by its content.
        calibrated = run[CALIBRATED]
        by_content: dict[Item[Any], Given] = {
            CALIBRATED: Given(calibrated, hashlib.sha256(to_bytes(calibrated)).hexdigest())
        }
        if run[REFERENCE] is run[OPTIMIZED]:
            by_content[REFERENCE] = Given(run[REFERENCE], run.key(OPTIMIZED))
        return run.replacing(by_content), nodes

    def float_outputs(self) -> list[Array]:
        """Outputs of the float model on the evaluation images, one array per output."""
        return self._float_run[FLOAT_OUTPUTS]

    def keep_float_outputs(self, outputs: Sequence[Array]) -> None:
        """Keep ``outputs`` as what :meth:`float_outputs` gives, unless that is there."""
        self.bench.cache.get(
            RUN_FLOAT.name, self._float_run.key(FLOAT_OUTPUTS), _CODECS[RUN_FLOAT.name], lambda: outputs
        )

    @property
    def _float_run(self) -> Run:
        return self.run(Settings(engine=Engine.ONNXRUNTIME))

    def _requested(self, settings: Settings, statistics: str = "") -> tuple[str, ...]:
        """The nodes that the int16 policy of ``settings`` asks for."""
        policy = settings.int16
        if policy.kind is Int16Kind.NONE:
            return ()
        plain = settings.model_copy(update={"int16": Int16Policy(), "engine": Engine.BUNDLED})
        if policy.kind is Int16Kind.TOP_K:
            return self._ranked(self.run(plain, (), statistics))[: policy.count]
        return int16_nodes(self.run(plain)[EQUALIZED], policy)

    def _ranked(self, run: Run) -> tuple[str, ...]:
        """Nodes by sensitivity, computed once for all settings that come to the same thresholds.

        What settings came to is kept too: other numbers of nodes then need no thresholds.
        """

        def by_content() -> tuple[str, ...]:
            thresholds = run[THRESHOLDS]
            given = Given(thresholds, hashlib.sha256(to_bytes(thresholds)).hexdigest())
            return run.replacing({THRESHOLDS: given})[RANKING]

        return self.bench.cache.get(RANKING.name, run.key(RANKING), _CODECS[RANK.name], by_content)

    @cached_property
    def _hooks(self) -> _CacheHooks:
        return _CacheHooks(self.bench, self.clock)

    @cached_property
    def _model(self) -> Path:
        return self.card.model_path()

    def _collected(self, key: str) -> Statistics:
        """What :meth:`collect_statistics` left, perhaps on another machine."""
        path = self._statistics_path(key)
        if not self.bench.cache.has(path):
            raise MissingError(
                f"model {self.spec.model}: the statistics {key} have been removed; start the sweep again"
            )
        return _loaded(path)

    def _statistics_path(self, key: str) -> Path:
        return self.bench.cache.path(COLLECT.name, key, ".npz")


@lru_cache(maxsize=1)
def _loaded(path: Path) -> Statistics:
    """Statistics kept for the next trial of the same process; with what ``kl`` computed from them.

    The name of the file follows from its content.
    """
    return Statistics.load(path)


@dataclass(frozen=True)
class _CacheHooks(Hooks):
    """Times stages, and keeps results that are expensive to compute."""

    bench: Bench
    clock: StageClock

    def running(self, stage: Stage) -> AbstractContextManager[None]:
        """Timed."""
        return self.clock.stage(stage.name)

    def fetched(self, stage: Stage, key: Callable[[Item[Any]], str], compute: Callable[[], Values]) -> Values:
        """From the cache where the stage has a codec; what is the same beside every trial stays in the process."""
        if stage.name not in _STAYING:
            return self._fetched(stage, key, compute)
        held, wanted = _staying(stage.name, self.bench.cache.root), key(stage.gives[0])
        values = held.get(wanted)
        if values is None:
            held.clear()  # first, as there may not be room for both
            values = held[wanted] = self._fetched(stage, key, compute)
        return values

    def _fetched(self, stage: Stage, key: Callable[[Item[Any]], str], compute: Callable[[], Values]) -> Values:
        if stage.name not in _CODECS:
            return compute()
        (item,) = stage.gives
        return {item: self._kept(stage, key(item), lambda: compute()[item])}

    def _kept(self, stage: Stage, key: str, compute: Callable[[], Any]) -> Any:
        return self.bench.cache.get(stage.name, key, _CODECS[stage.name], compute)


_STAYING = (READ.name, OPTIMIZE.name, RUN_FLOAT.name, JUDGE.name)
"""Stages whose last result stays in the process: it is the same beside every trial of a model."""


@lru_cache(maxsize=len(_STAYING))
def _staying(stage: str, root: Path) -> dict[str, Values]:
    """What ``stage`` gave last for the cache ``root``, by its key; empty where it has not run yet."""
    del stage, root
    return {}


class _Figures(StrictModel):
    accuracy: Accuracy
    fidelity: Fidelity


class _Rows(StrictModel):
    rows: tuple[TrialNode, ...]


class _Doubts(StrictModel):
    doubts: tuple[str, ...]


class _Digests(StrictModel):
    digests: dict[str, str]


_DIGESTS = Codec(
    ".json",
    lambda digests, path: save_json(_Digests(digests=digests), path),
    lambda path: load_json(_Digests, path).digests,
)


def _save_scored(scored: Scored, path: Path) -> None:
    figures = _Figures(accuracy=scored.accuracy, fidelity=scored.fidelity)
    text = np.frombuffer(figures.model_dump_json().encode(), np.uint8)
    save_arrays({**scored.predictions, "figures": text}, path)


def _load_scored(path: Path) -> Scored:
    arrays = load_arrays(path)
    figures = _Figures.model_validate_json(arrays.pop("figures").tobytes())
    return Scored(figures.accuracy, figures.fidelity, arrays)


def _save_outputs(outputs: Sequence[Array], path: Path) -> None:
    save_arrays({str(index): output for index, output in enumerate(outputs)}, path)


def _load_outputs(path: Path) -> list[Array]:
    arrays = load_arrays(path)
    return [arrays[str(index)] for index in range(len(arrays))]


def _save_names(names: Sequence[str], path: Path) -> None:
    save_arrays({"names": np.array(names, np.str_)}, path)


def _load_names(path: Path) -> tuple[str, ...]:
    return tuple(str(name) for name in load_arrays(path)["names"])


_BROKEN = Codec(".json", save_json, lambda path: load_json(BrokenOutputs, path))

_CODECS: Mapping[str, Codec] = {
    OPTIMIZE.name: Codec(".onnx", save_model, load_model),
    LOOK_AT_DATA.name: Codec(
        ".json",
        lambda doubts, path: save_json(_Doubts(doubts=doubts), path),
        lambda path: load_json(_Doubts, path).doubts,
    ),
    RUN_FLOAT.name: Codec(".npz", _save_outputs, _load_outputs),
    RANK.name: Codec(".npz", _save_names, _load_names),
    DIGEST_DATA.name: _DIGESTS,
    DIGEST_FLOAT.name: _DIGESTS,
    DIGEST_MODELS.name: _DIGESTS,
    LOOK_AT_OUTPUTS.name: _BROKEN,
    LOOK_AT_FOREIGN_OUTPUTS.name: _BROKEN,
    SCORE.name: Codec(".npz", _save_scored, _load_scored),
    MEASURE_FOOTPRINT.name: Codec(".json", save_json, lambda path: load_json(Footprint, path)),
    TABULATE.name: Codec(
        ".json",
        lambda rows, path: save_json(_Rows(rows=rows), path),
        lambda path: load_json(_Rows, path).rows,
    ),
}
"""How what stages give becomes files and back; stages that are not named here are computed whenever they are needed."""
