"""From an ONNX file and a folder of images to all that cards need, with the reason for each choice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import CalibrationDataError
from harness.datasets import Colour, Dataset, Images, Targets
from harness.datasets.base import NO_LABEL
from harness.datasets.own_images import OwnImages, OwnImagesOptions
from harness.metrics import Metric, Score, open_metric
from harness.onboarding.guesses import Normalisation, conventional, normalisations
from harness.onboarding.heads import HeadGuess, guess_head
from harness.onboarding.judging import (
    FEW,
    MANY,
    Basis,
    Decision,
    Judge,
    by_labels,
    by_mirror,
    decide,
)
from harness.onboarding.network_file import NetworkFile, Runner, read_network
from harness.onboarding.sources import DataSource, find_source
from harness.zoo.cards import Labels, TaskKind

_SECONDS = 12.0
"""That guessing, and the float score, may each take."""
_CALIBRATION, _EVALUATION, _LEAST = 100, 400, 50
"""Images that a card names at most, and of evaluation images at least where there are so many."""


@dataclass(frozen=True)
class Proposal:
    """What is known of a network of the user's own.

    Attributes:
        name: of the cards.
        network: what its file says.
        head: what its outputs mean.
        source: images and labels.
        data: options of the data set.
        labels: what outputs are scored with.
        decision: the normalisation.
        reason: for it, before any image ran.
        score: of the float model on the evaluation images.
        shown: the first images, uint8, for the picture.
        notes: what the user should know.
    """

    name: str
    network: NetworkFile
    head: HeadGuess
    source: DataSource
    data: OwnImagesOptions
    labels: Labels
    decision: Decision
    reason: str
    score: Score
    shown: Images
    notes: tuple[str, ...]

    @property
    def metric(self) -> Metric:
        """That scores the outputs."""
        return open_metric(self.head.metric, self.head.options)


def card_name(path: Path) -> str:
    """The file's name as names of cards are: letters, digits, points, dashes."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", path.stem).strip("._-")[:80] or "network"


def propose(
    model: Path,
    images: Path,
    labels: Path | None = None,
    task: TaskKind | None = None,
    size: tuple[int, int] | None = None,
) -> Proposal:
    """Read, guess and measure.

    Args:
        model: ONNX file.
        images: folder.
        labels: file or folder; None to look among the images.
        task: what the network is for; None to guess.
        size: height and width of the input, for networks that take any.

    Raises:
        PtqlabError: the file, the images or the labels are wrong, or of a kind that cards do not know.
    """
    source = find_source(images, labels)
    network = read_network(model, size)
    head = guess_head(network, task, label_classes(source))
    fits, notes = labels_fit(source, head)
    options = data_options(source, network, head)
    dataset = OwnImages(options)
    runner = Runner(network.path, network.input_name)
    decision, reason = _decision(network, head, dataset, runner, labelled=fits)
    options = options.model_copy(update={"first_class": decision.first_class})
    dataset = OwnImages(options)
    used = Labels.DATA if fits else Labels.FLOAT
    score = _float_score(network, head, dataset, runner, decision.best, used)
    if fits:
        notes = (*notes, *chance_note(head, score, dataset.split("evaluation").targets()))
    shown = dataset.split("calibration").images(0, min(_SHOWN, options.calibration))
    return Proposal(
        card_name(model), network, head, source, options, used, decision, reason, score, shown, tuple(notes)
    )


_SHOWN = 6


def labels_fit(source: DataSource, head: HeadGuess) -> tuple[bool, tuple[str, ...]]:
    """Whether outputs can be scored with the labels, and what is to be said of that."""
    listed = source.annotations
    boxed = any(image.boxes is not None for image in listed.images)
    wanted = head.task is TaskKind.DETECTION if boxed else head.task is TaskKind.CLASSIFICATION
    count = label_classes(source)
    if count is None:
        return False, ()
    if not wanted:
        return False, (f"{source.kind.value} labels do not fit {head.task.value}: labels are not used",)
    highest = count - 1
    if highest >= head.classes:
        return False, (f"labels go up to {highest}, the network has {head.classes} classes: labels are not used",)
    if not boxed and listed.classes and len(listed.classes) not in (head.classes, head.classes - 1):
        return False, (
            f"{len(listed.classes)} classes with names ({', '.join(listed.classes[:3])}, …), the network has "
            f"{head.classes}: which is which is not known, labels are not used; name folders by the number of the "
            "class, or give a table with --labels",
        )
    return True, ()


