"""The search for int16 and CPU nodes on the model of a card, by the card's own metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.data.samples import halves
from engine.calibrate.data.sources import ArrayData
from engine.chips import March
from engine.cli.lab.tune import ReportedMetric, search_of
from engine.config import Config
from engine.errors import ConfigError
from engine.frontend import parse
from engine.simulate import Session
from engine.tune import MixedPrecisionSearch
from harness.backends.foreign import float_runner
from harness.backends.outputs import images_first
from harness.backends.stages.images import calibration_samples, chosen_samples
from harness.backends.stages.simulate import integer_feed
from harness.backends.values import CalibrationUse
from harness.datasets import Split, Targets
from harness.execution.planning import resolve
from harness.metrics import Metric
from harness.suites.settings import Engine, Int16Kind, Settings
from harness.suites.suite import ExplicitTrial, Point, Suite
from harness.trials.configuration import configuration
from harness.zoo.cards import Labels, ModelCard

Array = NDArray[Any]

_AT_ONCE = 32
"""Samples simulated at a time."""


@dataclass(frozen=True)
class ScoredSamples:
    """Samples of a card's evaluation split on which models are scored by its metric.

    Attributes:
        card: of the model.
        config: of the conversion, which says how inputs are fed.
        split: of the data set.
        indices: of the samples.
    """

    card: ModelCard
    config: Config
    split: Split
    indices: tuple[int, ...]

    @cached_property
    def metric(self) -> Metric:
        """The card's."""
        return self.card.open_metric()

    @cached_property
    def floats(self) -> list[Array]:
        """Outputs of the float model."""
        run = float_runner(self.card.model_path(), self.card, threads=0)
        parts = range(0, len(self.indices), _AT_ONCE)
        return _joined([self._images_first(run(self._taken(at)), at) for at in parts])

    @cached_property
    def targets(self) -> Targets:
        """Labels of the data; the float model's decisions where the card has none."""
        if self.card.metric.labels is Labels.FLOAT:
            return self.card.targets(self.split, len(self.indices), self.floats)
        found = [self.split.targets(index, index + 1) for index in self.indices]
        first = found[0]
        if isinstance(first, np.ndarray):
            joined: Any = np.concatenate([np.asarray(targets) for targets in found])
        else:
            joined = [target for targets in found for target in targets]
        return cast("Targets", joined)

    def of_float(self) -> float:
        """The metric of the float model."""
        return self.metric.score(self.floats, self.targets).value

    def of(self, quantized: ir.Model) -> float:
        """The metric of a quantised model, on the simulator."""
        session = Session(quantized)
        specs = self.config.input_specs([spec.name for spec in self.card.input_specs])
        found = []
        for at in range(0, len(self.indices), _AT_ONCE):
            feed = integer_feed(session, self.card.training_inputs(self._taken(at)), specs)
            found.append(self._images_first(list(session.run(feed).values()), at))
        return self.metric.score(_joined(found), self.targets).value

    def _taken(self, start: int) -> Any:
        return chosen_samples(self.split, self.indices[start : start + _AT_ONCE])

    def _images_first(self, outputs: Sequence[Array], start: int) -> list[Array]:
        return images_first(outputs, len(self.indices[start : start + _AT_ONCE]))


def _joined(parts: Sequence[Sequence[Array]]) -> list[Array]:
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def search_of_card(
    card: ModelCard, march: March, settings: Settings, samples: int, scored: int, *, by_task: bool
) -> tuple[MixedPrecisionSearch, ReportedMetric]:
    """The search on a card's model, and the card's metric on samples that no mix is chosen by.

    Args:
        card: of the model.
        march: BPU architecture.
        settings: what the model is calibrated with.
        samples: calibration samples that similarity is taken on; as many others are reported on.
        scored: evaluation samples that mixes are chosen by; as many others are reported on.
        by_task: whether mixes are chosen by the metric; otherwise by similarity alone.

    Raises:
        ConfigError: ``settings`` ask for int16 nodes or another engine, or there are too few evaluation samples.
    """
    if settings.engine is not Engine.BUNDLED or settings.int16.kind is not Int16Kind.NONE:
        raise ConfigError("tune looks for int16 nodes with ptqlab's own engine: leave out int16 and engine")
    suite = Suite(name=card.name, version=1, models=(card.name,), trials=(ExplicitTrial(),))
    (spec,) = resolve(suite, [Point(model=card.name, march=march, settings=settings)])
    config = configuration(card, spec, (), card.model_path())
    source, specs = parse(config)
    dataset = card.open_dataset()
    use = CalibrationUse(spec.calibration_samples, settings.calibration_seed)
    inputs = card.training_inputs(calibration_samples(card, dataset, use))
    search = search_of(config, source, specs, samples, ArrayData(inputs, specs))
    split = dataset.split(card.dataset.evaluation.split)
    chosen, others = halves(spec.evaluation_samples, scored)
    if not others:
        raise ConfigError(
            f"model {card.name}: {spec.evaluation_samples} evaluation samples are too few to choose by some and "
            "report on others"
        )
    reported = ScoredSamples(card, config, split, tuple(others))
    if by_task:
        search.task = ScoredSamples(card, config, split, tuple(chosen)).of
        search.higher_is_better = reported.metric.higher_is_better
    return search, ReportedMetric(card.metric.name, reported.of_float(), reported.of)
