"""Engines beside the bundled one, on the same models, data and metrics: ONNX Runtime's quantisation, and the vendor's.

Both write an ONNX file, which the pipeline evaluates.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from engine.errors import ConfigError, MissingError, ModelError
from engine.fingerprint import ABSENT
from engine.terms import CalibrationType
from harness.datasets import Samples, one_by_one
from harness.suites.settings import Int16Kind, Settings
from harness.trials.configuration import content
from harness.trials.trial import TrialSpec
from harness.zoo.cards import ModelCard
from harness.zoo.float_session import float_session

Array = NDArray[Any]

HB_MAPPER = "PTQLAB_HB_MAPPER"
"""Environment variable: the vendor's command, as a shell would take it, such as ``/opt/hb/bin/hb_mapper`` or
``docker run … hb_mapper``."""

_LOG_LINES = 3

_RAW = (np.uint8, np.float32)
"""What raw binary calibration files may hold."""

_VERSION_SECONDS = 60
"""Seconds that the command may take to print its version."""

_ENTROPY_BINS = 1024
"""Bins of the histograms of ONNX Runtime's Entropy calibration, which has 128 quantised ones."""


def quantize_with_onnxruntime(card: ModelCard, settings: Settings, samples: Samples, target: Path) -> Path:
    """Static quantisation of ONNX Runtime (QDQ, weights int8), as near to ``settings`` as it offers.

    ``max`` is its MinMax, or Percentile with ``max_percentile``; ``kl`` its Entropy, with finer histograms than its
    default; ``per_channel`` that of weights; ``asymmetric`` unsigned activations with a zero point; ``int16: all``
    int16 activations.

    Args:
        card: of the float model.
        settings: of the trial.
        samples: for calibration, as the data set gives them.
        target: file to write.
    """
    from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static

    method = CalibrationMethod.MinMax
    extra: dict[str, Any] = {"ActivationSymmetric": not settings.asymmetric, "WeightSymmetric": True}
    if settings.max_percentile != 1.0:
        method = CalibrationMethod.Percentile
        extra["CalibPercentile"] = 100 * settings.max_percentile
    if settings.calibration_type is CalibrationType.KL:
        extra["TensorQuantOverrides"] = _entropy_ranges(card, samples)
    activations = QuantType.QUInt8 if settings.asymmetric else QuantType.QInt8
    target.parent.mkdir(parents=True, exist_ok=True)
    quantize_static(
        str(card.model_path()),
        str(target),
        _Reader(card, samples),
        per_channel=settings.per_channel,
        activation_type=QuantType.QInt16 if settings.int16.kind is Int16Kind.ALL else activations,
        weight_type=QuantType.QInt8,
        calibrate_method=method,
        extra_options=extra,
    )
    return target


def _entropy_ranges(card: ModelCard, samples: Samples) -> dict[str, list[dict[str, Any]]]:
    """Ranges that ONNX Runtime's Entropy calibration chooses, as ``quantize_static`` takes them.

    ``quantize_static`` itself leaves the histograms at as many bins as there are quantised ones, so that there is
    nothing to clip and Entropy is the same as MinMax.
    """
    from onnxruntime.quantization import CalibrationMethod, create_calibrator

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        calibrator = create_calibrator(
            card.model_path(),
            augmented_model_path=str(Path(folder) / "augmented.onnx"),
            calibrate_method=CalibrationMethod.Entropy,
            extra_options={"num_bins": _ENTROPY_BINS, "symmetric": False},
        )
        calibrator.collect_data(_Reader(card, samples))
        found = calibrator.compute_data().data
    ranges = {name: tensor.range_value for name, tensor in found.items()}
    return {name: [{"rmin": low, "rmax": high}] for name, (low, high) in ranges.items()}


class _Reader:
    """Calibration samples one at a time, as ONNX Runtime asks for them."""

    def __init__(self, card: ModelCard, samples: Samples) -> None:
        self._feeds: Iterator[dict[str, Array]] = one_by_one(card.float_inputs(samples))

    def get_next(self) -> dict[str, Array] | None:
        """The next sample; None at the end."""
        return next(self._feeds, None)


