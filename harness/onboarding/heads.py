"""What the outputs of a network mean, by their number and shapes: one table, first match counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from harness.onboarding.network_file import NetworkFile
from harness.terms import Fit
from harness.zoo.cards import TaskKind


@dataclass(frozen=True)
class HeadGuess:
    """A meaning of the outputs.

    Attributes:
        kind: name of the head in the table.
        task: what the network is for.
        metric: it is scored by.
        options: of the metric.
        classes: that it tells apart; 0 where it has none.
        fit: how images are usually brought to its size.
        reason: why it is taken for this.
        is_sure: whether nothing else looks like this.
    """

    kind: str
    task: TaskKind
    metric: str
    reason: str
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: int = 0
    fit: Fit = Fit.CROP
    is_sure: bool = True


def guess_head(network: NetworkFile, task: TaskKind | None = None) -> HeadGuess:
    """The head of ``network``; outputs that none of the table fits are compared as they are, by cosine.

    Args:
        network: as it was read.
        task: that the user names; None to guess, :attr:`TaskKind.OTHER` to compare outputs as they are.
    """
    for rule in HEADS:
        found = rule(network)
        if found is not None and task in (None, found.task):
            return found
    shapes = ", ".join(f"{output.name} {'x'.join(map(str, output.shape))}" for output in network.outputs)
    why = "asked for" if task is TaskKind.OTHER else f"no head of the table has outputs {shapes}"
    return HeadGuess(
        kind="unknown",
        task=TaskKind.OTHER,
        metric="cosine",
        reason=f"{why}; outputs are compared with the float model's",
        fit=Fit.STRETCH,
        is_sure=task is TaskKind.OTHER,
    )


def _class_scores(network: NetworkFile) -> HeadGuess | None:
    """One output with a score per class, whatever dimensions of 1 stand around it."""
    if len(network.outputs) != 1:
        return None
    shape = network.outputs[0].shape
    classes = prod(shape)
    if not shape or shape[0] != 1 or max(shape) != classes or classes < 2:
        return None
    return HeadGuess(
        kind="class scores",
        task=TaskKind.CLASSIFICATION,
        metric="top1",
        reason=f"one output of {classes} values per image",
        classes=classes,
        fit=Fit.CROP if network.size[0] == network.size[1] and min(network.size) > _SMALL else Fit.STRETCH,
    )


_SMALL = 64
"""Side up to which images are drawn for the network whole, as digits are, and not cut out of the middle."""

HEADS: tuple[Callable[[NetworkFile], HeadGuess | None], ...] = (_class_scores,)
"""The table."""
