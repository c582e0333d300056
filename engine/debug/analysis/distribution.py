"""What the values of a tensor look like before and after quantisation, over all and by channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.debug.analysis.data import Array
from engine.debug.analysis.metrics import DistanceMeasure, measure
from engine.debug.analysis.model import DebugModel, NodeType
from engine.debug.analysis.variants import VariantRunner, Watcher, unwatched
from engine.errors import ConfigError
from engine.floats.fake_quantization import fake_quantize, spread
from engine.ir import Calibration, constant_of, read_calibration

MAX_VALUES = 1 << 22
"""Values of a tensor that are looked at: of more, evenly spread ones."""
BINS = 128


@dataclass(frozen=True)
class ValueHistogram:
    """Number of values in bins of equal width.

    Attributes:
        edges: float64, shape (bins + 1,).
        counts: int64, shape (bins,).
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class ValueDistribution:
    """Values of a weight, an activation or the result of a node.

    Attributes:
        node: its name.
        kind: of the node.
        before: float values.
        after: quantised values: of a weight or activation by its own calibration, of a result in the calibrated model.
        error: after - before.
        cosine: similarity of both.
        largest: largest magnitude before.
        thresholds: least and greatest calibration threshold; None for the result of a node that none reads.
        clipped: share of values beyond their threshold; None likewise.
        rounded: share of non-zero values that become zero; None likewise.
    """

    node: str
    kind: NodeType
    before: ValueHistogram
    after: ValueHistogram
    error: ValueHistogram
    cosine: float
    largest: float
    thresholds: tuple[float, float] | None
    clipped: float | None
    rounded: float | None


@dataclass(frozen=True)
class Channels:
    """Box plots of the channels of what a calibration node reads.

    Attributes:
        node: name of the calibration node.
        kind: weight or activation.
        axis: of the channels.
        minimum, lower, median, upper, maximum, mean: float64, shape (channels,); lower and upper are the quartiles.
        thresholds: float64, shape (channels,): the calibration threshold of each channel.
    """

    node: str
    kind: NodeType
    axis: int
    minimum: NDArray[np.float64]
    lower: NDArray[np.float64]
    median: NDArray[np.float64]
    upper: NDArray[np.float64]
    maximum: NDArray[np.float64]
    mean: NDArray[np.float64]
    thresholds: NDArray[np.float64]


def distributions(
    model: DebugModel, feed: Mapping[str, Array], names: Sequence[str], watch: Watcher = unwatched
) -> list[ValueDistribution]:
    """The distributions of the nodes ``names``, of any kind.

    Raises:
        ConfigError: a node is not in the model, or its result is no float tensor that depends on the inputs.
    """
    results = {name: model.output_of(name) for name in names if model.kind(name) is NodeType.NODE}
    computed = {str(value.name) for value in model.dynamic if value is not None}
    constant = [name for name, tensor in results.items() if tensor not in computed]
    if constant:
        raise ConfigError(f"node {constant[0]!r}: its result does not depend on the inputs of the model")
    activations = {name: tensor for name, tensor in _read_tensors(model, names).items() if tensor in computed}
    found = _fetch(model, feed, {*results.values(), *activations.values()}, watch)
    return [
        _of_result(model, name, *found[results[name]])
        if name in results
        else _of_calibration(model, name, found[activations[name]][0] if name in activations else _weight(model, name))
        for name in names
    ]


def channels(
    model: DebugModel,
    feed: Mapping[str, Array],
    names: Sequence[str],
    axis: int | None = None,
    watch: Watcher = unwatched,
) -> list[Channels]:
    """Box plots of what the calibration nodes ``names`` read.

    Args:
        model: calibrated model.
        feed: samples by input name.
        names: calibration nodes.
        axis: of the channels; None for the second of activations, and what a weight's calibration node says.
        watch: told of the share that is done.

    Raises:
        ConfigError: a node is no calibration node of the model, or a tensor has no such axis.
    """
    for name in names:
        if model.kind(name) is NodeType.NODE:
            raise ConfigError(f"node {name!r} is a regular node; calibration nodes (*_HzCalibration) are needed")
    tensors = {
        name: tensor for name, tensor in _read_tensors(model, names).items() if model.kind(name) is NodeType.ACTIVATION
    }
    found = _fetch(model, feed, set(tensors.values()), watch)
    return [
        _boxes(model, name, found[tensors[name]][0] if name in tensors else _weight(model, name), axis)
        for name in names
    ]


def _read_tensors(model: DebugModel, names: Sequence[str]) -> dict[str, str]:
    """Names of what calibration nodes read."""
    nodes = {name: model.calibrations[name].inputs[0] for name in names if name in model.calibrations}
    return {name: str(value.name) for name, value in nodes.items() if value is not None}


