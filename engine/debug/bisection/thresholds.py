"""How much noise each threshold adds beyond what the best one for the same values would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.fake_quantization import integer_range
from engine.ir import Calibration, calibration_nodes, constant_of, read_calibration

Array = NDArray[Any]

_CANDIDATES = 2.0 ** -np.arange(0, 12, 0.5)
"""Candidates for the best threshold, relative to the largest magnitude."""


@dataclass(frozen=True)
class ThresholdLoss:
    """The worst threshold of one ``HzCalibration`` node.

    Attributes:
        node: its name.
        tensor: what it reads.
        threshold: the one in the model.
        best: the one with the least noise.
        decibel: noise of the one above that of the other.
    """

    node: str
    tensor: str
    threshold: float
    best: float
    decibel: float


def threshold_losses(calibrated: ir.Model, tensors: Mapping[str, Array]) -> Iterator[ThresholdLoss]:
    """The loss of every ``HzCalibration`` node that is ``ON``, in graph order.

    Args:
        calibrated: model with thresholds.
        tensors: float values by name of what the activation nodes read; nodes of others are left out.
    """
    for node in calibration_nodes(calibrated):
        source, calibration = node.inputs[0], read_calibration(node)
        array = constant_of(source)
        if array is None and source is not None:
            array = tensors.get(str(source.name))
        if array is None or source is None or calibration.switch == "OFF" or not calibration.scales.size:
            continue
        losses = [_loss(values, threshold, calibration.qtype) for threshold, values in _groups(array, calibration)]
        if not losses:
            continue
        threshold, best, decibel = max(losses, key=lambda loss: loss[2])
        yield ThresholdLoss(str(node.name), str(source.name), threshold, best, decibel)


def noise(magnitudes: Array, threshold: float, qtype: str) -> float:
    """Sum of squared errors to expect: step² / 12 per value within the threshold, the excess squared beyond it."""
    step = threshold / integer_range(qtype)[1]
    excess = np.maximum(magnitudes - threshold, 0)
    within = np.minimum(magnitudes[excess == 0] ** 2, step**2 / 12)
    return float(within.sum() + (excess**2).sum())


def _loss(values: Array, threshold: float, qtype: str) -> tuple[float, float, float]:
    magnitudes = np.abs(values.astype(np.float64).reshape(-1))
    largest = float(magnitudes.max(initial=0.0))
    if not largest:
        return threshold, threshold, 0.0
    candidates = largest * _CANDIDATES
    noises = [noise(magnitudes, candidate, qtype) for candidate in candidates]
    place = int(np.argmin(noises))
    ratio = noise(magnitudes, threshold, qtype) / noises[place]
    return threshold, float(candidates[place]), float(10 * np.log10(max(ratio, 1e-30)))


def _groups(array: Array, calibration: Calibration) -> Iterator[tuple[float, Array]]:
    """Thresholds with the values that each is for."""
    thresholds = calibration.thresholds
    axis = calibration.axis
    if thresholds.size == 1:
        yield float(thresholds[0]), array
    elif array.shape[axis] == thresholds.size:
        for index, threshold in enumerate(thresholds):
            yield float(threshold), np.take(array, index, axis)
