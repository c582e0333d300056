"""Stage by stage through a conversion: the first stage that breaks its bound, and the first node inside it.

Neighbouring stages run on the same inputs. What a stage may change is known:

* source → original: nothing but the preprocessing, so tensors are equal but for float noise;
* original → optimized: nothing, tensors of the same name are equal but for float noise;
* optimized → calibrated: nothing with all calibration switched off; and no threshold may be much worse for these inputs
  than the best one;
* calibrated → quantized: every integer is the one that the lowering of the calibrated model defines;
* quantized → bin, bin → dumps of a board, quantized → foreign: every integer is the same.

:class:`~engine.debug.bisection.stages.Bounds` widens these bounds, and adds some for the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.config import InputSpec
from engine.debug.analysis.metrics import DistanceMeasure, measure
from engine.debug.analysis.variants import FLOAT, switch
from engine.debug.bisection.difference import Difference, are_integers, float_difference, integer_difference
from engine.debug.bisection.integer_error import integer_errors, integer_values
from engine.debug.bisection.round_trip import are_reversed, with_colours_of
from engine.debug.bisection.stages import FLOAT_STAGES, Bounds, StageName
from engine.debug.bisection.task import TaskMetric
from engine.debug.bisection.tensors import Feed, float_tensors, integer_tensors, with_rearranged
from engine.debug.bisection.thresholds import threshold_losses
from engine.errors import ModelError
from engine.floats.health import HealthMeter
from engine.frontend.preprocess import saved_inputs
from engine.ir import MARK_MARCH, shape_of
from engine.quantize import quantize
from engine.terms import Layout

Array = NDArray[Any]
Tensors = Mapping[str, Array]


@dataclass(frozen=True)
class Material:
    """What is bisected.

    Attributes:
        stages: models by stage; ``foreign`` is a quantised model of another toolchain. ``dumps`` is none of them.
        feed: what the original_float model takes, float32, samples along the first dimension.
        source_feed: what the source model takes: the user's own preprocessing. None where there are no images.
        dumps: tensors that a board dumped for the first samples of ``feed``, by name.
        bounds: what a stage may do to the one before it, where that is not :class:`Bounds` as it stands.
        task: metric of the network's task.
    """

    stages: Mapping[StageName, ir.Model]
    feed: Feed
    source_feed: Feed | None = None
    dumps: Tensors | None = None
    bounds: Mapping[StageName, Bounds] = field(default_factory=dict)
    task: TaskMetric | None = None


@dataclass(frozen=True)
class PairReport:
    """One stage against the one before it.

    Attributes:
        before: the stage that is taken for right.
        after: the stage under test.
        max_abs: largest difference of the graphs' outputs.
        sqnr: of the outputs in dB; infinite where they are equal.
        cosine: similarity of the outputs.
        lsb: largest difference of two integer tensors in units; None for float stages.
        metric_before: task metric of ``before``; None without a task.
        metric: task metric of ``after``.
        bound: what the stage may do, in words.
        node: first node that breaks the bound; None where the stage keeps it.
        tensor: its result.
        finding: what is wrong there.
    """

    before: StageName
    after: StageName
    max_abs: float
    sqnr: float
    cosine: float
    lsb: int | None
    metric_before: float | None
    metric: float | None
    bound: str
    node: str | None
    tensor: str | None
    finding: str | None

    @property
    def is_bad(self) -> bool:
        """Whether the stage breaks its bound."""
        return self.node is not None


@dataclass(frozen=True)
class Bisection:
    """All pairs, in order."""

    pairs: tuple[PairReport, ...]

    @property
    def first_bad(self) -> PairReport | None:
        """The first stage that breaks its bound; None where none does."""
        return next((pair for pair in self.pairs if pair.is_bad), None)


@dataclass(frozen=True)
class _Finding:
    """The first node that breaks a bound."""

    node: str
    tensor: str
    text: str


@dataclass(frozen=True)
class _Comparison:
    """What a pair of stages gave.

    Attributes:
        model: of the stage under test, or of the one that was run in its place.
        expected, actual: outputs of the network, in their order.
        tensors_before, tensors: values to compare by name, as far as both stages have them.
        bound: in words.
        finding: against it.
        lsb: see :class:`PairReport`.
    """

    model: ir.Model
    expected: Sequence[Array]
    actual: Sequence[Array]
    tensors_before: Tensors
    tensors: Tensors
    bound: str
    finding: _Finding | None
    lsb: int | None = None


def bisect(material: Material) -> Bisection:
    """Compare the stages that are given, each with the nearest one before it.

    Raises:
        ModelError: a stage cannot be run, or a quantised stage is given without its calibrated one and march.
        InferenceError: an input is missing, or dumps do not fit the outputs.
    """
    given = {*material.stages, *([StageName.DUMPS] if material.dumps is not None else [])}
    order = [stage for stage in StageName if stage in given]
    pairs = []
    for place, after in enumerate(order[1:], 1):
        before = order[place - 1]
        if after is StageName.FOREIGN and StageName.QUANTIZED in given:
            before = StageName.QUANTIZED
        bounds = material.bounds.get(after, Bounds()).with_floors(after)
        found = _compare(before, after, material, bounds)
        task = material.task
        if task is not None and after is StageName.DUMPS:  # of the first samples only
            task = task.first(len(found.actual[0]) // shape_of(found.model.graph.outputs[0])[0])
        pairs.append(_report(before, after, found, bounds, task))
    return Bisection(tuple(pairs))


def _compare(before: StageName, after: StageName, material: Material, bounds: Bounds) -> _Comparison:
    stages, feed = material.stages, material.feed
    if after is StageName.DUMPS:
        return _compare_dumps(stages[before], material.dumps or {}, feed, bounds)
    first, second = stages[before], stages[after]
    if after not in FLOAT_STAGES and before not in FLOAT_STAGES:
        return _compare_integers(first, second, feed, bounds)
    if after not in FLOAT_STAGES:
        march = first.metadata_props.get(MARK_MARCH) or second.metadata_props.get(MARK_MARCH)
        if march is None or before is not StageName.CALIBRATED:
            raise ModelError(f"{after} needs the calibrated stage, with its march in the metadata {MARK_MARCH!r}")
        return _compare_quantized(first, second, march, feed, bounds)
    if after is StageName.CALIBRATED:
        return _compare_calibrated(first, second, feed, bounds)
    source_feed = material.source_feed if before is StageName.SOURCE else None
    return _compare_floats(first, second, source_feed, feed, bounds)


def _compare_floats(
    first: ir.Model, second: ir.Model, source_feed: Feed | None, feed: Feed, bounds: Bounds
) -> _Comparison:
    if source_feed is not None:
        source_feed = with_colours_of(second, source_feed)
    expected, actual = float_tensors(first, feed if source_feed is None else source_feed), float_tensors(second, feed)
    differs = float_difference(bounds.relative)
    finding = None if source_feed is None else _preprocessing(second, source_feed, actual, differs)
    finding = finding or _first_different(second, with_rearranged(second, expected, actual), actual, differs)
    wanted = _ends(first, expected)
    ends = wanted, _ends(second, actual)[: len(wanted)]  # layer_out_dump adds outputs behind the network's own
    bound = f"tensors of the same name differ by at most {bounds.relative:g} of their largest magnitude"
    return _Comparison(second, *ends, expected, actual, bound, finding or _at_ends(second, *ends, differs))


def _compare_calibrated(optimized: ir.Model, calibrated: ir.Model, feed: Feed, bounds: Bounds) -> _Comparison:
    plain = calibrated.clone()
    switch(plain, FLOAT)
    expected, passed = float_tensors(optimized, feed), float_tensors(plain, feed)
    finding = _first_different(plain, expected, passed, float_difference(bounds.relative))
    if finding is None:
        for loss in threshold_losses(calibrated, {**feed, **passed}):
            if loss.decibel > bounds.threshold:
                text = f"threshold {loss.threshold:.4g}: {loss.decibel:.1f} dB noisier than the best, {loss.best:.4g}"
                finding = _Finding(loss.node, loss.tensor, text)
                break
    actual = float_tensors(calibrated, feed)
    bound = (
        f"no threshold {bounds.threshold:g} dB noisier than the best; the calibrated model equals the float model there"
    )
    ends = _ends(optimized, expected), _ends(calibrated, actual)
    return _Comparison(calibrated, *ends, expected, actual, bound, finding)


def _compare_quantized(
    calibrated: ir.Model, quantized: ir.Model, march: str, feed: Feed, bounds: Bounds
) -> _Comparison:
    """The integers with those of the lowering; the outputs with those of the calibrated model, if they are floats."""
    integers = _compare_integers(quantize(calibrated, march), quantized, feed, bounds)
    finding, bound = integers.finding, f"{integers.bound}, as the lowering defines it"
    if bounds.requantisation is not None:
        bound += f"; no node further than {bounds.requantisation:g} units from its float node"
        finding = finding or _requantisation(calibrated, quantized, feed, bounds.requantisation)
    expected = float_tensors(calibrated, feed)
    values = integer_values(calibrated, quantized, integers.tensors)
    is_float = all(value.dtype == ir.DataType.FLOAT for value in (*calibrated.graph.outputs, *quantized.graph.outputs))
    return _Comparison(
        calibrated if is_float else quantized,
        _ends(calibrated, expected) if is_float else integers.expected,
        integers.actual,
        expected if is_float else integers.tensors_before,
        {**values, **_named(calibrated, integers.actual)} if is_float else integers.tensors,
        bound,
        finding,
        integers.lsb,
    )


def _compare_integers(first: ir.Model, second: ir.Model, feed: Feed, bounds: Bounds) -> _Comparison:
    expected = integer_tensors(first, feed)
    # The second one may lack the nodes at the inputs: it then takes what the first one computes there.
    actual = integer_tensors(second, {**feed, **expected})
    # It may lack nodes at the outputs too: its outputs are then tensors inside the first one.
    has_all = all(str(value.name) in expected for value in second.graph.outputs)
    wanted = _ends(second if has_all else first, expected)
    return _same_integers(second, wanted, _ends(second, actual), expected, actual, bounds)


def _compare_dumps(model: ir.Model, dumps: Tensors, feed: Feed, bounds: Bounds) -> _Comparison:
    """What the board computed with what the simulator computes of the same file, for as many samples as were dumped."""
    outputs = [str(value.name) for value in model.graph.outputs]
    missing = [name for name in outputs if name not in dumps]
    if missing:
        raise ModelError(f"no dumps of the outputs {missing}; run with --enable_dump")
    every = integer_tensors(model, feed)
    expected = {name: every[name][: len(array)] for name, array in dumps.items() if name in every}
    ends = [expected[name] for name in outputs], [dumps[name] for name in outputs]
    return _same_integers(model, *ends, expected, dumps, bounds)


def _same_integers(
    model: ir.Model,
    first_ends: Sequence[Array],
    second_ends: Sequence[Array],
    expected: Tensors,
    actual: Tensors,
    bounds: Bounds,
) -> _Comparison:
    differs = integer_difference(bounds.lsb)
    finding = _first_different(model, expected, actual, differs) or _at_ends(model, first_ends, second_ends, differs)
    units = [
        int(np.abs(actual[name].astype(np.int64) - expected[name].astype(np.int64)).max(initial=0))
        for name in actual
        if name in expected and are_integers(actual[name], expected[name])
    ]
    bound = "every integer is the same" if not bounds.lsb else f"integers differ by at most {bounds.lsb:g} units"
    return _Comparison(model, first_ends, second_ends, expected, actual, bound, finding, max(units, default=0))


def _requantisation(calibrated: ir.Model, quantized: ir.Model, feed: Feed, limit: float) -> _Finding | None:
    """The first node whose integers are further than ``limit`` units from the nearest ones of its float node."""
    for error in integer_errors(calibrated, quantized, feed):
        furthest = float(np.abs(error.parts["requantisation"] / error.units).max(initial=0.0))
        if furthest > limit:
            return _Finding(error.node, error.tensor, f"requantisation is off by up to {furthest:.4g} units")
    return None


def _report(
    before: StageName, after: StageName, found: _Comparison, bounds: Bounds, task: TaskMetric | None
) -> PairReport:
    wanted, actual = _flat(found.expected), _flat(found.actual)
    if wanted.size != actual.size:
        raise ModelError(f"{after}: its outputs have {actual.size} values, those of {before} {wanted.size}")
    figures = {name: figure(actual, wanted) for name, figure in _FIGURES.items()}
    metrics = (None, None) if task is None else (task.of(found.expected), task.of(found.actual))
    broken = [text for name, value in figures.items() if (text := _broken(name, value, bounds))]
    broken += _without_information(found, bounds)
    if metrics[0] is not None and metrics[1] is not None and bounds.metric is not None:
        fall = metrics[0] - metrics[1]
        broken += [f"metric falls by {fall:.4g}, allowed is {bounds.metric:g}"] if fall > bounds.metric else []
    finding = found.finding or (_blame(found, broken, bounds, figures["sqnr"]) if broken else None)
    return PairReport(
        before=before,
        after=after,
        **figures,
        lsb=found.lsb,
        metric_before=metrics[0],
        metric=metrics[1],
        bound="; ".join([found.bound, *_in_words(bounds)]),
        node=finding.node if finding else None,
        tensor=finding.tensor if finding else None,
        finding=finding.text if finding else None,
    )


_FIGURES: Mapping[str, Callable[[Array, Array], float]] = MappingProxyType(
    {
        "max_abs": partial(measure, DistanceMeasure.CHEBYSHEV),
        "sqnr": partial(measure, DistanceMeasure.SQNR),
        "cosine": partial(measure, DistanceMeasure.COSINE),
    }
)
"""Figures of the outputs, under the names of their bounds."""


_WORDS: Mapping[str, str] = MappingProxyType(
    {"metric": "fall of the metric", "saturated": "saturated share", "dead": "dead share"}
)


def _broken(name: str, value: float, bounds: Bounds) -> str:
    """How ``value`` breaks the bound ``name``; empty where it keeps it, or there is none."""
    limit: float | None = getattr(bounds, name)
    if limit is None or (value <= limit if name == "max_abs" else value >= limit):
        return ""
    return f"{name} is {value:.4g}, allowed is {limit:g}"


def _without_information(found: _Comparison, bounds: Bounds) -> list[str]:
    """How the outputs break the bounds on shares of saturated and dead values."""
    said = []
    for index, (wanted, actual) in enumerate(zip(found.expected, found.actual, strict=False)):
        if (bounds.saturated is None and bounds.dead is None) or wanted.shape != actual.shape:
            continue
        meter = HealthMeter()
        meter.add(actual, wanted)
        dead, lost = meter.dead()
        if bounds.saturated is not None and meter.saturated > bounds.saturated:
            said.append(
                f"{meter.saturated:.1%} of output {index} lie beyond its range, allowed is {bounds.saturated:g}"
            )
        if bounds.dead is not None and dead > bounds.dead:
            said.append(f"output {index}: {lost}, allowed is a share of {bounds.dead:g}")
    return said


def _in_words(bounds: Bounds) -> Iterator[str]:
    for name in (*_FIGURES, "metric", "saturated", "dead"):
        limit = getattr(bounds, name)
        if limit is not None:
            yield f"{_WORDS.get(name, name)} of the outputs: {limit:g}"


def _blame(found: _Comparison, broken: Sequence[str], bounds: Bounds, sqnr: float) -> _Finding:
    """The node to name where the outputs break a bound.

    It is the first one whose result breaks it as well, or has no better SQNR than the outputs: from there on the error
    does not grow. Where none is known, it is the one that computes the output.
    """
    text = "outputs: " + ", ".join(broken)
    for node, name in _results(found.model):
        if name not in found.tensors_before or name not in found.tensors:
            continue
        wanted, actual = _flat([found.tensors_before[name]]), _flat([found.tensors[name]])
        if wanted.size != actual.size:
            continue
        own = [note for key, figure in _FIGURES.items() if (note := _broken(key, figure(actual, wanted), bounds))]
        if own or measure(DistanceMeasure.SQNR, actual, wanted) <= sqnr:
            return _Finding(node, name, f"{text}; here: {', '.join(own) or 'as much noise as in the outputs'}")
    return _Finding(*_end_of(found.model, 0), text)


def _flat(arrays: Sequence[Array]) -> NDArray[np.float64]:
    return np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in arrays])


def _results(model: ir.Model) -> Iterator[tuple[str, str]]:
    """Names of all nodes with each of their results, in graph order."""
    for node in model.graph:
        for value in node.outputs:
            yield str(node.name), str(value.name)


def _ends(model: ir.Model, tensors: Tensors) -> list[Array]:
    return [tensors[str(value.name)] for value in model.graph.outputs]


def _named(model: ir.Model, ends: Sequence[Array]) -> dict[str, Array]:
    return {str(value.name): array for value, array in zip(model.graph.outputs, ends, strict=True)}


def _end_of(model: ir.Model, index: int) -> tuple[str, str]:
    """The node that computes an output, and its name."""
    value = model.graph.outputs[index]
    producer = value.producer()
    return str(producer.name if producer is not None else value.name), str(value.name)


def _first_different(model: ir.Model, expected: Tensors, actual: Tensors, differs: Difference) -> _Finding | None:
    """The first node of ``model`` whose result differs from the tensor of the same name and shape."""
    for node, name in _results(model):
        if name in expected and name in actual and expected[name].shape == actual[name].shape:
            text = differs(actual[name], expected[name])
            if text:
                return _Finding(node, name, text)
    return None


def _at_ends(
    model: ir.Model, expected: Sequence[Array], actual: Sequence[Array], differs: Difference
) -> _Finding | None:
    """The first output that differs, whatever it is called."""
    for index, (wanted, found) in enumerate(zip(expected, actual, strict=False)):
        text = differs(found, wanted)
        if text:
            return _Finding(*_end_of(model, index), f"output {index}: {text}")
    return None


def _preprocessing(original: ir.Model, source_feed: Feed, actual: Tensors, differs: Difference) -> _Finding | None:
    """The first preprocessing node whose result is not what the source model is fed with."""
    specs = {spec.name: spec for spec in saved_inputs(original)}
    for node in original.graph:
        name = str(node.inputs[0].name) if node.inputs and node.inputs[0] is not None else ""
        result = str(node.outputs[0].name)
        if node.op_type == "HzPreprocess" and name in source_feed and name in specs and result in actual:
            text = differs(actual[result], source_feed[name])
            if text:
                channels = _channel_text(actual[result], source_feed[name], specs[name])
                return _Finding(str(node.name), result, f"{text}; {channels}")
    return None


def _channel_text(actual: Array, expected: Array, spec: InputSpec) -> str:
    """What kind of mistake a preprocessing makes: channels in another order, or an offset."""
    if actual.shape != expected.shape or actual.ndim != 4:
        return "shapes differ"
    if are_reversed(actual, expected, spec):
        return "the channels are in reverse order (RGB or BGR)"
    offsets = (actual - expected).mean(axis=(0, 2, 3) if spec.layout_train is Layout.NCHW else (0, 1, 2))
    return f"mean difference per channel {np.round(offsets, 4).tolist()}"
