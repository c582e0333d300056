"""The causes of a verdict on the page: differences in words, and thumbnails of the images that flipped."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from engine.errors import PtqlabError
from harness.datasets import Split
from harness.gates.flips import Flip
from harness.report.results import Sweep
from harness.zoo.cards import load_card, model_cards

_SIDE = 96
"""Pixels of a thumbnail's longer side."""
_MOST = 60
"""Thumbnails on a page; of further trials there are words alone."""


def causes_of(sweep: Sweep) -> list[dict[str, Any]]:
    """What the page shows of every trial that has causes: the explanation, and its flips with their pictures."""
    explanation = sweep.summary.explanation
    if explanation is None:
        return []
    models = {result.spec.id: result.spec.model for result in sweep.results}
    splits: dict[str, Split | None] = {}
    left, found = _MOST, []
    for causes in explanation.trials:
        flips = causes.flips.images if causes.flips is not None else ()
        model = models.get(causes.trial, "")
        if flips and left and model not in splits:
            splits[model] = _evaluation_split(model)
        split = splits.get(model) if left else None
        pictures = [_thumbnail(split, flip) for flip in flips[:left]] if split is not None else []
        left -= len(pictures)
        found.append({"causes": causes, "flips": list(_paired(flips, pictures))})
    return found


def _paired(flips: Sequence[Flip], pictures: Sequence[str]) -> list[tuple[Flip, str]]:
    return [(flip, pictures[place] if place < len(pictures) else "") for place, flip in enumerate(flips)]


def _evaluation_split(model: str) -> Split | None:
    """The evaluation images of a trial; None where card or data cannot be opened any more."""
    if model not in model_cards():
        return None
    try:
        card = load_card(model)
        return card.open_dataset().split(card.dataset.evaluation.split)
    except PtqlabError:
        return None


def _thumbnail(split: Split, flip: Flip) -> str:
    """The image as a ``data:`` address; empty where the split does not have it any more."""
    try:
        (pixels,) = split.images(flip.image, flip.image + 1)
    except PtqlabError:
        return ""
    picture = Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))
    picture.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
