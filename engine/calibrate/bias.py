"""Options ``bias_correction`` and ``mean_bias_correction``: mean errors of convolutions come out of their biases.

The original corrects the biases of all convolutions on one sample by a rule that is not known (CALIBRATION.md 1: best
on that sample, twice the error on others). Here the error of every convolution is measured with its own weight and
input quantised and all before it in float, over as many samples as are given, and none of them weighs more.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.asymmetric import set_constant
from engine.calibrate.data import CalibrationData
from engine.calibrate.fake_quantization import fake_quantize
from engine.calibrate.forward import FloatSession
from engine.calibrate.sensitivity import alone, calibrations_by_node, double
from engine.ir import before_calibration, calibration_of, constant_of, node_by_name

Vector = NDArray[np.float64]

BIAS_SAMPLES = 8
"""Samples that the mean error is taken over: it changes little with more, and each costs two forwards."""


def correct_biases(
    calibrated: ir.Model,
    data: CalibrationData,
    samples: int = BIAS_SAMPLES,
    *,
    origin: ir.Model | None = None,
    threads: int | None = None,
) -> ir.Model:
    """A copy of ``calibrated`` whose convolutions have the mean of their float result again, per channel.

    Args:
        calibrated: model with thresholds; not changed.
        data: calibration data; the first ``samples`` samples are used.
        samples: at least 1.
        origin: ``calibrated`` as it was before its weights were changed; None where they were not.
        threads: CPU threads; None for all.
    """
    errors = mean_errors(calibrated, data, samples, origin=origin, threads=threads)
    model = calibrated.clone()
    for name, node in node_by_name(model, list(errors)).items():
        bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
        set_constant(model.graph, node, 2, np.asarray((0.0 if bias is None else bias) - errors[name], np.float32))
    return model


def mean_errors(
    calibrated: ir.Model,
    data: CalibrationData,
    samples: int,
    *,
    origin: ir.Model | None = None,
    threads: int | None = None,
) -> dict[str, Vector]:
    """Mean of quantised less float result per output channel, by name of every convolution with a constant bias."""
    model = (origin or calibrated).clone()
    convolutions = node_by_name(model, list(calibrations_by_node(model)))
    pairs = {name: double(model.graph, node) for name, node in convolutions.items() if _is_correctable(node)}
    if not pairs:
        return {}
    if origin is not None:
        _take_constants(model, calibrated, list(pairs))
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


def _take_constants(model: ir.Model, calibrated: ir.Model, names: list[str]) -> None:
    """Let the copies of the convolutions ``names`` that read quantised tensors have what ``calibrated`` has."""
    copies = node_by_name(model, [alone(name) for name in names])
    for name, node in node_by_name(calibrated, names).items():
        weight, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
        calibration, values = (
            calibration_of(weight),
            None if weight is None else constant_of(before_calibration(weight)),
        )
        if calibration is not None and values is not None:
            set_constant(model.graph, copies[alone(name)], 1, fake_quantize(values, calibration))
        found = constant_of(bias)
        if found is not None:
            set_constant(model.graph, copies[alone(name)], 2, found)


def _is_correctable(node: ir.Node) -> bool:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return node.op_type in ("Conv", "ConvTranspose") and (bias is None or constant_of(bias) is not None)
