"""What a sweep's page shows of samples: the metric of each class, and pictures of the worst samples."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from engine.errors import PtqlabError
from harness.datasets import load_dataset_card
from harness.report.results import Sweep
from harness.trials.files import WORST_FILE
from harness.trials.trial import TrialResult, TrialStore
from harness.zoo.cards import load_card, model_cards

MOST_CLASSES = 60
"""Classes of a trial that are shown, those that changed most."""

MOST_PICTURES = 8
"""Choices of a sweep whose worst samples are shown."""

_QUALITY = 80


def classes_data(trials: Sequence[TrialResult], store: TrialStore) -> list[dict[str, Any]]:
    """Per trial ``{trial, count, classes}``: names, float and quantised metric of the classes that changed most.

    The greatest loss stands first; trials without classes are left out.
    """
    found = []
    names = {model: _names(model) for model in {result.spec.model for result in trials}}
    for result in trials:
        kept = store.predictions(result.spec.key)
        if "by_class" not in kept or "float_by_class" not in kept:
            continue
        ours, floats = kept["by_class"].astype(np.float64), kept["float_by_class"].astype(np.float64)
        known = np.flatnonzero(~np.isnan(ours) & ~np.isnan(floats))
        most = known[np.argsort(-np.abs(ours - floats)[known], kind="stable")][:MOST_CLASSES]
        most = most[np.argsort((ours - floats)[most], kind="stable")]
        called = names[result.spec.model]
        rows = [
            [
                called[index] if index < len(called) else str(index),
                round(float(floats[index]), 5),
                round(float(ours[index]), 5),
            ]
            for index in most.tolist()
        ]
        found.append({"trial": result.spec.id, "count": len(known), "classes": rows})
    return found


def _names(model: str) -> tuple[str, ...]:
    """Names of the classes; none where card or data set cannot be read any more."""
    if model not in model_cards():
        return ()
    try:
        return tuple(load_dataset_card(load_card(model).dataset.name).classes)
    except PtqlabError:
        return ()


def worst_pictures(sweep: Sweep, store: TrialStore) -> list[tuple[str, str]]:
    """Ids of the best trials of each model and march, and their pictures as ``data:`` addresses.

    Where none passes the gates, those of what comes nearest.
    """
    ids = {result.spec.key: result.spec.id for result in sweep.results}
    found: list[tuple[str, str]] = []
    for choice in sweep.summary.choices:
        shown = choice.best or choice.nearest
        path = store.folder(shown) / WORST_FILE
        if shown in ids and path.is_file() and len(found) < MOST_PICTURES:
            with Image.open(path) as picture:
                buffer = io.BytesIO()
                picture.convert("RGB").save(buffer, "WEBP", quality=_QUALITY)
            address = f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
            found.append((ids[shown], address))
    return found
