"""The accuracy that reaches the board: ``python -m benchmarks.shipped_accuracy MODEL... --workdir DIR``.

For each card of the zoo, on half of its evaluation images two things are chosen by the mean cosine of the outputs to
the float model's: the original toolchain's best own setting (it calibrates by itself, ``calibration_type`` ``max`` and
``kl``), and the best of ptqlab's (:data:`OURS`). Ours is shipped (:mod:`engine.ship`) and built by the same toolchain,
and what it built runs on the simulator. The table reports both on the other half, which chose nothing, beside the float
model: the card's metric, agreement with the float model's decisions, mean cosine of the outputs.

``PTQLAB_HB_MAPPER`` names the toolchain. Calibration images are the first of the card's split.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.chips import DEFAULT_MARCH, March
from engine.convert.items import QUANTIZED
from engine.convert.runner import Given, Run
from engine.errors import ConfigError, ModelError
from engine.ir import load_model, to_bytes
from engine.ship import Origin, Shipment, verify, write
from engine.ship.build import run_toolchain
from engine.terms import CalibrationType
from engine.toolchain.tool import VARIABLE, Toolchain, find_toolchain
from engine.version import installed_version
from harness.backends.bundled import Network
from harness.backends.items import CARD, DATASET, FLOAT_OUTPUTS, OUTPUTS
from harness.backends.stages.score import paired_accuracy
from harness.datasets import Targets
from harness.execution.planning import resolve
from harness.suites.settings import Engine, Settings
from harness.suites.suite import ExplicitTrial, Point, Suite
from harness.trials.tasks import Bench, StageClock
from harness.trials.trial import TrialSpec

ORIGINAL = tuple(
    Settings(engine=Engine.HB_MAPPER, calibration_type=kind) for kind in (CalibrationType.MAX, CalibrationType.KL)
)
"""The original's own settings."""
OURS = (
    Settings(),
    Settings(mse_thresholds=True, mean_bias_correction=True, adaptive_rounding=True),
    Settings(asymmetric=True, mean_bias_correction=True, adaptive_rounding=True, integer_bias_correction=True),
)
"""Ours: the plain one and the two combinations of :mod:`benchmarks.option_gains`."""


@dataclass(frozen=True)
class Row:
    """One model on the images that chose nothing."""

    name: str
    score: float
    agreement: float | None
    cosine: float | None

    def __str__(self) -> str:
        shown = ("-" if value is None else f"{value:.4f}" for value in (self.agreement, self.cosine))
        return " / ".join((f"{self.score:.4f}", *shown))


@dataclass(frozen=True)
class Measured:
    """A run with its outputs on all evaluation images."""

    run: Run
    name: str

    def cosine(self, part: NDArray[np.bool_]) -> float:
        """Mean over outputs and the images of ``part``."""
        return float(self.run[OUTPUTS][1].cosines[part].mean())

    def row(self, part: NDArray[np.bool_]) -> Row:
        """Figures on the images of ``part``."""
        card, floats, outputs = self.run[CARD], self.run[FLOAT_OUTPUTS], self.run[OUTPUTS][0]
        metric, split = card.open_metric(), self.run[DATASET].split(card.dataset.evaluation.split)
        ours, reference = ([output[part] for output in each] for each in (outputs, floats))
        targets = _of(card.targets(split, len(part), floats), part)
        accuracy, _ = paired_accuracy(metric, ours, reference, targets)
        return Row(self.name, accuracy.value, metric.agreement(ours, reference), self.cosine(part))

    def float_row(self, part: NDArray[np.bool_]) -> Row:
        """The float model's score there."""
        card, floats = self.run[CARD], self.run[FLOAT_OUTPUTS]
        split = self.run[DATASET].split(card.dataset.evaluation.split)
        score = card.open_metric().score(
            [output[part] for output in floats], _of(card.targets(split, len(part), floats), part)
        )
        return Row("float", score.value, None, None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row of the table for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="names of cards")
    parser.add_argument("--workdir", type=Path, required=True, help="where stages keep their results")
    parser.add_argument("--march", type=March, default=DEFAULT_MARCH)
    parser.add_argument("--calibration", type=int, default=50, help="calibration images")
    parser.add_argument("--evaluation", type=int, default=100, help="evaluation images; half of them choose")
    given = parser.parse_args(arguments)
    tool = find_toolchain(None)
    if tool is None:
        parser.error(f"{VARIABLE} is not set")
    print("| model | images | float | original's own best | shipped | what was shipped | built as measured |")
    print("|---|---|---|---|---|---|---|")
    for model in given.models:
        print(_row(model, given, tool), flush=True)
    return 0


