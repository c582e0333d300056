"""What cards and suites of a network of the user's own say, whatever it is fed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from harness.datasets import Dataset
from harness.metrics import Score
from harness.onboarding.head_guess import HeadGuess
from harness.zoo.cards import Labels


@dataclass(frozen=True)
class DataContents:
    """What the card of a data set says.

    Attributes:
        adapter: of it.
        options: of the adapter, as YAML has them.
        dataset: opened with these options.
        classes: their names, in the order of their numbers; empty where they are too many or unknown.
        calibration, evaluation: numbers of samples.
        folder: of the files.
        description: of the data set.
        reason: why labels are taken for what they are.
        about_options: what to know before changing an option.
    """

    adapter: str
    options: Mapping[str, Any]
    dataset: Dataset
    calibration: int
    evaluation: int
    folder: Path
    description: str
    reason: str
    about_options: str
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FloatRun:
    """What the float model gives for all evaluation samples, so that a sweep need not compute it again.

    Attributes:
        outputs: one array per output, samples in the first dimension.
        seconds: that one sample takes where all threads compute samples.
    """

    outputs: Sequence[NDArray[Any]]
    seconds: float


@dataclass(frozen=True)
class CardContents:
    """What all files say that ``ptqlab init`` writes.

    Attributes:
        name: of the cards.
        path: of the network.
        head: what the outputs mean.
        labels: what outputs are scored with.
        score: of the float model on the evaluation samples.
        float_run: what was scored.
        input_parameters: the group of the converter's YAML.
        about_input: why the input is taken for this.
        data: of the data set card.
        origin: command that made the cards.
        page: HTML of what the network sees; empty where it sees no images.
    """

    name: str
    path: Path
    head: HeadGuess
    labels: Labels
    score: Score
    float_run: FloatRun
    input_parameters: Mapping[str, Any]
    about_input: str
    data: DataContents
    origin: str = "ptqlab init"
    page: str = ""

    @property
    def data_name(self) -> str:
        """Name of the data set card."""
        return f"{self.name}_{'arrays' if self.page == '' else 'images'}"
