"""What the outputs of a network mean, by their number and shapes: one table, first match counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from harness.metrics.closeness import Agreement
from harness.onboarding.detector_heads import (
    anchor_heads,
    distribution_heads,
    distribution_tables,
    heat_maps,
    one_table,
    scores_and_boxes,
    split_heads,
)
from harness.onboarding.dictionary import BESIDE_CHARACTERS
from harness.onboarding.exporters import Exported, read_exported
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.map_heads import class_map, lines_of_text, map_per_class, one_map, steps_of_text, text_map
from harness.onboarding.network_file import NetworkOutputs
from harness.onboarding.prior_heads import boxes_and_scores, points_of_pyramid, prior_maps, prior_tables
from harness.terms import Fit
from harness.zoo.cards import TaskKind


def guess_head(
    network: NetworkOutputs, task: TaskKind | None = None, classes: int | None = None, labelled: TaskKind | None = None
) -> HeadGuess:
    """The head of ``network``; outputs that none of the table fits are compared as they are, by cosine.

    What the metadata of the file say goes before any guess: heads of another task or number of classes are none.

    Args:
        network: as it was read; of one without an image input only class scores are known.
        task: that the user names; None to guess, :attr:`TaskKind.OTHER` to compare outputs as they are.
        classes: that the labels tell apart at least; heads with fewer are passed over.
        labelled: what labels are there for; None where there are none.
    """
    rules = HEADS if all(network.size) else (_class_scores,)
    said = read_exported(network.metadata)
    found = [guess for rule in rules if (guess := rule(network)) is not None and _is_asked(guess, task)]
    found = _as_said(found, said, task)
    fitting = [guess for guess in found if not guess.needs_labels or task is not None or guess.task is labelled]
    enough = [guess for guess in fitting if classes is None or guess.classes >= classes]
    labelled_so = [guess for guess in enough if guess.task is labelled]
    exact = [guess for guess in enough if guess.task is TaskKind.DETECTION and guess.classes == classes]
    for guess in (*exact, *labelled_so, *enough, *fitting):
        return guess
    shapes = ", ".join(f"{output.name} {'x'.join(map(str, output.shape))}" for output in network.outputs)
    why = "--task none" if task is TaskKind.OTHER else f"no known head has outputs {shapes}"
    if task is None and said.kind is not None:
        why = f"the file says {said.words}, but {why}"
        if said.kind is TaskKind.OTHER:
            why = f"the file says {said.words}, for which there is no metric"
    return HeadGuess(
        kind="unknown",
        task=TaskKind.OTHER,
        metric="cosine",
        reason=f"{why}; outputs are compared with those of the float model",
        options={} if _class_scores(network) is None else {"agreement": Agreement.TOP1.value},
        fit=Fit.STRETCH,
        is_sure=task is TaskKind.OTHER,
    )


def _as_said(found: list[HeadGuess], said: Exported, task: TaskKind | None) -> list[HeadGuess]:
    """What the metadata of the file leave of ``found``; ``task`` that the user names goes before theirs."""
    of_task = found if task is not None or said.kind is None else [each for each in found if each.task is said.kind]
    if said.characters and not said.classes:
        reading = [each for each in of_task if each.classes - said.characters in BESIDE_CHARACTERS]
        return [replace(each, is_sure=True) for each in reading] or of_task
    if not said.words:
        return of_task
    counted = [each for each in of_task if not said.classes or each.classes == len(said.classes)]
    if not counted and (task is not None or said.kind is None):
        return of_task
    return [_said(each, said.words) for each in counted]


def _said(guess: HeadGuess, words: str) -> HeadGuess:
    """``guess``, which the metadata of the file confirm."""
    return replace(guess, reason=f"{guess.reason}; the metadata of the file say {words}", is_sure=True)


def _is_asked(guess: HeadGuess, task: TaskKind | None) -> bool:
    """Whether ``guess`` is of the task; reading text is finding it too."""
    return task in (None, guess.task) or (task is TaskKind.RECOGNITION and guess.metric == "hmean")


def _class_scores(network: NetworkOutputs) -> HeadGuess | None:
    """One output with a score per class, whatever dimensions of 1 stand around it."""
    if len(network.outputs) != 1:
        return None
    shape = network.outputs[0].shape
    classes = prod(shape)
    if not shape or shape[0] != 1 or max(shape) != classes or classes < 2:
        return None
    fit = Fit.CROP if network.size[0] == network.size[1] and min(network.size) > _SMALL else Fit.STRETCH
    task, reason = TaskKind.CLASSIFICATION, f"one output of {classes} values per image"
    return HeadGuess("class scores", task, "top1", reason, classes=classes, fit=fit)


_SMALL = 64
"""Side up to which images are drawn for the network whole, as digits are, and not cut out of the middle."""

HEADS: tuple[Callable[[NetworkOutputs], HeadGuess | None], ...] = (
    _class_scores,
    class_map,
    lines_of_text,
    one_table,
    anchor_heads,
    distribution_heads,
    split_heads,
    distribution_tables,
    prior_tables,
    prior_maps,
    points_of_pyramid,
    boxes_and_scores,
    scores_and_boxes,
    heat_maps,
    map_per_class,
    text_map,
    one_map,
    steps_of_text,
)
"""The table."""
