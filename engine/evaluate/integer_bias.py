"""Empirical bias correction on the integer simulator.

Where :mod:`engine.calibrate.corrections.bias` looks at every convolution by itself, this follows the network from
its inputs to
its outputs: what is left of the mean error of a tensor once all before it are corrected, requantisation and saturation
included, goes into the bias of the convolution that gives it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass

from engine.calibrate import ArrayData, CalibrationData, FloatSession
from engine.calibrate.data.samples import finite_samples
from engine.calibrate.methods.thresholds import names_before_calibration
from engine.evaluate.similarity import Evaluator, as_integers
from engine.ir import (
    before_calibration,
    calibration_of,
    constant_of,
    is_calibration,
    node_by_name,
    read_calibration,
    set_constant,
)
from engine.quantize import quantize
from engine.simulate import Session

logger = logging.getLogger(__name__)

Vector = NDArray[np.float64]

SAMPLES = 32
"""Samples that means are taken over."""

_FUSED = ("Relu", "Clip", "Add")
"""Operators that a convolution computes along with itself."""


@dataclass(frozen=True)
class _Target:
    """A convolution and the tensor by which its bias is judged.

    Attributes:
        convolution: name of the node.
        tensor: name of the float tensor.
        integer: name of its integer form in the quantised model, or of itself where it is dequantised there.
        scale: of an integer; 1 for a dequantised tensor.
        offset: of the tensor over its integer form.
    """

    convolution: str
    tensor: str
    integer: str
    scale: float
    offset: float


def correct_integer_biases(
    calibrated: ir.Model,
    optimized: ir.Model,
    march: str,
    data: CalibrationData,
    samples: int = SAMPLES,
    *,
    threads: int | None = None,
) -> ir.Model:
    """A copy of ``calibrated`` the integers of which have the float tensors' means per channel, as far as biases can.

    A convolution is judged by its result, behind ``Relu``, ``Clip`` or ``Add`` where those follow, if that has one
    scale or is dequantised. Where the outputs of the whole become less similar to the float ones (clipping, which no
    bias can undo, is what makes a mean wrong), the copy has the biases of ``calibrated``.

    Args:
        calibrated: model with thresholds; not changed.
        optimized: float model.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.
        data: calibration data; of the first ``samples`` samples, the finite ones are used.
        samples: at least 1.
        threads: CPU threads; None for all.
    """
    feeds = list(finite_samples(data, range(min(samples, len(data)))))
    there = {value.name for node in optimized.graph for value in node.outputs}
    targets = [target for target in _targets(calibrated) if target.tensor in there]
    if not targets or not feeds:
        missing = "no convolution has a constant bias and one scale" if feeds else "no sample is finite"
        logger.warning("integer_bias_correction has no effect: %s.", missing)
        return calibrated.clone()
    wanted = _float_means(optimized, [target.tensor for target in targets], feeds, threads)
    model = calibrated.clone()
    for target in targets:
        quantized = quantize(model, march)
        found = _integer_mean(quantized, target, feeds, threads)
        if found is None:
            continue
        node = node_by_name(model, [target.convolution])[target.convolution]
        bias = constant_of(node.inputs[2]) if len(node.inputs) > 2 else None
        corrected = (0.0 if bias is None else bias) + wanted[target.tensor] - found
        set_constant(model.graph, node, 2, corrected.astype(np.float32))
    used = ArrayData({name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]})
    evaluator = Evaluator(optimized, used, len(feeds), threads)
    before, after = (evaluator.integer(quantize(each, march)).cosine for each in (calibrated, model))
    logger.info("Mean cosine similarity of the integer outputs: %.6f, with corrected biases %.6f", before, after)
    if after < before:
        logger.warning("integer_bias_correction has no effect: it would make the outputs less similar.")
        return calibrated.clone()
    return model


def _targets(calibrated: ir.Model) -> Iterator[_Target]:
    outputs = names_before_calibration(calibrated)
    for node in calibrated.graph:
        if node.op_type not in ("Conv", "ConvTranspose") or calibration_of(node.inputs[0]) is None:
            continue
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is not None and constant_of(bias) is None:
            continue
        calibration = _calibration_behind(node.outputs[0])
        if calibration is None:
            # Nothing but float operators read it: its integers are dequantised under its own name.
            yield _Target(str(node.name), str(node.outputs[0].name), str(node.outputs[0].name), 1.0, 0.0)
            continue
        found = read_calibration(calibration)
        if found.scales.size != 1:
            continue
        tensor, scale = str(before_calibration(calibration.outputs[0]).name), float(found.scales[0])
        offset = found.offset * scale
        yield _Target(str(node.name), outputs.get(tensor, tensor), f"{tensor}_quantized", scale, offset)


def _calibration_behind(value: ir.Value) -> ir.Node | None:
    """The ``HzCalibration`` of ``value``, or of what fused operators make of it."""
    readers = value.consumers()
    calibrations = [node for node in readers if is_calibration(node)]
    if calibrations:
        return calibrations[0]
    if len(readers) == 1 and readers[0].op_type in _FUSED and not value.is_graph_output():
        return _calibration_behind(readers[0].outputs[0])
    return None


def _float_means(
    optimized: ir.Model, tensors: Sequence[str], feeds: Sequence[dict[str, NDArray[np.float32]]], threads: int | None
) -> dict[str, Vector]:
    session = FloatSession(optimized, list(dict.fromkeys(tensors)), threads=threads)
    sums: dict[str, Vector] = {}
    for feed in feeds:
        for name, array in session.run(feed).items():
            axes = tuple(axis for axis in range(array.ndim) if axis != 1)
            sums[name] = sums.get(name, 0.0) + array.astype(np.float64).mean(axis=axes)
    return {name: total / len(feeds) for name, total in sums.items()}


def _integer_mean(
    quantized: ir.Model, target: _Target, feeds: Sequence[dict[str, NDArray[np.float32]]], threads: int | None
) -> Vector | None:
    """Mean per channel of the target's tensor in the integer model; ``None`` where it has no such tensor."""
    values = {str(value.name): value for node in quantized.graph for value in node.outputs}
    value = values.get(target.integer)
    if value is None:
        return None
    is_float = value.dtype == ir.DataType.FLOAT
    quantized.graph.outputs[:] = [value]
    session = Session(_without_rest(quantized), threads=threads)
    total = np.zeros(1)
    for feed in feeds:
        array = session.run(as_integers(feed, session.inputs))[target.integer]
        axis = array.ndim - 1 if array.ndim == 4 and not is_float else 1
        total = total + array.mean(axis=tuple(other for other in range(array.ndim) if other != axis), dtype=np.float64)
    return np.asarray(total / len(feeds) * target.scale + target.offset)


def _without_rest(model: ir.Model) -> ir.Model:
    """``model`` without nodes that its outputs do not need."""
    RemoveUnusedNodesPass()(model)
    return model
