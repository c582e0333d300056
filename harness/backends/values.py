"""What stages of a trial take and give that is no figure of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.trials.figures import Accuracy, Fidelity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.datasets import Targets
    from harness.metrics import Metric, Score

Array = NDArray[Any]


@dataclass(frozen=True)
class CalibrationUse:
    """Which samples are calibrated with.

    Attributes:
        samples: how many of the card's calibration split.
        seed: to draw them with; None for the first ones.
    """

    samples: int
    seed: int | None


@dataclass(frozen=True)
class FloatJudged:
    """The float model's outputs, and what the card's metric says of them: the same beside every trial.

    Attributes:
        metric: of the card; it may keep what it decoded of ``outputs``.
        outputs: one array per output, samples in the first dimension; they cannot be written to.
        targets: of the samples.
    """

    metric: Metric
    outputs: Sequence[Array]
    targets: Targets

    @cached_property
    def score(self) -> Score:
        """The metric itself."""
        return self.metric.score(self.outputs, self.targets)

    @cached_property
    def labels(self) -> Targets | None:
        """Decisions."""
        return self.metric.labels(self.outputs)

    @cached_property
    def by_class(self) -> NDArray[np.float64] | None:
        """The metric of each class alone."""
        return self.metric.by_class(self.outputs, self.targets)


@dataclass(frozen=True)
class Scored:
    """Figures of a quantised model's outputs.

    Attributes:
        accuracy, fidelity: see there.
        predictions: see :attr:`harness.trials.trial.Outcome.predictions`.
    """

    accuracy: Accuracy
    fidelity: Fidelity
    predictions: Mapping[str, Array]
