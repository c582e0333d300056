"""What stages of a trial take and give that is no figure of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from harness.trials.figures import Accuracy, Fidelity

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
class Scored:
    """Figures of a quantised model's outputs.

    Attributes:
        accuracy, fidelity: see there.
        predictions: see :attr:`harness.trials.trial.Outcome.predictions`.
    """

    accuracy: Accuracy
    fidelity: Fidelity
    predictions: Mapping[str, Array]
