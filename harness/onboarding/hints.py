"""What may be wrong with a card whose float model scores badly, tried on a few images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import InputParameters
from engine.terms import InputType
from harness.datasets import Targets, one_by_one
from harness.gates.paired import paired_p_value
from harness.metrics import Score
from harness.onboarding.chance import NOTHING_FOUND, chance_level, is_at_chance
from harness.onboarding.guesses import normalisations
from harness.onboarding.judging import SURE
from harness.onboarding.network_file import Runner
from harness.zoo.cards import Labels, ModelCard, evaluation_images

IMAGES = 32
"""Images that are tried."""
_STANDARD_ERRORS = 3
"""Below the card's own score, from which the float model scores badly."""


@dataclass(frozen=True)
class _Attempt:
    title: str
    score: Score


def preprocessing_hint(card: ModelCard) -> str | None:
    """What to change where the float model's score is at chance level, or far below what the card says; else None.

    Other colours, means and scales are tried on the first :data:`IMAGES` evaluation images; one is named if it is
    better by more than chance. There is no hint where labels are the float model's own, or the input is no image.

    Raises:
        PtqlabError: the card, its data or its model are wrong.
    """
    specs = card.input_specs
    if card.metric.labels is not Labels.DATA or len(specs) != 1 or not specs[0].is_image:
        return None
    split, total = evaluation_images(card)
    count = min(IMAGES, total)
    targets, runner = split.targets(0, count), Runner(card.model_path(), specs[0].name)
    samples = split.take(0, count)

    def tried(title: str, changed: ModelCard) -> _Attempt:
        feeds = [next(iter(feed.values())) for feed in one_by_one(changed.float_inputs(samples))]
        outputs = runner(np.concatenate(feeds).astype(np.float32))
        return _Attempt(title, card.open_metric().score(outputs, targets))

    own = tried("", card)
    why = _too_low(own.score, card, targets)
    if why is None:
        return None
    others = [tried(title, changed) for title, changed in _alternatives(card)]
    best = max(others, key=lambda attempt: attempt.score.value)
    text = f"float {card.metric.name} {own.score.value:.3f} on {count} images is {why}"
    better: NDArray[Any] = best.score.per_sample - own.score.per_sample
    if best.score.value <= own.score.value or paired_p_value(better) >= SURE:
        return f"{text}; no other colours, mean or scale are better: are the labels those of the network?"
    return f"{text}: is the colour order or the mean wrong? With {best.title} it is {best.score.value:.3f}"


def _alternatives(card: ModelCard) -> list[tuple[str, ModelCard]]:
    """The card with the colours turned round, and with every other normalisation; what changes, in words."""
    given, kind = card.converter_yaml(), card.input_specs[0].type_train
    bare = {key: value for key, value in given.items() if key not in _NUMBERS}
    changed: list[tuple[str, dict[str, Any]]] = []
    if kind in _TURNED:
        numbers = {key: " ".join(given[key].split()[::-1]) for key in _NUMBERS if key in given}
        changed.append((_TURNED[kind].value.upper(), {**given, **numbers, **_coloured_as(_TURNED[kind])}))
    for guess in normalisations(1 if kind is InputType.GRAY else 3):
        changed.append((str(guess), {**bare, **guess.normalisation_keys(), **_coloured_as(guess.colour)}))
    return [(title, with_input(card, values)) for title, values in changed]


def with_input(card: ModelCard, values: Mapping[str, Any]) -> ModelCard:
    """The card with other ``input_parameters``; a copy would keep what was worked out of the old ones."""
    fields = {name: getattr(card, name) for name in ModelCard.model_fields}
    return ModelCard.model_construct(**{**fields, "input_parameters": InputParameters.model_validate(dict(values))})


_NUMBERS = ("mean_value", "scale_value")
_TURNED = {InputType.RGB: InputType.BGR, InputType.BGR: InputType.RGB}


def _coloured_as(colour: InputType) -> dict[str, str]:
    return {"input_type_train": colour.value, "input_type_rt": colour.value}


def _too_low(score: Score, card: ModelCard, targets: Targets) -> str | None:
    """Why a score is too low; None where it is not."""
    level = chance_level(card.metric.name, targets)
    if is_at_chance(score, level, len(targets)):
        if level == NOTHING_FOUND:
            return "next to nothing"
        if not is_at_chance(Score(card.float_score.value, score.stderr, score.per_sample), level, len(targets)):
            return f"at chance level ({level:.3f}), and not {card.float_score.value:.3f} as the card says"
        return f"at chance level ({level:.3f})"
    error = float(np.hypot(score.stderr, card.float_score.stderr))
    if score.value < card.float_score.value - max(_STANDARD_ERRORS * error, 0.1):
        return f"far below the {card.float_score.value:.3f} of the card"
    return None