def _weight(model: DebugModel, name: str) -> Array:
    array = constant_of(model.calibrations[name].inputs[0])
    if array is None:
        raise ConfigError(f"node {name!r} reads neither a constant nor a tensor that depends on the inputs")
    return np.asarray(array)


def _fetch(
    model: DebugModel, feed: Mapping[str, Array], tensors: set[str], watch: Watcher
) -> dict[str, tuple[Array, Array]]:
    """Float and quantised arrays by name of the tensor, all samples along the first dimension, or some of them."""
    found = {name: (array, array) for name, array in feed.items()}
    wanted = tensors - found.keys()
    if not wanted:
        return found
    samples = len(next(iter(feed.values())))

    def keep(_: str, actual: Array, expected: Array) -> tuple[Array, Array]:
        return expected.copy(), actual.copy()

    parts: dict[str, list[tuple[Array, Array]]] = {name: [] for name in wanted}
    for (pairs,) in VariantRunner(model.model, wanted).run(feed, [model.all], keep, watch):
        for name, pair in pairs.items():
            every = -(-samples * pair[0].size // MAX_VALUES)
            if len(parts[name]) < max(1, samples // every):
                parts[name].append(pair)
    for name, kept in parts.items():
        before, after = zip(*kept, strict=True)
        found[name] = np.concatenate(before), np.concatenate(after)
    return found


def _of_result(model: DebugModel, name: str, before: Array, after: Array) -> ValueDistribution:
    """Distribution of a regular node's result, with the thresholds of the calibration node that reads it, if any."""
    readers = [user for user in model.nodes[name].outputs[0].consumers() if str(user.name) in model.calibrations]
    return _distribution(name, NodeType.NODE, before, after, read_calibration(readers[0]) if readers else None)


def _of_calibration(model: DebugModel, name: str, before: Array) -> ValueDistribution:
    calibration = read_calibration(model.calibrations[name])
    return _distribution(name, model.kind(name), before, fake_quantize(before, calibration), calibration)


def _distribution(
    name: str, kind: NodeType, before: Array, after: Array, calibration: Calibration | None
) -> ValueDistribution:
    error = after.astype(np.float64) - before
    span = _span(before, after)
    limits = None
    clipped = rounded = None
    if calibration is not None:
        thresholds = calibration.thresholds
        limits = float(thresholds.min()), float(thresholds.max())
        bounds = spread(thresholds, before.shape, calibration)
        steps = spread(calibration.scales, before.shape, calibration)
        clipped = float(np.mean(np.abs(before) > bounds))
        rounded = float(np.mean((before != 0) & (np.rint(before / steps) == 0)))
    return ValueDistribution(
        node=name,
        kind=kind,
        before=_histogram(before, span),
        after=_histogram(after, span),
        error=_histogram(error, _span(error)),
        cosine=measure(DistanceMeasure.COSINE, after, before),
        largest=float(np.abs(before).max(initial=0.0)),
        thresholds=limits,
        clipped=clipped,
        rounded=rounded,
    )


def _span(*arrays: Array) -> tuple[float, float]:
    """Least and greatest finite value of all ``arrays``."""
    finite = [array[np.isfinite(array)] for array in arrays]
    low = min((float(array.min()) for array in finite if array.size), default=0.0)
    high = max((float(array.max()) for array in finite if array.size), default=0.0)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _histogram(array: Array, span: tuple[float, float]) -> ValueHistogram:
    counts, edges = np.histogram(array[np.isfinite(array)], BINS, span)
    return ValueHistogram(edges.astype(np.float64), counts.astype(np.int64))


def _boxes(model: DebugModel, name: str, array: Array, axis: int | None) -> Channels:
    calibration = read_calibration(model.calibrations[name])
    kind = model.kind(name)
    chosen = axis if axis is not None else calibration.axis if kind is NodeType.WEIGHT else min(1, array.ndim - 1)
    if not isinstance(chosen, int) or not -array.ndim <= chosen < array.ndim:
        raise ConfigError(f"axis is {chosen!r}; what {name!r} reads has {array.ndim} dimensions, shape {array.shape}")
    rows = np.moveaxis(array, chosen, 0).reshape(array.shape[chosen], -1)
    minimum, lower, median, upper, maximum = np.percentile(rows, (0, 25, 50, 75, 100), axis=1)
    thresholds = calibration.thresholds.astype(np.float64)
    fits = thresholds.size == len(rows)
    return Channels(
        node=name,
        kind=kind,
        axis=chosen % array.ndim,
        minimum=minimum,
        lower=lower,
        median=median,
        upper=upper,
        maximum=maximum,
        mean=rows.mean(axis=1, dtype=np.float64),
        thresholds=thresholds if fits else np.full(len(rows), thresholds.min()),
    )
