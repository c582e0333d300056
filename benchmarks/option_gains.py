"""What each calibration option buys: ``python -m benchmarks.option_gains [--evaluation N] [MODEL ...]``.

``--only WORD ...`` for the settings whose names hold one of the words alone; ``--halves`` to choose on one half of the
evaluation images and report on the other, as sweeps do.

For every model of the zoo named: the integer model of every setting on the simulator, on the card's evaluation images,
which calibration never sees. Calibration takes the card's first images (no draw, so no seed; nothing else is random) or
those of ``--images FILE.npz``. Labels serve for the metric alone. Below stand the models of other tools, of those that
are installed (:mod:`benchmarks.peers`), in ONNX Runtime's exact integer kernels. Images and models that are not
bundled are found by ``PTQLAB_DATA`` and ``PTQLAB_MODELS``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from benchmarks.peers import PEERS, Peer, exact_session
from engine.calibrate import (
    ArrayData,
    CalibrationOptions,
    Kernels,
    Statistics,
    StatisticsOptions,
    calibration_tensors,
    collect,
    run_calibration,
)
from engine.calibrate.corrections.equalize import equalize
from engine.calibrate.methods.search import candidates_of
from engine.evaluate.integer_bias import correct_integer_biases
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.optimize import optimize
from engine.place import place
from engine.quantize import quantize
from engine.simulate import Session
from harness.backends.stages.compared import run_compared
from harness.backends.stages.score import fidelity_of, paired_accuracy
from harness.backends.stages.simulate import integer_feed
from harness.datasets import Samples, one_by_one
from harness.metrics.resampling import sides
from harness.trials.comparison import FidelityMeter
from harness.zoo.cards import ModelCard, evaluation_images, load_card
from harness.zoo.float_baseline import float_outputs
from tests.card_images import fed, trained

MARCH = "bayes-e"
ZOO = ("mnist_lenet", "mnist_resnet8", "mnist_mobilenet", "scene_yolo", "scene_unet", "efficientnet_lite0")


@dataclass(frozen=True)
class Setting:
    """A row of the table.

    Attributes:
        name: as the table shows it.
        options: of the calibration.
        equalized: ``cross_layer_equalization``.
        integer_bias: ``integer_bias_correction``.
    """

    name: str
    options: CalibrationOptions = field(default_factory=CalibrationOptions)
    equalized: bool = False
    integer_bias: bool = False


def _setting(name: str, equalized: bool = False, integer_bias: bool = False, **options: Any) -> Setting:
    return Setting(name, CalibrationOptions(**options), equalized, integer_bias)


SETTINGS = (
    _setting("max"),
    _setting("percentile 0.99995", max_percentile=0.99995),
    _setting("kl", calibration_type="kl"),
    _setting("default", calibration_type="default"),
    _setting("mix", calibration_type="mix"),
    _setting("per_channel", per_channel=True),
    _setting("asymmetric", asymmetric=True),
    _setting("bias_correction", bias_correction=True),
    _setting("mean_bias_correction", mean_bias_correction=True),
    _setting("order_independent_kl", calibration_type="kl", order_independent_kl=True),
    _setting("mse_thresholds", mse_thresholds=True),
    _setting("nodewise_methods", nodewise_methods=True),
    _setting("adaptive_rounding", adaptive_rounding=True),
    _setting("percentile 0.99995, adaptive_rounding", max_percentile=0.99995, adaptive_rounding=True),
    _setting("default, mean_bias_correction", calibration_type="default", mean_bias_correction=True),
    _setting("cross_layer_equalization", equalized=True),
    _setting("integer_bias_correction", integer_bias=True),
    _setting(
        "mse_thresholds, mean_bias_correction, adaptive_rounding",
        mse_thresholds=True,
        mean_bias_correction=True,
        adaptive_rounding=True,
    ),
    _setting(
        "asymmetric, mean_bias_correction, adaptive_rounding, integer_bias_correction",
        asymmetric=True,
        mean_bias_correction=True,
        adaptive_rounding=True,
        integer_bias=True,
    ),
)


Run = Callable[[Samples], list[NDArray[Any]]]


class Subject:
    """A model of the zoo, its calibration data and its evaluation images.

    Args:
        card: of the model.
        images: calibration images.
        evaluation: how many images to evaluate on, at most.
        settings: what statistics must serve.
    """

    def __init__(
        self, card: ModelCard, images: NDArray[Any], evaluation: int, settings: Sequence[Setting] = SETTINGS
    ) -> None:
        self.card = card
        self.images = images
        self.data = ArrayData({card.input_specs[0].name: trained(card, self.images)}, [card.input_specs[0]])
        self._split, self.count = evaluation_images(card, min(evaluation, card.dataset.evaluation.count))
        self._floats = float_outputs(card, self.count)
        self._settings = settings
        self._statistics: dict[bool, Statistics] = {}

    @cached_property
    def optimized(self) -> dict[bool, ir.Model]:
        """The optimised model by whether its channels are equalised."""
        spec = self.card.input_specs[0]
        shapes = {spec.name: spec.shape} if spec.shape is not None else None
        plain = optimize(preprocess.insert(load_onnx(self.card.model_path(), shapes), [spec]), MARCH)
        return {False: plain, True: equalize(plain)[0]}

    def integers(self, setting: Setting) -> ir.Model:
        """The quantised model of ``setting``."""
        optimized = self.optimized[setting.equalized]
        placed = place(optimized, MARCH).model
        statistics = None if setting.options.order_independent_kl else self._collected(setting.equalized)
        calibrated = run_calibration(optimized, placed, self.data, setting.options, statistics=statistics)
        if setting.integer_bias:
            calibrated = correct_integer_biases(calibrated, optimized, MARCH, self.data)
        return quantize(calibrated, MARCH)

    def _collected(self, equalized: bool) -> Statistics:
        """Statistics for all settings, from one pass."""
        if equalized not in self._statistics:
            optimized = self.optimized[equalized]
            candidates = [option for setting in self._settings for option in candidates_of(setting.options)]
            options = StatisticsOptions.covering(candidates, kernels=Kernels.PLAIN)
            tensors = calibration_tensors(place(optimized, MARCH).model)
            self._statistics[equalized] = collect(optimized, tensors, self.data, options)
        return self._statistics[equalized]

    def simulated(self, quantized: ir.Model) -> Run:
        """``quantized`` on the simulator."""
        session = Session(quantized)

        def run(samples: Samples) -> list[NDArray[Any]]:
            feed = integer_feed(session, self.card.training_inputs(samples), self.card.input_specs)
            return list(session.run(feed).values())

        return run

    def peer(self, peer: Peer) -> Run:
        """What ``peer`` makes of the model."""
        name = self.card.input_specs[0].name
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "peer.onnx"
            peer.quantize(self.card.model_path(), name, fed(self.card, self.images), path)
            session = exact_session(path)

        def run(samples: Samples) -> list[NDArray[Any]]:
            found = [session.run(None, feed) for feed in one_by_one(self.card.float_inputs(samples))]
            return [np.concatenate(parts) for parts in zip(*found, strict=True)]

        return run

    def figures(self, run: Run) -> list[str]:
        """Metric, agreement with float, mean and least cosine."""
        outputs, _ = run_compared(run, self._split, self.count, self._floats)
        return self._row(outputs, range(self.count))

    def halves(self, run: Run) -> list[str]:
        """Mean cosine on the half of the images that settings are chosen on; the figures on the other half."""
        outputs, _ = run_compared(run, self._split, self.count, self._floats)
        chosen_on = sides(self.count)[0]
        first, second = (self._row(outputs, np.flatnonzero(part).tolist()) for part in (chosen_on, ~chosen_on))
        return [first[2], *second]

    def _row(self, outputs: Sequence[NDArray[Any]], samples: Sequence[int]) -> list[str]:
        given, floats = ([each[list(samples)] for each in found] for found in (outputs, self._floats))
        targets = self._split.targets(0, self.count)
        targets = targets[list(samples)] if isinstance(targets, np.ndarray) else [targets[index] for index in samples]
        metric, meter = self.card.open_metric(), FidelityMeter()
        meter.update(given, floats)
        accuracy, _ = paired_accuracy(metric, given, floats, targets)
        found = fidelity_of(meter, metric, self.card.output_names(), given, floats)
        agreement = "" if found.agreement is None else f"{found.agreement:.4f}"
        return [f"{accuracy.value:.4f}", agreement, f"{found.cosine:.6f}", f"{found.cosine_min:.5f}"]

    def float_metric(self) -> str:
        """The float model's metric on the same images."""
        score = self.card.open_metric().score(self._floats, self._split.targets(0, self.count))
        return f"{score.value:.4f} ± {score.stderr:.4f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write one table per model to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=ZOO, metavar="MODEL")
    parser.add_argument("--calibration", type=int, default=50, help="calibration images")
    parser.add_argument("--evaluation", type=int, default=200, help="evaluation images")
    parser.add_argument(
        "--only", nargs="*", default=[""], metavar="WORD", help="settings whose names hold one of these"
    )
    parser.add_argument(
        "--halves", action="store_true", help="cosine on the half to choose on, all else on the other half"
    )
    parser.add_argument("--images", type=Path, help=".npz whose array 'images' to calibrate with, not the card's first")
    given = parser.parse_args(arguments)
    for name in given.models:
        card = load_card(name)
        subject = Subject(card, _calibration_images(card, given.images, given.calibration), given.evaluation)
        ours = {setting.name: partial(_ours, subject, setting) for setting in SETTINGS}
        peers = {title: partial(subject.peer, peer) for title, peer in PEERS.items() if peer.version is not None}
        _write(
            f"\n{name}: {len(subject.data)} calibration images, {subject.count} evaluation images, "
            f"float {subject.card.metric.name} {subject.float_metric()}\n"
        )
        chosen_by = "cosine to choose by | " if given.halves else ""
        _write(f"| setting | {chosen_by}{subject.card.metric.name} | agreement | mean cosine | least cosine | CPU s |")
        _write("|---|---|---|---|---|---|" + "---|" * given.halves)
        for setting, make in (ours | peers).items():
            if not any(word in setting for word in given.only):
                continue
            start = time.process_time()
            with redirect_stdout(sys.stderr):  # tools talk
                run = make()
            seconds = time.process_time() - start
            figures = subject.halves(run) if given.halves else subject.figures(run)
            _write(f"| {' | '.join([setting, *figures, f'{seconds:.1f}'])} |")
    found = {f"{peer.package} {peer.version or 'not installed, its rows are left out'}" for peer in PEERS.values()}
    _write(f"\nOther tools: {'; '.join(sorted(found))}.")


def _calibration_images(card: ModelCard, file: Path | None, count: int) -> NDArray[Any]:
    """As the data set gives them."""
    if file is not None:
        with np.load(file, allow_pickle=False) as archive:
            found: NDArray[Any] = archive["images"][:count]
        return found
    split = card.open_dataset().split(card.dataset.calibration.split)
    return np.asarray(split.images(0, min(count, len(split))))


def _ours(subject: Subject, setting: Setting) -> Run:
    return subject.simulated(subject.integers(setting))


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
