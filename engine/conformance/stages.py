"""What of a calibrated and of a quantised model is compared: thresholds, integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import calibration_nodes, constant_of, read_calibration, written_thresholds

THRESHOLD_TOLERANCE = 1e-6
"""Relative difference of equal thresholds."""


def calibrated_tensors(model: ir.Model) -> dict[str, str]:
    """Quantised type by name of a calibrated tensor, weights too, in graph order; ``off`` where it is switched off."""
    found = {}
    for node in calibration_nodes(model):
        calibration = read_calibration(node)
        found[_tensor(node)] = calibration.qtype if calibration.switch == "ON" else f"{calibration.qtype} off"
    return found


def activation_thresholds(model: ir.Model) -> dict[str, NDArray[np.float32]]:
    """Thresholds by name of an activation, in graph order."""
    return {
        _tensor(node): written_thresholds(node)
        for node in calibration_nodes(model)
        if constant_of(node.inputs[0]) is None
    }


def weight_thresholds(model: ir.Model) -> dict[str, NDArray[np.float32]]:
    """Thresholds by name of a weight, in graph order."""
    return {
        _tensor(node): read_calibration(node).thresholds
        for node in calibration_nodes(model)
        if constant_of(node.inputs[0]) is not None
    }


def same_thresholds(first: NDArray[np.float32], second: NDArray[np.float32]) -> bool:
    """Whether two lists of thresholds are equal up to :data:`THRESHOLD_TOLERANCE`."""
    return first.shape == second.shape and bool(np.allclose(first, second, rtol=THRESHOLD_TOLERANCE, atol=0.0))


def integers(model: ir.Model) -> dict[str, NDArray[Any]]:
    """Integer constants by name."""
    found = {}
    for name, value in model.graph.initializers.items():
        array = constant_of(value)
        if array is not None and array.dtype.kind in "iu":
            found[name] = array
    return found


def _tensor(node: ir.Node) -> str:
    return "" if node.inputs[0] is None else str(node.inputs[0].name)
