"""One streaming pass over the calibration data collects what every calibration method needs.

The optimised float graph runs in ONNX Runtime, all wanted tensors are written into one set of buffers, group after
group of 8 samples, and observers take them in. What must know the range first (equalised channels, the
order-independent histogram) takes a second pass over the tensors concerned. Memory is bounded by :data:`BUFFER_LIMIT`
plus the observers', which do not grow with the number of samples beyond one sample's activations.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator

from engine.calibrate.channels import channel_scales, equalizable
from engine.calibrate.data import CalibrationData, as_data
from engine.calibrate.distribution import Distribution, as_channels, clamp_percentile
from engine.calibrate.forward import MAX_BATCH, FloatSession, Kernels
from engine.calibrate.methods import CalibrationOptions, method_of
from engine.calibrate.observers import DistributionObserver, GrowingHistogram
from engine.calibrate.statistics import Statistics, TensorStatistics
from engine.errors import CalibrationDataError, ModelError
from engine.ir import shape_of

Array = NDArray[Any]

GROUP = 8
"""Samples that the original looks at together: its ``kl`` takes the first range from the first 8."""

BUFFER_LIMIT = 512 << 20
"""Bytes of activations held at a time; tensors beyond it take another pass over the data."""


class HistogramRule(StrEnum):
    """How the range of histograms is found.

    Attributes:
        REFERENCE: from the first 8 samples, growing, as the original does it: depends on the order of the samples.
        ORDER_INDEPENDENT: from all samples, in a pass of its own.
        NONE: no histograms: no ``kl``.
    """

    REFERENCE = "reference"
    ORDER_INDEPENDENT = "order_independent"
    NONE = "none"


class StatisticsOptions(BaseModel):
    """What to collect, and how to run.

    Attributes:
        percentiles: values of ``max_percentile`` that will be asked for; 1.0 is always there.
        histogram: rule of the histograms for ``kl``.
        per_channel: also collect equalised distributions.
        batch: samples per run of ONNX Runtime, 1..8; does not change results.
        threads: CPU threads; None for all. Does not change results.
        kernels: ``PLAIN`` sums floats in the order of the original, so that thresholds equal its own to the last bit
            and the similarity figures to the last digit; several times slower than ``FAST``, which differs by an ulp.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    percentiles: tuple[float, ...] = ()
    histogram: HistogramRule = HistogramRule.REFERENCE
    per_channel: bool = False
    batch: int = Field(default=MAX_BATCH, ge=1, le=GROUP)
    threads: int | None = Field(default=None, ge=1)
    kernels: Kernels = Kernels.FAST

    @field_validator("percentiles")
    @classmethod
    def _normal(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted({clamp_percentile(value) for value in values} - {1.0}))

    @classmethod
    def covering(
        cls, options: Iterable[CalibrationOptions], histogram: HistogramRule = HistogramRule.REFERENCE, **running: Any
    ) -> StatisticsOptions:
        """The least that serves all of ``options``; ``running``: ``batch`` and ``threads``."""
        options = tuple(options)
        methods = [method_of(option) for option in options]
        return cls(
            percentiles=tuple(
                p for method, option in zip(methods, options, strict=True) for p in method.percentiles(option)
            ),
            histogram=histogram if any(method.needs_histogram for method in methods) else HistogramRule.NONE,
            per_channel=any(option.per_channel and m.needs_data for m, option in zip(methods, options, strict=True)),
            **running,
        )


def collect(
    optimized: ir.Model,
    tensors: Iterable[str],
    data: CalibrationData | Mapping[str, Array],
    options: StatisticsOptions | None = None,
) -> Statistics:
    """Run the calibration data through the float model and summarise ``tensors``.

    Results do not depend on ``options.batch`` or on the order of the samples, except ``kl`` under
    :attr:`HistogramRule.REFERENCE`, for which the first 8 samples give the range.

    Args:
        optimized: the float graph, batch 1, static shapes.
        tensors: float32 tensors of it, inputs included; see :func:`engine.calibrate.calibration_tensors`.
        data: what the inputs are fed with, or arrays by input name, samples along the first dimension.
        options: what to collect; None for the defaults.

    Raises:
        CalibrationDataError: there are no samples, or they do not fit the model's inputs.
        ModelError: a tensor does not exist or has no static shape.
    """
    options = options or StatisticsOptions()
    names = tuple(dict.fromkeys(tensors))
    data = as_data(data)
    if not len(data):
        raise CalibrationDataError("there are no calibration samples; at least one is needed")
    run = _Run(optimized, data, options, {name: _shape(optimized, name) for name in names})
    growing = options.histogram is HistogramRule.REFERENCE
    first = run.observe({name: run.observer(name, GrowingHistogram() if growing else None) for name in names})
    peaks = {name: observer.channel_max for name, observer in first.items()}
    pooled = {name: observer.distribution() for name, observer in first.items()}
    if options.histogram is HistogramRule.ORDER_INDEPENDENT:
        pooled = _with_known_range(run, pooled)
    chosen = equalizable(optimized, names) if options.per_channel else ()
    equalized = _equalized(run, {name: peaks[name] for name in chosen}, growing)
    return Statistics(
        {name: TensorStatistics(peaks[name], pooled[name], equalized.get(name)) for name in names},
        samples=len(data),
        per_channel=options.per_channel,
    )