def label_classes(source: DataSource) -> int | None:
    """The highest number of a class, and one; None where nothing is labelled."""
    images = source.annotations.images
    found = [image.label for image in images if image.label != NO_LABEL]
    found += [box.label for image in images for box in image.boxes or ()]
    return max(found) + 1 if found else None


def data_options(source: DataSource, network: NetworkFile, head: HeadGuess) -> OwnImagesOptions:
    """Options of the data set: as many images as serve, and as time allows.

    Raises:
        CalibrationDataError: there is one image only.
    """
    found = len(source.annotations.images)
    if found < 2:
        raise CalibrationDataError(f"{source.folder}: holds one image; calibration and evaluation need one each")
    calibration = min(_CALIBRATION, max(1, found // 4))
    in_time = max(_LEAST, int(_SECONDS / max(network.seconds, 1e-4)))
    return OwnImagesOptions(
        folder=source.folder,
        format=source.kind,
        labels=source.labels,
        height=network.size[0],
        width=network.size[1],
        colour=Colour.GRAY if network.channels == 1 else Colour.RGB,
        fit=head.fit,
        calibration=calibration,
        evaluation=min(_EVALUATION, in_time, found - calibration),
    )


def _decision(
    network: NetworkFile, head: HeadGuess, dataset: Dataset, runner: Runner, *, labelled: bool
) -> tuple[Decision, str]:
    """The normalisation, measured where outputs or labels allow it, and what the file alone says."""
    name, reason, _ = conventional(network, head.usual)
    guesses = sorted(normalisations(network.channels), key=lambda guess: guess.name != name)
    judged = _judge(head, dataset, labelled=labelled)
    if judged is None:
        return Decision((), guesses[0], Basis.CONVENTION, 1.0), reason
    judge, basis = judged
    split = dataset.split("calibration")
    runs = 2 if basis is Basis.MIRROR else 1
    in_time = (_SECONDS / max(network.seconds, 1e-4) - runs * FEW * len(guesses)) / (3 * runs)
    images = split.images(0, min(len(split), int(np.clip(in_time, 2 * FEW, MANY))))
    return decide(runner, network.layout, guesses, images, judge, basis, mirrored=basis is Basis.MIRROR), reason


def _judge(head: HeadGuess, dataset: Dataset, *, labelled: bool) -> tuple[Judge, Basis] | None:
    if labelled and head.task is TaskKind.DETECTION:
        return by_labels(
            open_metric(head.metric, head.options), {0: dataset.split("calibration").targets()}
        ), Basis.LABELS
    if labelled:
        targets = np.asarray(dataset.split("calibration").targets())
        shifted: Mapping[int, Targets] = {
            first: targets + first for first in (0, 1) if targets.max() + first < head.classes
        }
        return by_labels(open_metric(head.metric, head.options), shifted), Basis.LABELS
    if head.task is TaskKind.CLASSIFICATION:
        return by_mirror, Basis.MIRROR
    return None


def _float_score(
    network: NetworkFile, head: HeadGuess, dataset: Dataset, runner: Runner, best: Normalisation, labels: Labels
) -> Score:
    """Of the float model on the evaluation images, as a card holds it."""
    split, metric = dataset.split("evaluation"), open_metric(head.metric, head.options)
    parts = [runner(best.apply(split.images(at, at + 1), network.layout)) for at in range(len(split))]
    outputs: Sequence[NDArray[Any]] = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    targets = split.targets() if labels is Labels.DATA else metric.labels(outputs)
    if targets is None:
        raise CalibrationDataError(f"metric {head.metric} cannot score outputs without labels")
    return metric.score(outputs, targets)


_NOTHING_FOUND = 0.02
"""Mean average precision below which a detector finds nothing."""


def chance_note(head: HeadGuess, score: Score, targets: Targets) -> tuple[str, ...]:
    """What to look at where the float model is no better than one answer for all images."""
    if head.task is TaskKind.DETECTION and score.value < _NOTHING_FOUND:
        return (
            f"float {head.metric} {score.value:.3f} under every normalisation: are the classes numbered as the network "
            f"numbers them, and are these its outputs ({head.kind})?",
        )
    if head.task is not TaskKind.CLASSIFICATION:
        return ()
    _, counts = np.unique(np.asarray(targets), return_counts=True)
    chance = float(counts.max() / counts.sum())
    if score.value > chance + 2 * max(score.stderr, float(np.sqrt(chance * (1 - chance) / counts.sum()))):
        return ()
    return (
        f"float {head.metric} {score.value:.3f} is at chance level ({chance:.3f}) under every normalisation: are the "
        "classes numbered as the network numbers them, and are these images of the kind that it was trained on?",
    )
