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

from harness.files.strict_yaml import as_plain
from harness.trials.configuration import content
from harness.trials.trial import TrialSpec
from harness.trials.worst import worst_picture
from harness.zoo.cards import ModelCard

CONFIG_FILE = "config.yaml"
CARD_FILE = "card.yaml"
ENVIRONMENT_FILE = "environment.txt"
CONFUSION_FILE = "confusion.csv"
CLASSES_FILE = "classes.csv"
WORST_FILE = "worst.png"
TRIAL_PAGE = "trial.html"

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
