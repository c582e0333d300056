"""How close an integer model's outputs are to the float model's, on calibration data: no labels are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate import CalibrationData, FloatSession, Kernels
from engine.calibrate.data.samples import evenly_spread
from engine.calibrate.statistics.outputs import FloatOutputs
from engine.floats.compare import cosine
from engine.floats.health import HealthMeter, IntegerDistance
from engine.simulate import Session, TensorInfo

Array = NDArray[Any]

DEFAULT_SAMPLES = 16
"""Samples that scores are taken on where nothing else is asked for."""


@dataclass(frozen=True)
class Similarity:
    """Similarity to the float model.

    Attributes:
        cosine: mean over samples and outputs.
        worst_cosine: least over samples of the mean over outputs.
        agreement: share of samples with the same largest element; ``None`` where no output is a vector of classes.
    """

    cosine: float
    worst_cosine: float
    agreement: float | None


def float_outputs(model: ir.Model, data: CalibrationData, threads: int | None = None) -> list[Array]:
    """Outputs of a float-stage model for all samples, in the order of the model's, joined along the first dimension."""
    session = _float_session(model, threads)
    results = [session.run(data.read(index, index + 1)) for index in range(len(data))]
    return [np.concatenate([result[str(value.name)] for result in results]) for value in model.graph.outputs]


def integer_outputs(quantized: ir.Model, data: CalibrationData, threads: int | None = None) -> list[Array]:
    """Outputs of a quantised model on the simulator, as :func:`float_outputs`."""
    session = Session(quantized, threads=threads)
    results = [session.run(as_integers(data.read(i, i + 1), session.inputs)) for i in range(len(data))]
    return [np.concatenate([result[info.name] for result in results]) for info in session.outputs]


class Evaluator:
    """Scores models against one float model on evenly spread samples.

    Args:
        optimized: float model.
        data: calibration data.
        samples: how many to use at most.
        threads: CPU threads; None for all.
    """

    def __init__(
        self, optimized: ir.Model, data: CalibrationData, samples: int = DEFAULT_SAMPLES, threads: int | None = None
    ) -> None:
        self._threads = threads
        self._feeds = [data.read(index, index + 1) for index in evenly_spread(len(data), samples)]
        session = _float_session(optimized, threads)
        self._expected = [session.run(feed) for feed in self._feeds]

    def integer(self, quantized: ir.Model) -> Similarity:
        """Score of a quantised model, on the simulator."""
        session = Session(quantized, threads=self._threads)
        return self._score([session.run(as_integers(feed, session.inputs)) for feed in self._feeds])

    def floating(self, model: ir.Model) -> Similarity:
        """Score of a float-stage model, calibrated or not."""
        session = _float_session(model, self._threads)
        return self._score([session.run(feed) for feed in self._feeds])

    def distances(self, quantized: ir.Model) -> dict[str, IntegerDistance]:
        """Distance of a quantised model's outputs, by name."""
        return _distances(Session(quantized, threads=self._threads), zip(self._feeds, self._expected, strict=True))

    def _score(self, results: list[Mapping[str, Array]]) -> Similarity:
        cosines, agreements = [], []
        for found, expected in zip(results, self._expected, strict=True):
            pairs = [(found[name], wanted) for name, wanted in expected.items()]
            cosines.append(np.mean([cosine(actual, wanted) for actual, wanted in pairs]))
            agreements += [actual.argmax() == wanted.argmax() for actual, wanted in pairs if _is_classes(wanted)]
        return Similarity(
            float(np.mean(cosines)), float(np.min(cosines)), float(np.mean(agreements)) if agreements else None
        )


def integer_distances(
    optimized: ir.Model,
    quantized: ir.Model,
    data: CalibrationData,
    known: FloatOutputs,
    *,
    threads: int | None = None,
) -> dict[str, IntegerDistance]:
    """Distance of the integer model's outputs from the float model's, by output.

    Args:
        optimized: float model.
        quantized: the quantised model made from it; it runs on the simulator.
        data: all samples are taken, one at a time.
        known: outputs of the float model that are there already; others are computed, float sums in the same order.
        threads: CPU threads; None for all.

    Returns:
        As :meth:`~engine.floats.health.HealthMeter.distance` defines them.
    """

    def samples() -> Iterator[tuple[Mapping[str, Array], Mapping[str, Array]]]:
        exact = None
        for index in range(len(data)):
            feed = data.read(index, index + 1)
            expected = known.of(index)
            if expected is None:
                exact = exact or FloatSession(optimized, threads=threads, kernels=Kernels.PLAIN, max_batch=1)
                expected = exact.run(feed)
            yield feed, expected

    return _distances(Session(quantized, threads=threads), samples())


def _distances(
    integer: Session, samples: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]]
) -> dict[str, IntegerDistance]:
    """By output, over samples with the float model's results."""
    meters = {info.name: HealthMeter() for info in integer.outputs}
    for feed, expected in samples:
        actual = integer.run(as_integers(feed, integer.inputs))
        for name, meter in meters.items():
            meter.add(actual[name], expected[name])
    return {name: meter.distance() for name, meter in meters.items()}


def _float_session(model: ir.Model, threads: int | None) -> FloatSession:
    """For one sample at a time: whether more could share a run is not tried, for which three are computed."""
    return FloatSession(model, threads=threads, max_batch=1)


def as_integers(feed: Mapping[str, Array], inputs: tuple[TensorInfo, ...]) -> dict[str, Array]:
    """Samples of the float model as the quantised model takes them.

    Float pixels become int8, rounded half to even and saturated, NaN 0; channels last where the model wants them. Other
    arrays only change their type.
    """
    found = {}
    for tensor in inputs:
        array = feed[tensor.name]
        if array.shape[1:] != tuple(tensor.shape[1:]):
            array = array.transpose(0, 2, 3, 1)
        if tensor.dtype == np.int8 and array.dtype.kind == "f":
            array = np.clip(np.rint(np.nan_to_num(array)), -128, 127)
        found[tensor.name] = array.astype(tensor.dtype, copy=False)
    return found


def _is_classes(output: Array) -> bool:
    """Whether ``output`` is one vector for one sample."""
    return output.size > 1 and max(output.shape) == output.size
