"""Option ``bias_correction``: take the mean error that quantisation makes of a convolution out of its bias.

The original corrects the biases of all convolutions on one sample by a rule that is not known (CALIBRATION.md 1: best
on that sample, twice the error on others). Here the error of every convolution is measured with its own weight and
input quantised and all before it in float, over as many samples as are given, and none of them weighs more.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.asymmetric import set_bias
from engine.calibrate.data import CalibrationData
from engine.calibrate.forward import FloatSession
from engine.calibrate.sensitivity import calibrations_by_node, double
from engine.ir import constant_of, node_by_name

Vector = NDArray[np.float64]

BIAS_SAMPLES = 8
"""Samples that the mean error is taken over: it changes little with more, and each costs two forwards."""


def correct_biases(
    calibrated: ir.Model, data: CalibrationData, samples: int = BIAS_SAMPLES, *, threads: int | None = None
) -> ir.Model:
    """A copy of ``calibrated`` whose convolutions have the mean of their float result again, per channel.

    Args:
        calibrated: model with thresholds; not changed.
        data: calibration data; the first ``samples`` samples are used.
        samples: at least 1.
        threads: CPU threads; None for all.
    """
    errors = mean_errors(calibrated, data, samples, threads=threads)
    model = calibrated.clone()
    for name, node in node_by_name(model, list(errors)).items():
        bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
        set_bias(model.graph, node, np.asarray((0.0 if bias is None else bias) - errors[name], np.float32))
    return model


def mean_errors(
    calibrated: ir.Model, data: CalibrationData, samples: int, *, threads: int | None = None
) -> dict[str, Vector]:
    """Mean of quantised less float result per output channel, by name of every convolution with a constant bias."""
    model = calibrated.clone()
    convolutions = node_by_name(model, list(calibrations_by_node(model)))
    pairs = {name: double(model.graph, node) for name, node in convolutions.items() if _is_correctable(node)}
    if not pairs:
        return {}
    fetched = [name for pair in pairs.values() for name in pair]
    session = FloatSession(model, fetched, threads=threads)
    samples = min(samples, len(data))
    sums: dict[str, Vector] = {}
    for index in range(samples):
        found = session.run(data.read(index, index + 1))
        for name, (plain, quantized) in pairs.items():
            error = (found[quantized] - found[plain]).astype(np.float64)
            axes = tuple(axis for axis in range(error.ndim) if axis != 1)
            sums[name] = sums.get(name, 0.0) + error.mean(axis=axes)
    return {name: total / samples for name, total in sums.items()}


def _is_correctable(node: ir.Node) -> bool:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return node.op_type in ("Conv", "ConvTranspose") and (bias is None or constant_of(bias) is not None)
