"""From an ONNX file and a folder of images to all that cards need, with the reason for each choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.chips import DEFAULT_MARCH, March
from engine.errors import CalibrationDataError, ConfigError
from engine.terms import Layout
from harness.datasets import Colour, Dataset, Images, SceneTarget, Targets
from harness.datasets.base import NO_LABEL
from harness.datasets.mask_annotations import IGNORED, classes_in
from harness.datasets.own_images import OwnImages, OwnImagesOptions
from harness.metrics import Metric, Score, open_metric, read_only
from harness.onboarding.chance import NOTHING_FOUND, chance_level, is_at_chance
from harness.onboarding.contents import FloatRun
from harness.onboarding.convertible import refuse_unconvertible
from harness.onboarding.dictionary import with_blank, with_characters
from harness.onboarding.guesses import Normalisation, conventional, normalisations
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.heads import guess_head
from harness.onboarding.judging import (
    FEW,
    FINALISTS,
    MANY,
    Answer,
    Basis,
    Decision,
    Judge,
    ahead,
    by_labels,
    by_mirror,
    decide,
    information_floor,
)
from harness.onboarding.map_heads import text_map
from harness.onboarding.network_file import NetworkFile, OutputTensor, Runner, read_network, runs_at_once
from harness.onboarding.numbering import numbering_note
from harness.onboarding.sources import DataSource, find_source
from harness.zoo.cards import Labels, TaskKind

_CALIBRATION, _EVALUATION = 100, 400
"""Most calibration and evaluation images on a card."""


_AT_ONCE = 8
"""Evaluation images that are read at a time."""
_MOST_VALUES, _FEWEST = 1 << 27, 8
"""Most output values held at once; outputs of this number of images are held in any case."""


@dataclass(frozen=True)
class Proposal:
    """What is known of a network of the user's own.

    Attributes:
        name: of the cards.
        network: what its file says.
        head: what its outputs mean.
        source: images and labels.
        data: options of the data set.
        dataset: opened with them.
        labels: what outputs are scored with.
        decision: the normalisation.
        reason: for it, before any image ran.
        score: of the float model on the evaluation images.
        float_run: what was scored.
        shown: the first images, uint8, for the picture.
        notes: what the user should know.
    """

    name: str
    network: NetworkFile
    head: HeadGuess
    source: DataSource
    data: OwnImagesOptions
    dataset: OwnImages
    labels: Labels
    decision: Decision
    reason: str
    score: Score
    float_run: FloatRun
    shown: Images
    notes: tuple[str, ...]

    @property
    def metric(self) -> Metric:
        """The metric that scores the outputs."""
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
    dictionary: Path | None = None,
    march: March = DEFAULT_MARCH,
    column: str = "",
    tell: Callable[[str], None] | None = None,
) -> Proposal:
    """Read, guess and measure.

    Args:
        model: ONNX file.
        images: folder.
        labels: file or folder; None to look among the images.
        task: what the network is for; None to guess.
        size: height and width of the input, for networks that take any.
        dictionary: file with the characters of a network that reads text; None to look for them.
        march: that the network is to be converted for.
        column: headline of the labels or texts of a table; empty to look for it.
        tell: is called with what takes long and how long, before it begins; None to say nothing.

    Raises:
        PtqlabError: the file cannot be converted, it, the images or the labels are wrong, or of a kind that cards do
            not know.
    """
    network = read_network(model, size)
    refuse_unconvertible(model, {network.input_name: network.shape}, march)
    finds_text = text_map(network) is not None and task is not TaskKind.SEGMENTATION
    source = find_source(images, labels, "hmean" if finds_text else guess_head(network, task).metric, column)
    head = guess_head(network, task, label_classes(source), labelled_for(source))
    if head.metric not in TEXT_METRICS and dictionary is not None:
        raise ConfigError(f"--dictionary {dictionary}: {model} does not read text: {head.reason}")
    said: tuple[str, ...] = ()
    runner = Runner(network.path, network.input_name)
    if head.metric in TEXT_METRICS:
        head, said = with_characters(head, network, dictionary, (model.resolve().parent, source.folder))
    options = data_options(source, network, head)
    dataset = OwnImages(options)
    if head.metric in TEXT_METRICS:
        fed = _as_usual(network, head, dataset)
        head = with_blank(head, np.concatenate([runner(images)[0] for images in fed]))
    fits, notes = labels_fit(source, head)
    notes = (*network.remarks, *said, *notes, *source.annotations.remarks)
    if tell is not None and (text := _waiting(network, head, options, fits)):
        tell(text)
    with closing(runner):
        decision, reason = _decision(network, head, dataset, runner, first_classes(source, head) if fits else None)
        if decision.first_class != options.first_class:
            options = options.model_copy(update={"first_class": decision.first_class})
            dataset = OwnImages(options)
        outputs = _float_outputs(network, dataset, runner, decision.best)
    used = Labels.DATA if fits else Labels.FLOAT
    targets = dataset.split("evaluation").targets() if fits else None
    metric = open_metric(head.metric, head.options)
    score = score_of_float(metric, targets, outputs)
    if targets is not None:
        notes = (*notes, *chance_note(head, score, targets), *numbering_note(head, metric, score, outputs, targets))
    if decision.basis is Basis.MIRROR and not decision.is_informed:
        notes = (*notes, _UNTOLD)
    shown = dataset.split("calibration").images(0, min(_SHOWN, options.calibration))
    return Proposal(
        card_name(model), network, head, source, options, dataset, used, decision, reason, score,
        FloatRun(outputs, network.seconds / runs_at_once()), shown, tuple(notes),
    )  # fmt: skip


def _waiting(network: NetworkFile, head: HeadGuess, options: OwnImagesOptions, fits: bool) -> str:
    """What the float model runs on, and about how long, where that is long; else empty."""
    again = FINALISTS + 1  # one that differs from the best in the order of colours
    tried = len(normalisations(network.channels)) * FEW + (MANY - FEW) * again
    if not fits:
        tried = 2 * tried if head.task is TaskKind.CLASSIFICATION else 0
    seconds = network.seconds * (tried + options.evaluation) / runs_at_once()
    if seconds < _LONG:
        return ""
    return (
        f"the float model runs {tried + options.evaluation} times, about {seconds:.0f} s: {tried} to tell the "
        f"normalisation, {options.evaluation} evaluation images"
    )


_LONG = 10.0
"""Seconds from which it is said how long something takes."""
_UNTOLD = (
    "the network says much the same of all these images under every normalisation: it is taken from the file alone; "
    "give images of the kind that the network was trained on, or labels"
)
TEXT_METRICS = ("edit_similarity", "word_accuracy")
"""Metrics of networks that read text."""


def _as_usual(network: NetworkFile, head: HeadGuess, dataset: Dataset) -> list[NDArray[np.float32]]:
    """The first calibration images under the first normalisations, what the network most likely takes among them."""
    name = conventional(network, head.usual).guesses[0].name
    guesses = sorted(normalisations(network.channels), key=lambda guess: guess.name != name)[:_USUAL]
    split = dataset.split("calibration")
    shown = split.images(0, min(FEW // 2, len(split)))
    return [guess.apply(shown, network.layout) for guess in guesses]


_USUAL = 3


_SHOWN = 6


def labels_fit(source: DataSource, head: HeadGuess) -> tuple[bool, tuple[str, ...]]:
    """Whether outputs can be scored with the labels, and what is to be said of that."""
    listed, what = source.annotations, labelled_for(source)
    if what is None:
        return False, ()
    if head.task is not what:
        fitted = "outputs that are compared by cosine" if head.task is TaskKind.OTHER else head.task.value
        return False, (f"{source.kind.value} labels do not fit {fitted}: labels are not used",)
    count = label_classes(source)
    if count is None or head.metric == "hmean":
        return head.metric != "cosine", ()
    if not first_classes(source, head):
        return False, (f"labels go up to {count - 1}, the network has {head.classes} classes: labels are not used",)
    is_counted = what is TaskKind.CLASSIFICATION and bool(listed.classes)
    if is_counted and len(listed.classes) not in (head.classes, head.classes - 1):
        return False, (
            f"{len(listed.classes)} classes with names ({', '.join(listed.classes[:3])}, …), the network has "
            f"{head.classes}: which is which is not known, labels are not used; name folders by the number of the "
            "class, or give a table with --labels",
        )
    return True, ()


def labelled_for(source: DataSource) -> TaskKind | None:
    """What the labels are for; None where there are none."""
    images = source.annotations.images
    if any(image.text is not None for image in images):
        return TaskKind.RECOGNITION
    if any(image.mask is not None for image in images):
        return TaskKind.SEGMENTATION
    if any(image.boxes is not None for image in images):
        return TaskKind.DETECTION if label_classes(source) is not None else None
    return TaskKind.CLASSIFICATION if label_classes(source) is not None else None


def label_classes(source: DataSource) -> int | None:
    """The highest number of a class, and one; None where nothing is labelled with a class."""
    found = _labels_of(source)
    return max(found) + 1 if found else None


def first_classes(source: DataSource, head: HeadGuess) -> list[int]:
    """What may be added to the labels: nothing; 1, where a background stands in front; -1, where they count from 1."""
    found = _labels_of(source)
    if not found or head.metric == "hmean":
        return [0]
    is_mask = head.task is TaskKind.SEGMENTATION
    tried = (0, -1) if is_mask else (0, 1, -1)
    return [by for by in tried if max(found) + by < head.classes and (min(found) + by >= 0 or is_mask)]


def _labels_of(source: DataSource) -> list[int]:
    """All classes of images and boxes; of masks the smallest and the largest of the first :data:`_MASKS`."""
    images = source.annotations.images
    masks = [image.mask for image in images if image.mask is not None]
    if masks:
        return list(classes_in(iter(masks[:_MASKS])))
    found = [image.label for image in images if image.label != NO_LABEL]
    return found + [box.label for image in images for box in image.boxes or ()]


_MASKS = 40


def data_options(source: DataSource, network: NetworkFile, head: HeadGuess) -> OwnImagesOptions:
    """Options of the data set: as many images as serve.

    Raises:
        CalibrationDataError: there is one image only.
    """
    found = len(source.annotations.images)
    if found < 2:
        raise CalibrationDataError(f"{source.folder}: holds one image; calibration and evaluation need one each")
    calibration, evaluation = split_sizes(found, network.outputs)
    return OwnImagesOptions(
        folder=source.folder,
        format=source.kind,
        labels=source.labels,
        label_column=source.column,
        height=network.size[0],
        width=network.size[1],
        colour=Colour.GRAY if network.channels == 1 else Colour.RGB,
        fit=head.fit,
        calibration=calibration,
        evaluation=evaluation,
    )


def split_sizes(found: int, outputs: Sequence[OutputTensor]) -> tuple[int, int]:
    """Calibration and evaluation samples of ``found``: as many as serve, and as memory allows.

    They depend on the data and the outputs alone, not on how fast this machine is at the moment: they are part of the
    data set's digest.

    Args:
        found: samples, at least 2.
        outputs: of one.
    """
    values = sum(prod(output.shape) for output in outputs)
    in_memory = max(_FEWEST, _MOST_VALUES // max(values, 1))
    calibration = min(_CALIBRATION, max(1, found // 4), in_memory)
    return calibration, min(_EVALUATION, in_memory, found - calibration)


def _decision(
    network: NetworkFile, head: HeadGuess, dataset: Dataset, runner: Runner, first: Sequence[int] | None
) -> tuple[Decision, str]:
    """The normalisation, measured where outputs or labels allow it, and what the file alone says."""
    said = conventional(network, head.usual)
    rest = [guess for guess in normalisations(network.channels) if guess not in said.guesses]
    judged = _judge(head, dataset, first)
    if judged is None:
        return Decision((), said.guesses[0], Basis.CONVENTION, 1.0), said.reason
    judge, basis = judged
    split = dataset.split("calibration")
    images = split.images(0, min(len(split), MANY))
    if basis is Basis.LABELS:
        floor = _score_of_chance(head, split.targets(0, len(images)))
        agreed = None
    else:
        floor = information_floor(len(images), head.classes)
        agreed = said.guesses
        rest = [] if said.is_certain else rest
    guesses = [*said.guesses, *rest]
    mirrored = basis is Basis.MIRROR
    decision = decide(
        partial(_begun, runner, network.layout), guesses, images, judge, basis, mirrored, agreed, floor, said.is_certain
    )
    return decision, said.reason


def _score_of_chance(head: HeadGuess, targets: Targets) -> float:
    """A score that answers which do not depend on the image may reach by luck."""
    level, count = chance_level(head.metric, targets), len(targets)
    return level + 2 * float(np.sqrt(level * (1 - level) / count)) if level > NOTHING_FOUND else level


def _judge(head: HeadGuess, dataset: Dataset, first: Sequence[int] | None) -> tuple[Judge, Basis] | None:
    """What decides; ``first`` holds what may be added to the labels, None where there are none."""
    if first is not None:
        split = dataset.split("calibration")
        targets = split.targets(0, min(len(split), MANY))
        return by_labels(open_metric(head.metric, head.options), {by: moved(targets, by) for by in first}), Basis.LABELS
    if head.task is TaskKind.CLASSIFICATION:
        return by_mirror, Basis.MIRROR
    return None


def moved(targets: Targets, by: int) -> Targets:
    """``targets`` with ``by`` added to every class; of masks, what becomes less than 0 is not counted any more."""
    if by == 0:
        return targets
    if isinstance(targets, np.ndarray):
        return targets + by
    found = []
    for target in targets:
        if not isinstance(target, SceneTarget):
            return targets
        mask = target.mask.astype(np.int64) + by
        counted = np.where((target.mask == IGNORED) | (mask < 0), IGNORED, mask).astype(np.uint8)
        found.append(SceneTarget(target.boxes, target.classes + by, counted))
    return found


def _float_outputs(
    network: NetworkFile, dataset: Dataset, runner: Runner, best: Normalisation
) -> Sequence[NDArray[Any]]:
    """Outputs of the float model on the evaluation images; images are read while those before are computed."""
    split = dataset.split("evaluation")

    def begin(at: int) -> Answer:
        return _begun(runner, network.layout, best, split.images(at, min(at + _AT_ONCE, len(split))))

    parts = [answer() for answer in ahead(begin, range(0, len(split), _AT_ONCE))]
    return read_only([np.concatenate(arrays) for arrays in zip(*parts, strict=True)])


def _begun(runner: Runner, layout: Layout, guess: Normalisation, images: Images) -> Answer:
    """``images`` under ``guess``, on their way through the network."""
    return runner.begin(images, lambda image: guess.apply(image[np.newaxis], layout)[0])


def score_of_float(metric: Metric, targets: Targets | None, outputs: Sequence[NDArray[Any]]) -> Score:
    """Score of the float model's ``outputs`` on the evaluation samples, as a card holds it.

    Args:
        metric: of the card.
        targets: None to score against the outputs themselves.
        outputs: samples in the first dimension.

    Raises:
        CalibrationDataError: the metric needs labels.
    """
    scored = metric.labels(outputs) if targets is None else targets
    if scored is None:
        raise CalibrationDataError(f"metric {metric.name} cannot score outputs without labels")
    return metric.score(outputs, scored)


def chance_note(
    head: HeadGuess, score: Score, targets: Targets, tried: str = " under every normalisation"
) -> tuple[str, ...]:
    """What to check if the float model is no better than answers that do not depend on the images.

    Args:
        head: of the network.
        score: of the float model.
        targets: that it was scored with.
        tried: how far the input was varied, in words.
    """
    level = chance_level(head.metric, targets)
    if head.task is TaskKind.OTHER or not is_at_chance(score, level, len(targets)):
        return ()
    numbered = "are the classes numbered as the network numbers them"
    questions = {
        TaskKind.CLASSIFICATION: f"{numbered}, and are these images of the kind that it was trained on",
        TaskKind.SEGMENTATION: f"{numbered}, and is the output a {head.kind}",
        TaskKind.RECOGNITION: "is this the dictionary of the network, in its order, and are these lines upright",
        TaskKind.DETECTION: f"{numbered}, and are these its outputs ({head.kind})",
    }
    return (f"float {head.metric} {score.value:.3f} is at chance level ({level:.3f}){tried}: {questions[head.task]}?",)
