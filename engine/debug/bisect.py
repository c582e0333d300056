"""Stage by stage through a conversion: the first stage that breaks its bound, and the first node inside it.

Neighbouring stages run on the same inputs. What a stage may change is known:

* source → original: nothing but the preprocessing, so tensors are equal but for float noise;
* original → optimized: nothing, tensors of the same name are equal but for float noise;
* optimized → calibrated: nothing with all calibration switched off; and no threshold may be much worse for these inputs
  than the best one;
* calibrated → quantized: every integer is the one that the lowering of the calibrated model defines;
* quantized → bin, quantized → foreign: every integer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.compare import cosine
from engine.calibrate.forward import FloatSession, Kernels, to_standard
from engine.debug.metrics import Metric, measure
from engine.debug.thresholds import threshold_losses
from engine.debug.variants import FLOAT, dynamic_values, switch
from engine.errors import ModelError
from engine.ir import MARK_MARCH
from engine.quantize import quantize
from engine.simulate import Session
from engine.simulate.tensors import graph_inputs

Array = NDArray[Any]
Feed = Mapping[str, Array]

FLOAT_TOLERANCE = 1e-4
"""Largest difference of two float stages, relative to the largest magnitude of the tensor."""
THRESHOLD_LOSS = 20.0
"""Most dB of noise that a threshold may have above the best one for the inputs: a factor of 10 in the step."""


class StageName(StrEnum):
    """The stages in order."""

    SOURCE = "source"
    ORIGINAL = "original"
    OPTIMIZED = "optimized"
    CALIBRATED = "calibrated"
    QUANTIZED = "quantized"
    BIN = "bin"
    FOREIGN = "foreign"


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


def bisect(stages: Mapping[StageName, ir.Model], feed: Feed, source_feed: Feed | None = None) -> Bisection:
    """Compare the stages that are given, each with the nearest one before it.

    Args:
        stages: models by stage; ``foreign`` is a quantised model of another toolchain.
        feed: what the original_float model takes, float32, samples along the first dimension.
        source_feed: what the source model takes: the user's own preprocessing. None where there are no images.

    Raises:
        ModelError: a stage cannot be run, or a quantised stage is given without its calibrated one and march.
    """
    order = [stage for stage in StageName if stage in stages]
    pairs = []
    for place, after in enumerate(order[1:], 1):
        before = order[place - 1]
        if after is StageName.FOREIGN and StageName.QUANTIZED in stages:
            before = StageName.QUANTIZED
        pairs.append(_compare(before, after, stages, feed, source_feed))
    return Bisection(tuple(pairs))


def _compare(
    before: StageName, after: StageName, stages: Mapping[StageName, ir.Model], feed: Feed, source_feed: Feed | None
) -> PairReport:
    first, second = stages[before], stages[after]
    if after in (StageName.BIN, StageName.FOREIGN) and before in (StageName.QUANTIZED, StageName.BIN):
        return _compare_integers(before, after, first, second, feed, "every integer is the same")
    if after is StageName.QUANTIZED or (after in (StageName.BIN, StageName.FOREIGN)):
        march = first.metadata_props.get(MARK_MARCH) or second.metadata_props.get(MARK_MARCH)
        if march is None or before is not StageName.CALIBRATED:
            raise ModelError(f"{after} needs the calibrated stage, with its march in the metadata {MARK_MARCH!r}")
        lowered = quantize(first, march)
        report = _compare_integers(before, after, lowered, second, feed, "every integer as the lowering defines it")
        return _with_float_ends(report, first, second, feed)
    first_feed = source_feed if before is StageName.SOURCE and source_feed is not None else feed
    if after is StageName.CALIBRATED:
        return _compare_calibrated(before, first, second, feed)
    expected, actual = _float_tensors(first, first_feed), _float_tensors(second, feed)
    finding = _preprocessing(second, first_feed, actual) if before is StageName.SOURCE else None
    finding = finding or _first_different(second, expected, actual, _differs_in_float)
    return _report(before, after, _ends(first, expected), _ends(second, actual), _FLOAT_BOUND, finding)


_FLOAT_BOUND = f"tensors of the same name differ by at most {FLOAT_TOLERANCE:g} of their largest magnitude"


def _compare_calibrated(before: StageName, optimized: ir.Model, calibrated: ir.Model, feed: Feed) -> PairReport:
    plain = calibrated.clone()
    switch(plain, FLOAT)
    expected, passed = _float_tensors(optimized, feed), _float_tensors(plain, feed)
    finding = _first_different(plain, expected, passed, _differs_in_float)
    if finding is None:
        known = {**feed, **passed}
        for loss in threshold_losses(calibrated, known):
            if loss.decibel > THRESHOLD_LOSS:
                text = f"threshold {loss.threshold:.4g}: {loss.decibel:.1f} dB noisier than the best, {loss.best:.4g}"
                finding = _Finding(loss.node, loss.tensor, text)
                break
    names = [str(value.name) for value in calibrated.graph.outputs]
    actual = FloatSession(calibrated, kernels=Kernels.PLAIN, max_batch=1).run(feed)
    bound = f"no threshold {THRESHOLD_LOSS:g} dB noisier than the best; without calibration nothing changes"
    return _report(before, StageName.CALIBRATED, _ends(optimized, expected), [actual[n] for n in names], bound, finding)


def _compare_integers(
    before: StageName, after: StageName, first: ir.Model, second: ir.Model, feed: Feed, bound: str
) -> PairReport:
    expected, actual = integer_tensors(first, feed), integer_tensors(second, feed)
    finding = _first_different(second, expected, actual, lambda a, b: not np.array_equal(a, b, equal_nan=True))
    units = [
        int(np.abs(actual[name].astype(np.int64) - expected[name].astype(np.int64)).max(initial=0))
        for name in actual
        if name in expected and _same_integers(actual[name], expected[name])
    ]
    ends = _ends(first, expected), _ends(second, actual)
    return _report(before, after, *ends, bound, finding, max(units, default=0))


def _with_float_ends(report: PairReport, calibrated: ir.Model, quantized: ir.Model, feed: Feed) -> PairReport:
    """``report`` with the distances of the outputs to those of the calibrated model, where they are floats too."""
    if any(value.dtype != ir.DataType.FLOAT for value in (*calibrated.graph.outputs, *quantized.graph.outputs)):
        return report
    expected = FloatSession(calibrated, kernels=Kernels.PLAIN, max_batch=1).run(feed)
    ends = _report(
        report.before,
        report.after,
        list(expected.values()),
        _ends(quantized, integer_tensors(quantized, feed)),
        report.bound,
        None,
    )
    return replace(report, max_abs=ends.max_abs, sqnr=ends.sqnr, cosine=ends.cosine)


def _same_integers(first: Array, second: Array) -> bool:
    return first.shape == second.shape and all(np.issubdtype(array.dtype, np.integer) for array in (first, second))


def _report(
    before: StageName,
    after: StageName,
    expected: Sequence[Array],
    actual: Sequence[Array],
    bound: str,
    finding: _Finding | None,
    lsb: int | None = None,
) -> PairReport:
    wanted = np.concatenate([array.reshape(-1).astype(np.float64) for array in expected])
    found = np.concatenate([array.reshape(-1).astype(np.float64) for array in actual])
    if wanted.size != found.size:
        raise ModelError(f"{after}: its outputs have {found.size} values, those of {before} {wanted.size}")
    return PairReport(
        before=before,
        after=after,
        max_abs=float(np.abs(found - wanted).max(initial=0.0)),
        sqnr=measure(Metric.SQNR, found, wanted),
        cosine=cosine(found, wanted),
        lsb=lsb,
        bound=bound,
        node=finding.node if finding else None,
        tensor=finding.tensor if finding else None,
        finding=finding.text if finding else None,
    )


def _float_tensors(model: ir.Model, feed: Feed) -> dict[str, Array]:
    """Every float tensor of a float stage that depends on its inputs, by name."""
    standard = to_standard(model)
    dynamic = dynamic_values(standard.graph)
    names = [
        str(value.name)
        for node in model.graph
        for value in node.outputs
        if value.dtype in (None, ir.DataType.FLOAT) and value.name in {v.name for v in dynamic if v is not None}
    ]
    return FloatSession(model, names, kernels=Kernels.PLAIN, threads=1, max_batch=1).run(feed)


def integer_tensors(model: ir.Model, feed: Feed) -> dict[str, Array]:
    """Every tensor of a quantised model that depends on its inputs, by name.

    Args:
        model: quantised; not changed.
        feed: float32 as the original_float model takes it; rounded where the model takes integers.
    """
    probe = model.clone()
    dynamic = dynamic_values(probe.graph)
    kept = {str(value.name) for value in probe.graph.outputs}
    for node in probe.graph:
        for value in node.outputs:
            if value in dynamic and value.name and value.name not in kept and value.shape is not None:
                probe.graph.outputs.append(value)
    rows = {}
    for value in graph_inputs(probe):
        array = feed[str(value.name)]
        kind = np.dtype((value.dtype or ir.DataType.FLOAT).numpy())
        integral = np.issubdtype(kind, np.integer)
        rows[str(value.name)] = as_integers(array, kind) if integral else array.astype(kind)
    return Session(probe, mode="reference").run(rows)


def as_integers(array: Array, kind: np.dtype[Any]) -> Array:
    """``array`` rounded half to even and clipped to an integer type."""
    limits = np.iinfo(kind)
    return np.clip(np.rint(array), limits.min, limits.max).astype(kind)


def _ends(model: ir.Model, tensors: Mapping[str, Array]) -> list[Array]:
    return [tensors[str(value.name)] for value in model.graph.outputs]


def _preprocessing(original: ir.Model, source_feed: Feed, actual: Mapping[str, Array]) -> _Finding | None:
    """The first preprocessing node whose result is not what the source model is fed with."""
    for node in original.graph:
        name = str(node.inputs[0].name) if node.inputs and node.inputs[0] is not None else ""
        result = str(node.outputs[0].name)
        if node.op_type == "HzPreprocess" and name in source_feed and result in actual:
            text = _differs_in_float(actual[result], source_feed[name])
            if text:
                return _Finding(str(node.name), result, f"{text}; {_channel_text(actual[result], source_feed[name])}")
    return None


def _channel_text(actual: Array, expected: Array) -> str:
    """What kind of mistake a preprocessing makes: channels in another order, or an offset."""
    axes = (0, 2, 3)
    if actual.shape != expected.shape or actual.ndim != 4:
        return "shapes differ"
    if actual.shape[1] == 3 and not _differs_in_float(actual[:, ::-1], expected):
        return "the channels are in reverse order (RGB and BGR)"
    offsets = (actual - expected).mean(axis=axes)
    return f"mean difference per channel {np.round(offsets, 4).tolist()}"


def _first_different(
    model: ir.Model, expected: Mapping[str, Array], actual: Mapping[str, Array], differs: Callable[[Array, Array], Any]
) -> _Finding | None:
    """The first node of ``model`` whose result differs from the tensor of the same name and shape."""
    for node in model.graph:
        for value in node.outputs:
            name = str(value.name)
            if name not in expected or name not in actual or expected[name].shape != actual[name].shape:
                continue
            if differs(actual[name], expected[name]):
                error = np.abs(actual[name].astype(np.float64) - expected[name].astype(np.float64))
                wrong = float(np.mean(error > 0))
                text = f"{wrong:.1%} of the values differ, by at most {float(np.nanmax(error)):.4g}"
                return _Finding(str(node.name), name, text)
    return None


def _differs_in_float(actual: Array, expected: Array) -> str | None:
    """How far two float arrays are apart, if that is more than float noise."""
    if actual.shape != expected.shape:
        return f"shape {actual.shape} in place of {expected.shape}"
    error = float(np.abs(actual.astype(np.float64) - expected).max(initial=0.0))
    largest = float(np.abs(expected).max(initial=0.0))
    return f"differs by up to {error:.4g}" if not error <= FLOAT_TOLERANCE * largest + 1e-7 else None
