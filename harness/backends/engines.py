"""Engines that write an ONNX file which ONNX Runtime runs: its own quantisation, and those that users register."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from harness.backends.foreign import quantize_with_onnxruntime
from harness.datasets import Samples, one_by_one
from harness.extensions import ENGINES, OwnEngine
from harness.suites.settings import Settings
from harness.zoo.cards import ModelCard


@dataclass(frozen=True)
class QuantizationTask:
    """What an engine gets.

    Attributes:
        card: of the float model.
        settings: of the trial.
        samples: for calibration, as the data set gives them.
        target: file to write, in a folder of its own that is removed afterwards.
    """

    card: ModelCard
    settings: Settings
    samples: Samples
    target: Path

    @property
    def model(self) -> Path:
        """The float model, ONNX."""
        return self.card.model_path()

    def feeds(self) -> Iterator[dict[str, NDArray[Any]]]:
        """The calibration samples one by one, by input name, as the float model takes them."""
        return one_by_one(self.card.float_inputs(self.samples))


class QuantizingEngine(ABC):
    """One engine; stateless.

    Attributes:
        takes: allowed values by setting, of those that change something; of ``int16`` they are
            :class:`harness.suites.settings.Int16Kind`. Other settings keep their defaults.
    """

    takes: ClassVar[Mapping[str, Collection[Any]]] = {}

    def version(self) -> str:
        """Versions of the tools that it runs, part of what determines a trial; its own sources are anyhow."""
        return ""

    @abstractmethod
    def quantize(self, task: QuantizationTask) -> Path:
        """Write the quantised model as an ONNX file with the float model's inputs and outputs; the file."""


class OnnxRuntimeEngine(QuantizingEngine):
    """Engine ``onnxruntime``."""

    def quantize(self, task: QuantizationTask) -> Path:
        """See :func:`quantize_with_onnxruntime`."""
        return quantize_with_onnxruntime(task.card, task.settings, task.samples, task.target)


def engine_of(settings: Settings) -> QuantizingEngine:
    """The engine that ``settings`` name, of those that write such a file."""
    return ENGINES[settings.engine]() if isinstance(settings.engine, OwnEngine) else OnnxRuntimeEngine()
