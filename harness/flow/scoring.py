"""``ptqlab evaluate`` and ``ptqlab classify``: a model of any stage on images, with classes and names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.cli.inputs import trained_as_fed
from engine.compile import CompiledModel
from engine.compile.pack import is_compiled, open_single
from engine.compile.removal import dequantized
from engine.errors import CalibrationDataError, ConfigError, ModelError
from engine.simulate import Session
from harness.flow.preparation import Preparation, chosen, image_files
from harness.metrics import Metric, Score

BATCH = 16
"""Images that are in memory at once."""
WORKERS_VARIABLE = "PARALLEL_PROCESS_NUM"
"""Environment variable of the documents: how many threads evaluate."""


@dataclass(frozen=True)
class Labelled:
    """Images with their classes.

    Attributes:
        files: the images.
        classes: int64, shape (images,).
    """

    files: tuple[Path, ...]
    classes: NDArray[np.int64]


@dataclass(frozen=True)
class Model:
    """A model of any stage, ready to run.

    Attributes:
        session: runs it.
        compiled: the content of its file where it is a ``.bin`` or ``.hbm``.
    """

    session: Session
    compiled: CompiledModel | None

    def run(self, feed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Outputs by name; those whose Dequantize node was removed are dequantised."""
        results = self.session.run(feed)
        return results if self.compiled is None else dequantized(self.compiled, results)


def open_file(path: Path, threads: int | None = None) -> Model:
    """The model in ``path``: source, original_float, optimized_float, calibrated, quantized, or compiled.

    Raises:
        ModelError: the file is no model.
    """
    compiled = open_single(path) if is_compiled(path) else None
    return Model(Session(path if compiled is None else compiled.executable, threads=threads), compiled)


def labelled(folder: Path, labels: Path | None) -> Labelled:
    """Images with classes: those that ``labels`` lists, or sub-folders of ``folder``, one per class, in their order.

    Args:
        folder: of the images.
        labels: a text file with the name of an image and its class, an integer, in each line.

    Raises:
        CalibrationDataError: there are no images, or a line of ``labels`` is wrong.
    """
    if labels is None:
        classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        if not classes:
            raise CalibrationDataError(f"{folder}: holds no folder per class; give the classes with --labels FILE")
        pairs = [(file, index) for index, path in enumerate(classes) for file in image_files(path)]
    else:
        lines = labels.read_text(encoding="utf-8").splitlines()
        pairs = [_listed(folder, line, f"{labels}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not pairs:
        raise CalibrationDataError(f"{labels}: lists no image")
    return Labelled(tuple(file for file, _ in pairs), np.array([index for _, index in pairs], np.int64))


def _listed(folder: Path, line: str, where: str) -> tuple[Path, int]:
    name, _, label = line.replace(",", " ").strip().rpartition(" ")
    path = folder / name.strip()
    if not name or not label.isdecimal():
        raise CalibrationDataError(f"{where}: {line!r}: expected the name of an image and its class, an integer from 0")
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise CalibrationDataError(f"{where}: {name.strip()!r} is not a file in {folder}")
    return path, int(label)


def drawn(data: Labelled, count: int | None, seed: int) -> Labelled:
    """``count`` of the images, drawn without replacement; all where ``count`` is None.

    Raises:
        CalibrationDataError: there are fewer.
    """
    kept = chosen(range(len(data.files)), count, seed)
    return Labelled(tuple(data.files[index] for index in kept), data.classes[kept])


def outputs_of(
    model: Model, prepare: Preparation, files: Sequence[Path], jobs: int, done: Callable[[int], None]
) -> list[NDArray[Any]]:
    """The model's outputs for ``files``, in its order, images in the first dimension.

    Args:
        model: it has the one input that ``prepare`` is for.
        prepare: what is done to each image.
        files: the images.
        jobs: threads that read images.
        done: called after each batch with the number of images processed.

    Raises:
        ConfigError: the model has other inputs.
        CalibrationDataError: a file is no image.
    """
    spec = prepare.target.spec
    names = [info.name for info in model.session.inputs]
    if names != [spec.name]:
        raise ConfigError(f"the model has inputs {', '.join(names)}; images can be given only for {spec.name} alone")
    (info,) = model.session.inputs
    each = max(1, info.shape[0])
    parts: list[list[NDArray[Any]]] = []
    with ThreadPoolExecutor(jobs) as pool:
        for start in range(0, len(files), BATCH):
            images = np.stack(list(pool.map(prepare, files[start : start + BATCH])))
            padded = np.concatenate([images, np.repeat(images[-1:], -len(images) % each, axis=0)])
            results = model.run({info.name: trained_as_fed(model.session, info, spec, padded)})
            parts.append([array[: len(images)] for array in results.values()])
            done(len(images))
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def evaluate(
    model: Model, prepare: Preparation, data: Labelled, metric: Metric, jobs: int, done: Callable[[int], None]
) -> Score:
    """The metric of a model on labelled images; arguments as for :func:`outputs_of`.

    Raises:
        ModelError: outputs are not numbers, which no metric can judge.
    """
    outputs = outputs_of(model, prepare, data.files, jobs, done)
    if any(np.isnan(values).any() for values in outputs):
        raise ModelError("the outputs of the model hold NaN on these images: nothing can be scored")
    return metric.score(outputs, data.classes)


def report(score: Score) -> str:
    """What the documents' evaluation prints."""
    return f"===REPORT-START{{MAPPER-EVAL}}===\n{score.value:.4f}\n===REPORT-END{{MAPPER-EVAL}}==="


def likeliest(scores: NDArray[Any], count: int) -> list[tuple[int, float]]:
    """The ``count`` largest classes with their probabilities; equal ones by index.

    Args:
        scores: float, any shape: one value per class. Values that are no probabilities (below 0, or of another sum than
            1) go through a softmax in float64.
        count: how many.
    """
    values = np.asarray(scores, np.float64).reshape(-1)
    if values.min() < 0 or abs(values.sum() - 1) > 1e-2:
        values = np.exp(values - values.max())
        values /= values.sum()
    order = np.argsort(-values, kind="stable")[:count]
    return [(int(index), float(values[index])) for index in order]


def workers(given: int | None) -> int:
    """Threads: ``given``, or ``PARALLEL_PROCESS_NUM``, or one per processor.

    Raises:
        ConfigError: the variable is no positive integer.
    """
    if given is not None:
        return given
    text = os.environ.get(WORKERS_VARIABLE)
    if text is None:
        return os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{WORKERS_VARIABLE}={text!r}: expected a positive integer")
    return int(text)
