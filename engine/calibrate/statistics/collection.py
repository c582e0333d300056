"""One streaming pass over the calibration data collects what every calibration method needs.

The optimised float graph runs in ONNX Runtime, a few samples at a time, and observers take in every wanted tensor as
soon as it is there. What must know a range first may make further runs: histograms over the first 8 samples, if their
values are too many to be kept, or over all where they must not depend on the order; equalised channels take a second
look at the tensors concerned, which are kept for it if they are small. Memory is bounded by :data:`BUFFER_LIMIT`,
:data:`KEPT_LIMIT` and the observers', which hold at most half a sample's activations, twice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from enum import StrEnum
from operator import itemgetter
from threading import Condition
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator

from engine.calibrate.data.sources import CalibrationData, as_data
from engine.calibrate.methods.channels import ChannelReaders, is_large, tensors_per_channel
from engine.calibrate.methods.methods import CalibrationOptions, method_of
from engine.calibrate.statistics.distribution import Distribution, as_channels, clamp_percentile
from engine.calibrate.statistics.observers import DistributionObserver, GrowingHistogram
from engine.calibrate.statistics.outputs import FloatOutputs
from engine.calibrate.statistics.progress import Progress
from engine.calibrate.statistics.statistics import Statistics, TensorStatistics
from engine.errors import CalibrationDataError, ModelError
from engine.floats.border_columns import with_border_columns
from engine.floats.float_model import FloatSession, Kernels, runs_in_parts
from engine.floats.grouping import GROUP, TogetherSession, group_size, mixes_group
from engine.floats.overflows import with_overflows
from engine.ir import shape_of
from engine.optimize.base import clip_bounds
from engine.rulebook.integers import BORDER_COLUMNS, MISH_OVERFLOW, SAMPLES_TOGETHER, imitates

Array = NDArray[Any]
Shape = tuple[int, ...]

BUFFER_LIMIT = 256 << 20
"""Bytes of activations held at a time; tensors beyond it take another pass over the data."""

KEPT_LIMIT = 64 << 20
"""Bytes of values that may be kept for a second look at them; if they need more, the data are run again."""


class HistogramRule(StrEnum):
    """How the range of histograms is found.

    Attributes:
        REFERENCE: from the first 8 samples, or the first one (:func:`engine.floats.grouping.group_size`),
            growing, as the original does it: depends on the order of the samples.
        ORDER_INDEPENDENT: from all samples, in a pass of its own.
        NONE: no histograms: no ``kl``.
    """

    REFERENCE = "reference"
    ORDER_INDEPENDENT = "order_independent"
    NONE = "none"


class StatisticsOptions(BaseModel):
    """What to collect, and how to run.

    Attributes:
        percentiles: values of ``max_percentile`` that methods may request; 1.0 is always included.
        histogram: rule of the histograms for ``kl``.
        per_channel: also collect equalised distributions.
        together: as the original, run 8 samples at once through networks that then compute other numbers
            (rule ``method.samples-together``).
        overflows: as the original, leave out what a Mish gives for large values (rule ``method.mish-overflow``).
        border_columns: as the original, count padding on the right in averages (rule ``method.border-columns``).
        batch: samples per run of ONNX Runtime at most, 1..8; does not change results. Few fit the CPU's caches better.
        threads: CPU threads; None for all. Does not change results.
        kernels: ``PLAIN`` sums floats in the order of the original, so that thresholds equal its own to the last bit
            and the similarity figures to the last digit; takes 0.8 to 1.6 times as long as ``FAST``, which differs by
            an ulp or two.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    percentiles: tuple[float, ...] = ()
    histogram: HistogramRule = HistogramRule.REFERENCE
    per_channel: bool = False
    together: bool = False
    overflows: bool = False
    border_columns: bool = False
    batch: int = Field(default=2, ge=1, le=GROUP)
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
        """The least that serves all of ``options``; ``running``: ``batch`` and ``threads``.

        Samples are computed one by one, all that a Mish gives counts, and no padding does, where an option is not to
        imitate the original.
        """
        options = tuple(options)
        methods = [method_of(option) for option in options]
        return cls(
            percentiles=tuple(
                p for method, option in zip(methods, options, strict=True) for p in method.percentiles(option)
            ),
            histogram=histogram if any(method.needs_histogram for method in methods) else HistogramRule.NONE,
            per_channel=any(option.per_channel and m.needs_data for m, option in zip(methods, options, strict=True)),
            together=all(imitates(SAMPLES_TOGETHER, option.compatibility) for option in options),
            overflows=all(imitates(MISH_OVERFLOW, option.compatibility) for option in options),
            border_columns=all(imitates(BORDER_COLUMNS, option.compatibility) for option in options),
            **running,
        )


