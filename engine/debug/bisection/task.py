"""The task metric of a stage: what its outputs are worth with the labels of the samples."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import CalibrationDataError, ConfigError, InferenceError, hint
from engine.untrusted import NUMBERS, read_npy

Array = NDArray[Any]
Score = Callable[[Sequence[Array], Array], float]
"""Takes the outputs of a model, samples along their first dimension, and the labels; larger is better."""

LABELS_FILE = "labels.csv"
"""Labels in the folder of the samples, where no other file is given."""
TOP1 = "top1"


@dataclass(frozen=True)
class TaskMetric:
    """A metric with the labels that it needs.

    Attributes:
        name: of the metric.
        score: the metric.
        labels: one per sample.
    """

    name: str
    score: Score
    labels: Array

    def first(self, samples: int) -> TaskMetric:
        """This metric for the first ``samples`` samples."""
        return replace(self, labels=self.labels[:samples])

    def of(self, outputs: Sequence[Array]) -> float:
        """The metric of ``outputs``."""
        return float(self.score(outputs, self.labels))


def top1(outputs: Sequence[Array], labels: Array) -> float:
    """Share of samples whose class has the largest output; of equal ones the first counts.

    Args:
        outputs: the first holds class scores, as many per sample as there are classes.
        labels: integers, shape (samples,).

    Raises:
        InferenceError: the labels are no classes of the output.
    """
    if labels.ndim != 1 or len(outputs[0]) != len(labels):
        raise InferenceError(f"{TOP1}: labels of shape {labels.shape} for an output of shape {outputs[0].shape}")
    scores = outputs[0].reshape(len(labels), -1)
    if not np.issubdtype(labels.dtype, np.integer):
        raise InferenceError(f"{TOP1} needs labels from 0 to {scores.shape[1] - 1}, not {labels[0]!s}")
    if labels.min() < 0 or labels.max() >= scores.shape[1]:
        raise InferenceError(
            f"{TOP1} needs labels from 0 to {scores.shape[1] - 1}; the smallest is {labels.min()}, "
            f"the largest {labels.max()}"
        )
    return float(np.mean(scores.argmax(axis=1) == labels))


def open_score(name: str) -> Score:
    """The metric ``name``: ``top1``, or ``module:function``, found as in a script of the current folder.

    Raises:
        ConfigError: there is no such function.
    """
    if name == TOP1:
        return top1
    module, separator, function = name.partition(":")
    if not separator:
        raise ConfigError(f"metric {name!r} is unknown; allowed are {TOP1} and module:function{hint(name, [TOP1])}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"metric {name!r}: {error}") from error
    if not callable(found):
        raise ConfigError(f"metric {name!r} is no function")
    score: Score = found
    return score


def read_labels(path: Path, samples: Sequence[str]) -> Array:
    """The labels of ``samples``.

    Args:
        path: ``.npy``: an array with a row per sample, in their order. Otherwise CSV: rows ``label`` in the order of
            the samples, or ``sample,label`` in any order, where ``sample`` is a file name with or without suffix. A
            first row that ends in the word ``label`` is a heading. More rows than samples are allowed.
        samples: their file names without suffix.

    Returns:
        int64 where all labels are whole numbers, else text; a row per sample.

    Raises:
        CalibrationDataError: the file cannot be read, or has no label for a sample.
    """
    try:
        if path.suffix == ".npy":
            return _first(read_npy(path, NUMBERS + "U"), samples, path)
        with path.open(encoding="utf-8", newline="") as stream:
            rows = [[cell.strip() for cell in row] for row in csv.reader(stream) if row]
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise CalibrationDataError(f"{path}: no labels: {error}") from error
    if rows and rows[0][-1].lower() == "label":
        rows = rows[1:]
    if not rows:
        raise CalibrationDataError(f"{path}: holds no labels")
    columns = {len(row) for row in rows}
    if columns == {1}:
        return _first(_typed([row[0] for row in rows]), samples, path)
    if columns != {2}:
        allowed = "expected rows 'label' or 'sample,label'"
        raise CalibrationDataError(f"{path}: {allowed}; found rows of {sorted(columns)} columns")
    known = {Path(name).stem: label for name, label in rows}
    missing = [name for name in samples if name not in known]
    if missing:
        raise CalibrationDataError(f"{path}: no label for the samples {missing}")
    return _typed([known[name] for name in samples])


def _first(labels: Array, samples: Sequence[str], path: Path) -> Array:
    found = len(labels) if labels.ndim else 0
    if found < len(samples):
        raise CalibrationDataError(f"{path}: {found} labels for {len(samples)} samples")
    return labels[: len(samples)]


def _typed(labels: Sequence[str]) -> Array:
    try:
        return np.array([int(label) for label in labels], np.int64)
    except ValueError:
        return np.array(labels)