def _row(model: str, given: argparse.Namespace, tool: Toolchain) -> str:
    bench = Bench(given.workdir.resolve())
    runs = {spec: Measured(_run(spec, bench), spec.settings.label) for spec in _specs(model, given, OURS)}
    count = given.evaluation
    chooses = selection_half(count)
    rest = ~chooses
    ours = _best(runs, chooses)
    built, equal = _built(ours, runs[ours].run, tool)
    cells = [
        model,
        f"{rest.sum()} of {count}",
        f"{runs[ours].float_row(rest).score:.4f}",
        _own_cell(_specs(model, given, ORIGINAL), bench, chooses),
        str(built.row(rest)),
        runs[ours].name,
        equal,
    ]
    return f"| {' | '.join(cells)} |"


def _own_cell(specs: Sequence[TrialSpec], bench: Bench, chooses: NDArray[np.bool_]) -> str:
    """The better of the original's own settings, or why it converts with none."""
    runs, refusal = {}, ""
    for spec in specs:
        try:
            runs[spec] = Measured(_run(spec, bench), spec.settings.label)
        except ModelError as error:
            refusal = str(error).partition("error message: ")[2].partition(";")[0] or str(error)
    if not runs:
        return f"not converted: {refusal}"
    best = runs[_best(runs, chooses)]
    return f"{best.row(~chooses)} ({best.name})"


def selection_half(count: int) -> NDArray[np.bool_]:
    """Which of ``count`` images choose, shape (count,): half of them, drawn with seed 0."""
    chosen = np.zeros(count, bool)
    chosen[np.random.default_rng(0).permutation(count)[: count // 2]] = True
    return chosen


def _specs(model: str, given: argparse.Namespace, settings: Iterable[Settings]) -> list[TrialSpec]:
    suite = Suite(
        name="shipped_accuracy",
        version=1,
        models=(model,),
        march=(given.march,),
        calibration_samples=given.calibration,
        evaluation_samples=given.evaluation,
        trials=(ExplicitTrial(),),
    )
    return resolve(suite, [Point(model=model, march=given.march, settings=each) for each in settings])


def _run(spec: TrialSpec, bench: Bench) -> Run:
    network = Network(spec, bench, StageClock(bench.journal(spec.key)))
    run, _ = network.trial(network.collect_statistics([spec.settings]))
    _ = run[OUTPUTS]
    network.clock.close()
    return run


def _best(runs: dict[TrialSpec, Measured], chooses: NDArray[np.bool_]) -> TrialSpec:
    return max(runs, key=lambda spec: runs[spec].cosine(chooses))


def _built(spec: TrialSpec, run: Run, tool: Toolchain) -> tuple[Measured, str]:
    """What the toolchain builds from the ship folder of ``run``, and whether it is what was measured."""
    with tempfile.TemporaryDirectory(prefix="shipped-accuracy-") as work:
        folder = Path(work) / "ship"
        origin = Origin(
            model=spec.model, model_sha256=spec.file, data_sha256=spec.data, engine=installed_version(), trial={}
        )
        write(Shipment.of(run, origin), folder)
        built = run_toolchain(folder, tool)
        if built.quantized is None:
            raise ConfigError(f"{spec.id}: nothing to compare")
        theirs, found = load_model(built.quantized), verify(folder, built.quantized)
    other = run.replacing({QUANTIZED: Given(theirs, hashlib.sha256(to_bytes(theirs)).hexdigest())})
    same = all(np.array_equal(a, b) for a, b in zip(run[OUTPUTS][0], other[OUTPUTS][0], strict=True))
    return Measured(other, spec.settings.label), f"{found.integers} integers; outputs {'equal' if same else 'differ'}"


def _of(targets: Targets, part: NDArray[np.bool_]) -> Targets:
    """The targets of a part of the images."""
    if isinstance(targets, np.ndarray):
        return targets[part]
    chosen: list[Any] = list(targets)
    return [chosen[index] for index in np.flatnonzero(part).tolist()]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ConfigError as error:
        sys.exit(str(error))