def collect(
    optimized: ir.Model,
    tensors: Iterable[str],
    data: CalibrationData | Mapping[str, Array],
    options: StatisticsOptions | None = None,
    progress: Progress | None = None,
    outputs: FloatOutputs | None = None,
) -> Statistics:
    """Run the calibration data through the float model and summarise ``tensors``.

    Results do not depend on ``options.batch`` or on the order of the samples, except ``kl`` under
    :attr:`HistogramRule.REFERENCE`, for which the first samples give the range.

    Args:
        optimized: the float graph, batch 1, static shapes.
        tensors: float32 tensors of it, inputs included; see :func:`engine.calibrate.calibration_tensors`.
        data: what the inputs are fed with, or arrays by input name, samples along the first dimension.
        options: what to collect; None for the defaults.
        progress: where the pass notes how far it has come, and goes on from there; results do not depend on it.
        outputs: what is to keep the model's outputs, which the first pass then shows too, unless it imitates the
            original in a Mish or an average.

    Raises:
        CalibrationDataError: there are no samples, or they do not fit the model's inputs.
        ModelError: a tensor does not exist or has no static shape.
    """
    options = options or StatisticsOptions()
    exact = optimized
    optimized = with_overflows(exact) if options.overflows else exact
    optimized = with_border_columns(optimized) if options.border_columns else optimized
    if optimized is not exact:
        outputs = None
    names = tuple(dict.fromkeys(tensors))
    data = as_data(data, next((shape_of(value)[0] for value in optimized.graph.inputs), 1))
    if not len(data):
        raise CalibrationDataError("there are no calibration samples; at least one is needed")
    inputs = {str(value.name) for value in optimized.graph.inputs}
    shapes = _shapes(optimized, sorted(names, key=inputs.__contains__))  # the first chunk computes, and shows outputs
    shown = () if outputs is None else outputs.wanted(optimized)
    chosen = chosen_tensors(exact, names, options)
    group = group_size(optimized) if options.histogram is HistogramRule.REFERENCE else GROUP
    together = options.together and mixes_group(optimized)
    peaks: dict[str, NDArray[np.float32]] = {}
    pooled: dict[str, Distribution] = {}
    equalized: dict[str, Distribution] = {}
    factors: dict[str, NDArray[np.float32]] = {}
    held = 1 if runs_in_parts(optimized, options.kernels) else options.batch
    for chunk in _chunks(shapes, _shapes(optimized, shown), held):
        again = [name for name in chosen if name in chunk]
        stream = _Stream(optimized, data, options, chunk, again, progress, group, outputs, together=together)
        outputs = None
        for name, observer in _observe(stream, dict.fromkeys(chunk)).items():
            peaks[name], pooled[name] = observer.channel_max, observer.distribution()
        factors |= {name: chosen[name].factors(peaks[name]) for name in again if is_large(peaks[name])}
        differing = {name: factors[name] for name in again if name in factors and factors[name].max() > 1}
        for name, observer in _observe(stream, differing).items():
            equalized[name] = observer.distribution()
    found = {
        name: TensorStatistics(peaks[name], pooled[name], equalized.get(name), factors.get(name)) for name in names
    }
    return Statistics(
        found,
        samples=len(data),
        per_channel=options.per_channel,
    )


