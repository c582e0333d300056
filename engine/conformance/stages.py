"""What of a calibrated and of a quantised model is compared: float nodes, thresholds, integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import before_calibration, calibration_nodes, constant_of, is_calibration, read_calibration

THRESHOLD_TOLERANCE = 1e-6
"""Relative difference of equal thresholds."""


@dataclass(frozen=True)
class FloatNode:
    """One node of a calibrated model without its ``HzCalibration`` nodes.

    Attributes:
        name: of the node.
        type: operator.
        inputs: names of the tensors that it reads, before calibration.
        attributes: values by name.
    """

    name: str
    type: str
    inputs: tuple[str, ...]
    attributes: dict[str, Any]


def float_nodes(model: ir.Model) -> list[FloatNode]:
    """The nodes of a calibrated model in graph order."""
    return [
        FloatNode(
            str(node.name),
            node.op_type,
            tuple("" if value is None else str(before_calibration(value).name) for value in node.inputs),
            {name: _plain(found.value) for name, found in node.attributes.items()},
        )
        for node in model.graph
        if not is_calibration(node)
    ]


def _plain(value: Any) -> Any:
    return value.numpy().tolist() if isinstance(value, ir.TensorProtocol) else value


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
        _tensor(node): read_calibration(node).thresholds
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
