"""What a trial's folder holds for people: its configuration, card, environment, classes, and its worst samples."""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from harness.strict_yaml import as_plain
from harness.trials.configuration import content
from harness.trials.trial import TrialSpec
from harness.zoo.cards import ModelCard

CONFIG_FILE = "config.yaml"
CARD_FILE = "card.yaml"
ENVIRONMENT_FILE = "environment.txt"
CONFUSION_FILE = "confusion.csv"
CLASSES_FILE = "classes.csv"
WORST_FILE = "worst.png"
TRIAL_PAGE = "trial.html"

WORST = 16
"""Samples on the picture of the worst."""

_SIDE, _CAPTION, _COLUMNS = 128, 14, 4
_MOST_CLASSES = 100
"""Classes up to which there is a confusion table."""

Arrays = Mapping[str, NDArray[Any]]


def trial_files(
    card: ModelCard,
    spec: TrialSpec,
    int16_nodes: Sequence[str],
    predictions: Arrays,
    image_of: Callable[[int], NDArray[np.uint8] | None],
) -> dict[str, bytes]:
    """The files by name.

    Args:
        card: of the float model.
        spec: the trial.
        int16_nodes: that its int16 policy asks for.
        predictions: as the trial keeps them.
        image_of: the evaluation image with this number, uint8, shape (height, width, channels); None where a sample
            has none.
    """
    config = content(
        card, spec, int16_nodes, Path(f"{card.name}.onnx"), [Path("calibration_data") / each for each in _folders(card)]
    )
    files = {
        CONFIG_FILE: yaml.safe_dump(config, sort_keys=False).encode(),
        CARD_FILE: yaml.safe_dump(as_plain(card), sort_keys=False).encode(),
        ENVIRONMENT_FILE: environment_text(spec.march.value).encode(),
    }
    if {"classes", "targets"} <= set(predictions):
        targets, classes = predictions["targets"], predictions["classes"]
        if max(targets.max(), classes.max()) < _MOST_CLASSES:
            files[CONFUSION_FILE] = confusion(targets, classes).encode()
    if "by_class" in predictions:
        files[CLASSES_FILE] = classes_table(predictions["by_class"], predictions["float_by_class"]).encode()
    if image_of(0) is not None:
        files[WORST_FILE] = worst_picture(predictions, image_of)
    return files


def _folders(card: ModelCard) -> list[str]:
    """Folders of the calibration data: one per input where there are several."""
    names = [spec.name for spec in card.input_specs]
    return names if len(names) > 1 else [""]


def environment_text(march: str) -> str:
    """Machine and packages, a line each, those as ``pip freeze`` has them."""
    return f"march {march}\n{_machine()}"


@cache
def _machine() -> str:
    packages = sorted({f"{found.name}=={found.version}" for found in metadata.distributions()}, key=str.lower)
    lines = [f"python {platform.python_version()}", f"system {platform.platform()}", f"cpu {_processor()}", *packages]
    return "\n".join(lines) + "\n"


def _processor() -> str:
    """Name of the processor; of the architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} logical" if names else platform.machine()


def confusion(targets: NDArray[Any], classes: NDArray[Any]) -> str:
    """Counts as CSV: a row per class of the targets, a column per class that the model said."""
    count = int(max(targets.max(), classes.max())) + 1
    pairs = targets.astype(np.int64) * count + classes.astype(np.int64)
    table = np.bincount(pairs, minlength=count * count).reshape(count, count)
    return _as_csv([["target \\ said", *range(count)], *([row, *counts] for row, counts in enumerate(table.tolist()))])


def classes_table(ours: NDArray[Any], floats: NDArray[Any]) -> str:
    """The metric of each class as CSV, of the quantised and the float model, and the difference; empty where there is
    none."""
    rows = [
        [index, *("" if np.isnan(value) else f"{value:.6g}" for value in (quantised, reference, quantised - reference))]
        for index, (quantised, reference) in enumerate(zip(ours.tolist(), floats.tolist(), strict=True))
    ]
    return _as_csv([["class", "quantised", "float", "difference"], *rows])


def _as_csv(rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def worst_samples(predictions: Arrays) -> NDArray[np.int64]:
    """Numbers of the :data:`WORST` samples with the lowest score; of equal ones those least like the float model."""
    order = np.lexsort((predictions["per_sample_cosine"], predictions["per_sample"]))
    return order[:WORST]


def worst_picture(predictions: Arrays, image_of: Callable[[int], NDArray[np.uint8] | None]) -> bytes:
    """A PNG of the worst samples in rows of four: number, score, cosine, and the class said and wanted."""
    from PIL import Image, ImageDraw

    chosen = worst_samples(predictions)
    rows = -(-len(chosen) // _COLUMNS)
    sheet = Image.new("RGB", (_COLUMNS * _SIDE, rows * (_SIDE + 2 * _CAPTION)), "white")
    draw = ImageDraw.Draw(sheet)
    for place, index in enumerate(chosen.tolist()):
        left, top = place % _COLUMNS * _SIDE, place // _COLUMNS * (_SIDE + 2 * _CAPTION)
        pixels = image_of(index)
        if pixels is None:
            continue
        picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).convert("RGB")
        picture.thumbnail((_SIDE - 2, _SIDE - 2))
        sheet.paste(picture, (left, top))
        score, cosine = predictions["per_sample"][index], predictions["per_sample_cosine"][index]
        draw.text((left, top + _SIDE), f"{index}: {score:.3g}, cos {cosine:.4f}", fill="black")
        draw.text((left, top + _SIDE + _CAPTION), _answer(predictions, index), fill="black")
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def _answer(predictions: Arrays, index: int) -> str:
    if not {"classes", "float_classes", "targets"} <= set(predictions):
        return ""
    said, before, wanted = (int(predictions[name][index]) for name in ("classes", "float_classes", "targets"))
    return f"said {said}, float {before}, is {wanted}"