def constant_statistics(array: Array, options: StatisticsOptions, samples: int) -> TensorStatistics:
    """Statistics of a constant, which is the same in every one of ``samples`` samples.

    Its values are looked at once, but a percentile counts them as if every sample brought its own: of 512 values the
    third largest magnitude is the threshold at 0.9995 and 8 samples (``swin_c``, one tensor, provisional; three others
    there have their largest magnitude three times or more).
    """
    values = np.ascontiguousarray(array, np.float32).reshape(1, 1, -1)
    largest = float(np.max(np.abs(values), initial=0.0))
    elements = _elements(array.shape, 1) if array.shape else 1
    observer = DistributionObserver(1, elements, samples, options.percentiles, GrowingHistogram(largest))
    observer.update(values)
    observer.end_group()
    return TensorStatistics(observer.channel_max, observer.distribution())


def chosen_tensors(model: ir.Model, names: Sequence[str], options: StatisticsOptions) -> dict[str, ChannelReaders]:
    """See :func:`engine.calibrate.methods.channels.tensors_per_channel`; nothing where it is not requested."""
    return tensors_per_channel(model, names) if options.per_channel else {}


def _chunks(shapes: Mapping[str, Shape], shown: Mapping[str, Shape], held: int) -> Iterator[dict[str, Shape]]:
    """``shapes`` in pieces whose buffers, for ``held`` samples, stay below the limit; the first has ``shown`` too."""
    chunk: dict[str, Shape] = {}
    size = held * 4 * sum(map(math.prod, shown.values()))
    for name, shape in shapes.items():
        needed = held * 4 * math.prod(shape)
        if chunk and size + needed > BUFFER_LIMIT:
            yield chunk
            chunk, size = {}, 0
        chunk[name] = shape
        size += needed
    if chunk:
        yield chunk


def _observe(stream: _Stream, scales: Mapping[str, NDArray[np.float32] | None]) -> dict[str, DistributionObserver]:
    """Observers that saw all samples of some tensors.

    Args:
        stream: of these tensors and others.
        scales: what every channel is multiplied by, or None, by name of the tensor.
    """
    if not scales:
        return {}
    guesses, options, samples = _guesses(stream, scales), stream.options, len(stream.data)
    ranges = guesses | _known_ranges(stream, {name: scales[name] for name in scales.keys() - guesses.keys()})
    observers = {}
    for name, factors in scales.items():
        shape, histogram = stream.shapes[name], GrowingHistogram(ranges[name]) if name in ranges else None
        observers[name] = DistributionObserver(
            _channels(shape), _elements(shape, stream.batch), samples, options.percentiles, histogram, factors
        )
    stream.show(observers, samples, {name: guess for name, guess in guesses.items() if guess > 0})
    return observers


def _guesses(stream: _Stream, scales: Mapping[str, NDArray[np.float32] | None]) -> dict[str, float]:
    """First ranges of histograms that need no look at the data beforehand.

    What a ``Clip`` bounds will most likely come up to that in the first group. The values of small tensors can be kept
    until the group is complete: 0, see :class:`GrowingHistogram`.
    """
    if stream.options.histogram is not HistogramRule.REFERENCE:
        return {}
    guesses = {name: bound for name, bound in stream.bounds.items() if name in scales and scales[name] is None}
    others = scales.keys() - guesses.keys()
    size = stream.group * sum(4 * math.prod(stream.shapes[name]) for name in others)
    return guesses | (dict.fromkeys(others, 0.0) if size <= KEPT_LIMIT else {})


def _known_ranges(stream: _Stream, scales: Mapping[str, NDArray[np.float32] | None]) -> dict[str, float]:
    """The first range of histograms, if there are any: the maximum over the first 8 samples or over all."""
    rule = stream.options.histogram
    if rule is HistogramRule.NONE or not scales:
        return {}
    samples = min(stream.group, len(stream.data)) if rule is HistogramRule.REFERENCE else len(stream.data)
    observers = {
        name: DistributionObserver(
            _channels(stream.shapes[name]), _elements(stream.shapes[name], stream.batch), samples, scales=factors
        )
        for name, factors in scales.items()
    }
    stream.show(observers, samples)
    return {name: observer.maximum for name, observer in observers.items()}


