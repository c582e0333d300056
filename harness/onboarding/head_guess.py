"""A meaning of a network's outputs, as the rows of the table of heads give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
        usual: normalisation of such networks, as :mod:`harness.onboarding.guesses` calls it.
        from_metadata: options that a card takes from the metadata of the ONNX file, with the key there.
        needs_labels: whether it is only taken where labels of its kind are there, or the user names the task.
    """

    kind: str
    task: TaskKind
    metric: str
    reason: str
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: int = 0
    fit: Fit = Fit.CROP
    is_sure: bool = True
    usual: str = ""
    from_metadata: Mapping[str, str] = field(default_factory=dict)
    needs_labels: bool = False
