"""The bisection of a trial that got worse: ``ptqlab bisect`` on its own configuration and the images that flipped."""

from __future__ import annotations

import csv
import io
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.calibrate.data.sources import as_fed
from engine.errors import PtqlabError
from engine.ir import write_atomically
from harness.backends.foreign import write_inputs
from harness.backends.stages.images import calibration_samples
from harness.backends.values import CalibrationUse
from harness.gates.explanation import Bisection, Explanation
from harness.gates.shipped import CHECK as SHIPPED
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep
from harness.suites.settings import Engine
from harness.trials.configuration import configuration
from harness.trials.trial import TrialResult
from harness.zoo.cards import Labels, ModelCard, load_card

FOLDER = "bisection"
"""Folder beside a sweep's report."""
REPORT = "report.txt"
_IMAGES = 4
"""Images that are run through all stages."""
_PROGRAM = "from harness.cli.start import ptqlab; ptqlab()"


def bisected(sweep: Sweep, folder: Path, seconds: float) -> Explanation | None:
    """The explanation of ``sweep`` with a bisection of the first trial that got worse, if there is one.

    Args:
        sweep: with an explanation.
        folder: of the sweep; the bisection goes below it.
        seconds: that it may take.
    """
    explanation = sweep.summary.explanation
    if explanation is None or seconds <= 0:
        return explanation
    for result in sweep.results:
        # no stage of ours is to blame for a file that the toolchain built otherwise
        bad = sweep.summary.judgement.of(result.spec.id).without(SHIPPED).verdict is Verdict.REGRESSION
        if bad and result.ok and result.spec.settings.engine is Engine.BUNDLED:
            causes = explanation.of(result.spec.id)
            flips = causes.flips.images if causes is not None and causes.flips is not None else ()
            found = bisect_trial(result, [flip.image for flip in flips], folder / FOLDER, seconds)
            return explanation.model_copy(update={"bisection": found})
    return explanation


def bisect_trial(result: TrialResult, images: Sequence[int], folder: Path, seconds: float) -> Bisection:
    """Run a trial's conversion stage by stage.

    Args:
        result: of the trial.
        images: indices of evaluation images to run; the first ones where there are none.
        folder: for configuration, data and report; what it held is removed.
        seconds: time after which the bisection is stopped.
    """
    trial = result.spec.id
    try:
        arguments = _write_case(load_card(result.spec.model), result, images, folder)
    except PtqlabError as error:
        return Bisection(trial=trial, finding=f"could not start: {' '.join(str(error).split())}")
    command = shlex.join(["ptqlab", *arguments])
    try:
        finished = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return Bisection(trial=trial, finding=f"not finished within {seconds:g} s", command=command)
    write_atomically(folder / REPORT, (finished.stdout + finished.stderr).encode())
    lines = finished.stdout.strip().splitlines() or finished.stderr.strip().splitlines() or ["it printed nothing"]
    return Bisection(trial=trial, finding=lines[-1], report=f"{folder.name}/{REPORT}", command=command)


def _write_case(card: ModelCard, result: TrialResult, chosen: Sequence[int], folder: Path) -> list[str]:
    """Leave configuration, calibration data and samples in ``folder``; the arguments of ``ptqlab``."""
    shutil.rmtree(folder, ignore_errors=True)
    spec, dataset = result.spec, card.open_dataset()
    use = CalibrationUse(spec.calibration_samples, spec.settings.calibration_seed)
    inputs = card.training_inputs(calibration_samples(card, dataset, use))
    write_inputs(card, spec, result.int16_nodes, inputs, folder)
    split = dataset.split(card.dataset.evaluation.split)
    wanted = list(chosen[:_IMAGES]) or list(range(min(_IMAGES, spec.evaluation_samples)))
    specs = configuration(card, spec, result.int16_nodes, Path()).input_specs([each.name for each in card.input_specs])
    rows = []
    for place, index in enumerate(wanted):
        sample = split.take(index, index + 1)
        trained, floats = card.training_inputs(sample), card.float_inputs(sample)
        for each in specs:
            _save(as_fed(trained[each.name], each), folder / "samples" / each.name, place)
            _save(floats[each.name], folder / "source" / each.name, place)
        if card.metric.labels is Labels.DATA:
            rows.append((f"{place}.npy", split.targets(index, index + 1)[0]))
    if rows and all(isinstance(label, np.integer) for _, label in rows):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_atomically(folder / "samples" / "labels.csv", text.getvalue().encode())
    config = ["--config", str(folder / "config.yaml"), "--samples", str(_IMAGES)]
    data = ["--data", str(folder / "samples"), "--source-data", str(folder / "source")]
    return ["bisect", str(card.model_path()), *config, *data]


def _save(sample: np.ndarray[tuple[int, ...], np.dtype[np.generic]], folder: Path, place: int) -> None:
    buffer = io.BytesIO()
    np.save(buffer, sample, allow_pickle=False)
    write_atomically(folder / f"{place}.npy", buffer.getvalue())