def _channels(shape: Shape) -> int:
    return shape[1] if len(shape) > 1 else 1


def _elements(shape: Shape, batch: int) -> int:
    """How many elements of a sample count where a percentile is looked for: those of one row of the first dimension.

    The original takes that dimension for the samples, also where it holds windows or steps of time, so that fewer of
    the values are cut off: nine thresholds of ``swin_c`` with four windows, 34 of ``crnn_gru_c`` with 32 steps.
    """
    return min(math.prod(shape), batch * math.prod(shape[1:]))


class _Stream:
    """The values of some tensors over the calibration data, as often as they are requested.

    Args:
        model: the float graph.
        data: what its inputs are fed with.
        options: how to run.
        shapes: of the tensors, by name, for one sample.
        again: tensors that are requested a second time; kept until then if they fit into :data:`KEPT_LIMIT`.
        progress: where it is noted what observers have seen, or None.
        group: samples that are shown together: what observers call a group.
        outputs: what keeps the model's outputs.
        together: whether a group runs at once; the outputs are not kept then.
    """

    def __init__(
        self,
        model: ir.Model,
        data: CalibrationData,
        options: StatisticsOptions,
        shapes: Mapping[str, Shape],
        again: Collection[str],
        progress: Progress | None,
        group: int,
        outputs: FloatOutputs | None,
        *,
        together: bool,
    ) -> None:
        self.data, self.options, self.shapes, self.group = data, options, shapes, group
        self.batch = next((shape_of(value)[0] for value in model.graph.inputs if shape_of(value)), 1)
        self._progress = progress
        inputs = {str(value.name) for value in model.graph.inputs}
        self._fed = [name for name in shapes if name in inputs]
        computed = [name for name in shapes if name not in inputs]
        self._session: FloatSession | TogetherSession | None = None
        self._outputs = outputs if computed and not together else None
        if self._outputs is not None:
            computed += [name for name in self._outputs.wanted(model) if name not in shapes]
        if computed and together:
            self._session = TogetherSession(model, computed, options.threads)
        elif computed:
            self._session = FloatSession(
                model, computed, threads=options.threads, kernels=options.kernels, max_batch=options.batch
            )
        self.bounds = _bounds(model)
        size = len(data) * sum(4 * math.prod(shapes[name]) for name in again)
        self._keeping = frozenset(again) if size <= KEPT_LIMIT else frozenset()
        self._kept: list[list[tuple[int, str, NDArray[np.float32]]]] = []

    def show(
        self,
        observers: Mapping[str, DistributionObserver],
        samples: int,
        guesses: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Show every observer the values of its tensor for the first ``samples`` samples: one group, or all.

        Args:
            observers: by tensor.
            samples: how many.
            guesses: the range that a histogram was begun with, by tensor; where the first group has another, its
                observer begins anew with that and is shown the group again.
        """
        takes = self._takes(samples)
        seen = 0 if self._progress is None else self._progress.begin(observers, len(takes))
        for index in range(seen, len(takes)):
            self._show_take(observers, index, takes[index])
            if index == 0:
                self._repeat(
                    {name: observers[name] for name in guesses if observers[name].maximum != guesses[name]}, takes[0]
                )
            for observer in observers.values():
                observer.end_group()
            if self._progress is not None:
                self._progress.advance(observers, index + 1)
        if self._progress is not None:
            self._progress.end(observers)

    def _takes(self, samples: int) -> list[range]:
        """The samples that are read and run at a time: the first group, then groups, of a single sample several."""
        first, many = min(self.group, samples), max(self.group, GROUP)
        return [range(first), *(range(at, min(at + many, samples)) for at in range(first, samples, many))]

    def _repeat(self, observers: Mapping[str, DistributionObserver], take: range) -> None:
        """Let ``observers`` begin anew and show them the first group."""
        for observer in observers.values():
            observer.begin_anew()
        if observers:
            self._show_take(observers, 0, take)

    def _show_take(self, observers: Mapping[str, DistributionObserver], index: int, take: range) -> None:
        """Show ``observers`` the samples of ``take``, which has this number."""
        turns = _Turns(observers, 0 if len(take) <= self.group else self.group)
        if observers.keys() <= self._keeping and index < len(self._kept):
            for first, name, array in sorted(self._kept[index], key=itemgetter(0)):
                turns.update(first, name, array, self._samples(name, array))
            return
        kept: list[tuple[int, str, NDArray[np.float32]]] = []

        def see(first: int, name: str, array: NDArray[np.float32]) -> None:
            if self._outputs is not None:
                self._outputs.see(take.start + first, name, array)
            if name in self._keeping:
                kept.append((first, name, array.copy()))
            turns.update(first, name, array, self._samples(name, array))

        feed = self.data.read(take.start, take.stop)
        with turns:
            for name in self._fed:
                see(0, name, np.ascontiguousarray(feed[name], np.float32))
            if self._session is not None:
                self._session.visit(feed, see)
        if index == len(self._kept):
            self._kept.append(kept)

    def _samples(self, name: str, array: NDArray[np.float32]) -> int:
        """How many samples ``array`` holds."""
        return len(array) // self.shapes[name][0] if self.shapes.get(name) else 1


class _Turns:
    """Lets observers see samples that several threads compute.

    Args:
        observers: by tensor; values of others are passed over.
        group: samples of a group, of which an observer sees one after the other, in order, and ends each; a thread
            that is ahead waits. 0 where all samples are of one group, which may come in any order.
    """

    def __init__(self, observers: Mapping[str, DistributionObserver], group: int) -> None:
        self._observers, self._group = observers, group
        self._seen = dict.fromkeys(observers, 0)
        self._busy: set[str] = set()
        self._changed = Condition()
        self._has_failed = False

    def update(self, first: int, name: str, array: NDArray[np.float32], samples: int) -> None:
        """Show the observer of ``name`` the values of ``samples`` samples, of which ``first`` is the first's number."""
        if name not in self._observers:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._has_failed or self._may_see(name, first))
            if self._has_failed:
                raise CancelledError
            self._busy.add(name)
        observer = self._observers[name]
        if self._group:
            for values in np.split(array, samples // self._group):
                observer.update(as_channels(values))
                observer.end_group()
        else:
            observer.update(as_channels(array))
        with self._changed:
            self._busy.remove(name)
            self._seen[name] += samples
            self._changed.notify_all()

    def _may_see(self, name: str, first: int) -> bool:
        return name not in self._busy and (not self._group or self._seen[name] == first)

    def __enter__(self) -> None:
        """What fails inside wakes all that wait."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with self._changed:
                self._has_failed = True
                self._changed.notify_all()


def _bounds(model: ir.Model) -> dict[str, float]:
    """What the magnitude of a result of ``Clip`` cannot exceed, by tensor."""
    clips = {node: clip_bounds(node) for node in model.graph if node.op_type == "Clip"}
    largest = {str(node.outputs[0].name): max(map(abs, bounds)) for node, bounds in clips.items() if bounds}
    return {name: float(np.float32(bound)) for name, bound in largest.items() if 0 < bound < math.inf}


def _shapes(model: ir.Model, names: Iterable[str]) -> dict[str, Shape]:
    """Static shapes of the tensors ``names``, batch 1."""
    values = {
        str(value.name): value
        for value in (*model.graph.inputs, *(value for node in model.graph for value in node.outputs))
    }
    unknown = [name for name in names if name not in values]
    if unknown:
        raise ModelError(f"the model has no tensors {unknown} to calibrate")
    return {name: shape_of(values[name]) for name in names}