def float_runner(path: Path, card: ModelCard, threads: int) -> Callable[[Samples], list[Array]]:
    """What gives the outputs of a standard ONNX file on samples, which are as the data set gives them."""
    session = float_session(path, threads)

    def run(samples: Samples) -> list[Array]:
        found = [session.run(None, feed) for feed in one_by_one(card.float_inputs(samples))]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    return run


def convert_with_hb_mapper(
    card: ModelCard, spec: TrialSpec, int16_nodes: tuple[str, ...], inputs: Mapping[str, Array], folder: Path
) -> Path:
    """The quantised model that the vendor's ``hb_mapper makertbin`` makes.

    Args:
        card: of the float model.
        spec: the trial.
        int16_nodes: nodes that its int16 policy asks for.
        inputs: for calibration, by name, as the network was trained (:meth:`ModelCard.training_inputs`).
        folder: empty; configuration, data, log and results are left in it.

    Raises:
        MissingError: :data:`HB_MAPPER` is not set, or names no command.
        ModelError: the command failed, or left no quantised model.
    """
    command = hb_mapper_command()
    write_inputs(card, spec, int16_nodes, inputs, folder)
    arguments = ["makertbin", "--config", "config.yaml", "--model-type", "onnx"]
    try:
        finished = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MissingError(f"{HB_MAPPER}: {shlex.join(command)}: cannot be run: {error.strerror}") from error
    log = finished.stdout + finished.stderr
    (folder / "hb_mapper.log").write_text(log, encoding="utf-8")
    found = sorted((folder / "out").glob("*_quantized_model.onnx"))
    if finished.returncode or not found:
        told = " | ".join(log.strip().splitlines()[-_LOG_LINES:])
        raise ModelError(
            f"hb_mapper ended with exit code {finished.returncode}: {told}; see {folder / 'hb_mapper.log'}"
        )
    return found[0]


def hb_mapper_command() -> list[str]:
    """The command that :data:`HB_MAPPER` names.

    Raises:
        MissingError: it names none.
        ConfigError: it is no command line.
    """
    text = os.environ.get(HB_MAPPER, "")
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{HB_MAPPER}: {text}: {error}") from error
    if not command:
        raise MissingError(f"engine hb_mapper: set {HB_MAPPER} to the vendor's command, e.g. /opt/hb/bin/hb_mapper")
    return command


def hb_mapper_tool() -> str:
    """The vendor's command and what it says of its version; ``absent`` where there is none."""
    text = os.environ.get(HB_MAPPER, "")
    return f"{text}: {_version_of(text)}" if text else ABSENT


@cache
def _version_of(command: str) -> str:
    try:
        finished = subprocess.run(
            [*shlex.split(command), "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"{ABSENT} ({type(error).__name__})"
    return f"{finished.stdout}{finished.stderr}".strip()


def write_inputs(
    card: ModelCard, spec: TrialSpec, int16_nodes: tuple[str, ...], inputs: Mapping[str, Array], folder: Path
) -> None:
    """Write configuration and calibration files of a conversion into ``folder``.

    Args:
        card: of the float model.
        spec: the trial.
        int16_nodes: nodes that its int16 policy asks for.
        inputs: by name, as the network was trained, samples along the first dimension.
        folder: gets ``config.yaml`` and ``calibration``, with a folder per input where there are several.
    """
    data = folder / "calibration"
    folders = [data] if len(inputs) == 1 else [data / str(index) for index in range(len(inputs))]
    for place, values in zip(folders, inputs.values(), strict=True):
        place.mkdir(parents=True)
        for index, value in enumerate(values):
            if value.dtype in _RAW:
                value.tofile(place / f"{index:05d}.bin")
            else:
                np.save(place / f"{index:05d}.npy", value[np.newaxis])
    asked = content(card, spec, int16_nodes, card.model_path(), folders)
    (folder / "config.yaml").write_text(yaml.safe_dump(asked, sort_keys=False), encoding="utf-8")