def _with_known_range(run: _Run, pooled: Mapping[str, Distribution]) -> dict[str, Distribution]:
    """``pooled`` with histograms over the whole range of every tensor."""
    observers = {
        name: DistributionObserver(1, 0, 0, histogram=GrowingHistogram(distribution.maximum))
        for name, distribution in pooled.items()
    }
    run.observe(observers, flat=True)
    return {
        name: Distribution(found.maximum, found.percentiles, observers[name].distribution().histogram)
        for name, found in pooled.items()
    }


def _equalized(run: _Run, peaks: Mapping[str, NDArray[np.float32]], growing: bool) -> dict[str, Distribution]:
    """Distributions of the tensors of ``peaks``, their channels equalised."""
    if not peaks:
        return {}
    observers = {}
    for name, peak in peaks.items():
        scales = channel_scales(peak)
        histogram = None
        if run.options.histogram is not HistogramRule.NONE:
            histogram = GrowingHistogram(None if growing else float((peak * scales).max()))
        observers[name] = run.observer(name, histogram, scales)
    return {name: observer.distribution() for name, observer in run.observe(observers).items()}


@dataclass(frozen=True)
class _Run:
    """One model, its data, and the passes over them."""

    model: ir.Model
    data: CalibrationData
    options: StatisticsOptions
    shapes: Mapping[str, tuple[int, ...]]

    def observer(
        self, name: str, histogram: GrowingHistogram | None, scales: NDArray[np.float32] | None = None
    ) -> DistributionObserver:
        """An observer of what the options ask for on tensor ``name``."""
        shape = self.shapes[name]
        return DistributionObserver(
            channels=shape[1] if len(shape) > 1 else 1,
            elements=int(np.prod(shape)),
            samples=len(self.data),
            percentiles=self.options.percentiles,
            histogram=histogram,
            scales=scales,
        )

    def observe(
        self, observers: Mapping[str, DistributionObserver], flat: bool = False
    ) -> Mapping[str, DistributionObserver]:
        """Show every observer all values of its tensor, 8 samples at a time; ``flat``: as a single channel."""
        threads = self.options.threads or os.cpu_count() or 1
        with ThreadPoolExecutor(threads) as pool:
            for chunk in self._chunks(tuple(observers)):
                for values in self._groups(chunk):
                    updates = [
                        pool.submit(observers[name].update, array.reshape(1, 1, -1) if flat else as_channels(array))
                        for name, array in values.items()
                    ]
                    for update in updates:
                        update.result()
        return observers

    def _chunks(self, names: Sequence[str]) -> Iterator[list[str]]:
        """``names`` in pieces whose buffers stay below the limit."""
        chunk: list[str] = []
        size = 0
        for name in names:
            needed = GROUP * 4 * int(np.prod(self.shapes[name]))
            if chunk and size + needed > BUFFER_LIMIT:
                yield chunk
                chunk, size = [], 0
            chunk.append(name)
            size += needed
        if chunk:
            yield chunk

    def _session(self, names: Sequence[str]) -> FloatSession:
        options = self.options
        return FloatSession(
            self.model, names, threads=options.threads, kernels=options.kernels, max_batch=options.batch
        )

    def _groups(self, names: Sequence[str]) -> Iterator[dict[str, NDArray[np.float32]]]:
        """The values of ``names`` for every group of samples; valid until the next group is asked for."""
        inputs = {str(value.name) for value in self.model.graph.inputs}
        computed = [name for name in names if name not in inputs]
        session = self._session(computed) if computed else None
        rows = min(GROUP, len(self.data))
        buffers = {name: np.empty((rows, *self.shapes[name][1:]), np.float32) for name in computed}
        for start in range(0, len(self.data), GROUP):
            feed = self.data.read(start, min(start + GROUP, len(self.data)))
            count = len(next(iter(feed.values())))
            values = {name: array[:count] for name, array in buffers.items()}
            if session is not None:
                session.run_into(feed, values)
            values.update({name: np.ascontiguousarray(feed[name], np.float32) for name in names if name in inputs})
            yield values


def _shape(model: ir.Model, name: str) -> tuple[int, ...]:
    """Static shape of tensor ``name``, batch 1."""
    for value in (*model.graph.inputs, *(value for node in model.graph for value in node.outputs)):
        if value.name == name:
            return shape_of(value)
    raise ModelError(f"the model has no tensor {name!r} to calibrate")
