"""Options ``bias_correction`` and ``mean_bias_correction``: mean errors of convolutions come out of their biases.

The original (:func:`correct_in_turn`) takes out what every convolution is off on the last sample, where that makes its
result more similar, and keeps what it did where that makes the outputs more similar.

ptqlab's own correction (:func:`correct_biases`) measures every convolution with its own weight and input quantised and
all before it in float, over several samples: nothing is taken out twice, and no sample weighs more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from engine.calibrate.corrections.turns import (
    Biases,
    Turns,
    Vector,
    bias_of,
    biases_of,
    convolutions,
    mean_per_channel,
    taken_behind,
)
from engine.calibrate.data.samples import finite_samples
from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.methods.sensitivity import alone, calibrations_by_node, double
from engine.floats.fake_quantization import fake_quantize
from engine.floats.float_model import FloatSession
from engine.ir import before_calibration, calibration_of, constant_of, node_by_name, set_constant
from engine.rulebook.integers import BIAS_CORRECTION_SAMPLE
from engine.rulebook.marks import note

BIAS_SAMPLES = 8
"""Samples that our mean error is taken over: it changes little with more, and each costs two forwards."""


def correct_in_turn(
    optimized: ir.Model,
    calibrated: ir.Model,
    data: CalibrationData,
    *,
    order: Sequence[str] = (),
    order_of: ir.Model | None = None,
    threads: int | None = None,
) -> ir.Model:
    """A copy of ``calibrated`` with biases as the original corrects them, on the last sample.

    One convolution after the other loses the mean error of its result, all others as they are by then, if the result
    is more similar to the float one without it. All are as they were if that does not make the outputs more similar.
    A convolution without a bias gets one, and one that the CPU computes is corrected as others are.

    Args:
        optimized: the float graph.
        calibrated: the same with thresholds, before results are requantised; not changed.
        data: calibration data.
        order: names of convolutions that come first (:func:`engine.calibrate.corrections.turns.in_full`).
        order_of: a model that the original made of the same network; its order and what it kept of ties are
            read from its biases, and ``order`` does not count.
        threads: CPU threads; None for all.

    Raises:
        ConfigError: ``order`` names what is no convolution.
    """
    feed = next(finite_samples(data, reversed(range(len(data)))), None)
    if feed is None or not convolutions(calibrated):
        return calibrated.clone()
    turns = Turns(optimized, calibrated, feed, threads=threads)
    corrections = turns.taken(order) if order_of is None else taken_behind(turns, biases_of(order_of))
    corrected = calibrated.clone()
    _take_from_bias(corrected, corrections)
    for node in corrected.graph:
        if str(node.name) in corrections:
            note(node, BIAS_CORRECTION_SAMPLE)
    return corrected


def with_biases_of(calibrated: ir.Model, optimized: ir.Model) -> ir.Model:
    """A copy of the float graph with the biases of ``calibrated``, which the original compares with once it corrected.

    Its printed similarities thus say nothing about what the correction does to the outputs.
    """
    model, sources = optimized.clone(), convolutions(calibrated)
    for name, node in node_by_name(model, list(sources)).items():
        bias = bias_of(sources[name])
        if bias is not None:
            set_constant(model.graph, node, 2, bias)
    return model


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
    _take_from_bias(model, errors)
    return model


def mean_errors(
    calibrated: ir.Model,
    data: CalibrationData,
    samples: int,
    *,
    origin: ir.Model | None = None,
    threads: int | None = None,
) -> dict[str, Vector]:
    """Mean of quantised less float result per output channel, by name of every convolution with a constant bias.

    Args:
        calibrated: the model with thresholds.
        data: calibration samples; those that hold NaN or infinity are left out.
        samples: number of the first ones that are used.
        origin: ``calibrated`` as it was before its weights were changed; None where they were not.
        threads: of ONNX Runtime; None for its own choice.

    Returns:
        Arrays of shape (output channels,), in units of the float results.
    """
    model = (origin or calibrated).clone()
    pairs = {name: double(model.graph, node) for name, node in _correctable(model).items()}
    if not pairs:
        return {}
    if origin is not None:
        _take_constants(model, calibrated, list(pairs))
    fetched = [name for pair in pairs.values() for name in pair]
    session = FloatSession(model, fetched, threads=threads)
    sums: dict[str, Vector] = {}
    count = 0
    for feed in finite_samples(data, range(min(samples, len(data)))):
        count += 1
        found = session.run(feed)
        for name, (plain, quantized) in pairs.items():
            sums[name] = sums.get(name, 0.0) + mean_per_channel(found[quantized] - found[plain])
    return {name: total / count for name, total in sums.items()}


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


def _correctable(calibrated: ir.Model) -> dict[str, ir.Node]:
    """The quantised convolutions whose bias is constant or missing, by name, in graph order."""
    quantized = calibrations_by_node(calibrated)
    return {name: node for name, node in convolutions(calibrated).items() if name in quantized}


def _take_from_bias(model: ir.Model, errors: Mapping[str, Vector] | Biases) -> None:
    """Change the biases of ``model`` by minus the ``errors`` of its convolutions."""
    for name, node in node_by_name(model, list(errors)).items():
        bias = bias_of(node)
        set_constant(model.graph, node, 2, np.asarray((0.0 if bias is None else bias) - errors[name], np.float32))
