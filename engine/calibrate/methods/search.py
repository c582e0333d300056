"""Methods that try others: ``default`` picks one for the whole model, ``mix`` one per tensor.

Source: reference/calibration.md 2.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.data.samples import evenly_spread
from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.methods.methods import CalibrationOptions
from engine.calibrate.methods.scaled import ScaledSession
from engine.calibrate.methods.sensitivity import mean_cosine
from engine.calibrate.methods.thresholds import (
    Thresholds,
    apply_thresholds,
    calibrate,
    only_measured,
    threshold_sources,
    unsigned_of,
)
from engine.calibrate.statistics.statistics import Statistics
from engine.floats.compare import cosine32
from engine.floats.float_model import FloatSession
from engine.floats.switched import SwitchedModel, SwitchedSample
from engine.graph.scales import scale_source
from engine.ir import Calibration, calibration_nodes, read_calibration, to_bytes
from engine.rulebook.integers import DEFAULT_FIRST_SAMPLE, imitates
from engine.terms import CalibrationType

Arrays = Mapping[str, NDArray[Any]]

logger = logging.getLogger(__name__)

PERCENTILE = 0.99995
"""The ``max_percentile`` that searches try, besides 1.0."""

MAX_SAMPLES = 32
"""Samples, evenly spread, on which the search for one method compares the candidates."""

BLOCK = 8
"""Samples after which, each time that as many are to come, the worse half of the candidates goes; two always stay."""

ENTRY = 2 * BLOCK
"""Samples after which the best candidate enters per channel as well."""

SIMILAR = 0.995
"""Similarity of the outputs from which on ``default`` takes a method per tensor: the original's log states it."""

SENSITIVE = 0.999
"""Similarity from which on ``mix`` looks for no better method for a tensor: likewise."""


@dataclass(frozen=True)
class Subject:
    """What a search works on.

    Attributes:
        optimized: float model.
        placed: model with ``HzCalibration`` nodes without thresholds.
        statistics: of its tensors, for all candidates.
        data: calibration data.
        threads: CPU threads; None for all.
    """

    optimized: ir.Model
    placed: ir.Model
    statistics: Statistics
    data: CalibrationData
    threads: int | None = None

    @cached_property
    def similarities(self) -> dict[str, float]:
        """What was found of this model with these statistics so far, by digest of a sample and what was tried on it."""
        digest, kept = _digest(to_bytes(self.placed)), self.statistics.similarities
        found = kept.get(digest, {})
        kept.clear()
        kept[digest] = found
        return found


class Search(ABC):
    """One way to choose among methods; stateless."""

    log_name: str
    about_per_channel: str

    @abstractmethod
    def candidates(self, options: CalibrationOptions) -> tuple[CalibrationOptions, ...]:
        """The methods to try; of equally good ones the first is taken."""

    @abstractmethod
    def run(self, subject: Subject, options: CalibrationOptions) -> ir.Model:
        """The calibrated model; what was chosen goes to the log."""


class ModelwiseSearch(Search):
    """``default``: the method whose outputs are most similar to the float ones.

    As in the original (rule ``method.default-first-sample``) the first sample decides between methods per tensor,
    unless ``compatibility`` is ``clean``: a mean over samples is the steadier estimate on other data. A method
    that reaches :data:`SIMILAR` there is taken. Below, asymmetric forms compete too (``centernet``; provisional), and
    the mean decides whether the best goes per channel, for which the original has no rule that is known.
    ``per_channel`` is searched, so it need not be set.
    """

    log_name = "modelwise search"
    about_per_channel = "it tries both"

    def candidates(self, options: CalibrationOptions) -> tuple[CalibrationOptions, ...]:
        """``kl``, ``max`` and the percentile, per tensor and per channel."""
        methods = _in_turn(options)
        return tuple(
            method.model_copy(update={"per_channel": flag})
            for method, flag in itertools.product(methods, (False, True))
        )

    def run(self, subject: Subject, options: CalibrationOptions) -> ir.Model:
        """See :meth:`Search.run`."""
        first = imitates(DEFAULT_FIRST_SAMPLE, options.compatibility)
        field = _race(subject, _in_turn(options), first)
        best = min(field, key=lambda candidate: field[candidate].loss)
        for candidate, runner in field.items():
            logger.debug("Mean cosine similarity of %s: %.6f", candidate.log_name, 1 - runner.loss)
        logger.info("Select %s method.", best.log_name)
        if best.per_channel:
            logger.info("Perchannel quantization is enabled.")
        if best.asymmetric:
            logger.info("Asymmetric quantization is enabled.")
        return field[best].calibrated()


@dataclass(frozen=True)
class _Block:
    """Some samples.

    Attributes:
        samples: arrays by input name.
        float_session: gives the session of the float model.
    """

    samples: tuple[Arrays, ...]
    float_session: Callable[[], FloatSession]

    @cached_property
    def digests(self) -> list[str]:
        """One digest per sample."""
        return [_digest_of_sample(sample) for sample in self.samples]

    @cached_property
    def feed(self) -> Arrays:
        """All samples, by input name."""
        return {name: np.concatenate([sample[name] for sample in self.samples]) for name in self.samples[0]}

    @cached_property
    def expected(self) -> list[Arrays]:
        """The float model's outputs for every sample."""
        return _split(self.float_session().run(self.feed), len(self.samples))


class _Runner:
    """A candidate in :func:`_race`; what another setting found of the same one is not computed again.

    Args:
        known: :attr:`Subject.similarities`.
        identity: gives what tells its model from others of the subject.
        calibrated: gives its model.
        forward: the outputs of its model for a feed and its number of samples.

    Attributes:
        calibrated: as given.
        losses: one less the cosine similarity to the float outputs, per sample so far.
    """

    def __init__(
        self,
        known: dict[str, float],
        identity: Callable[[], str],
        calibrated: Callable[[], ir.Model],
        forward: Callable[[Arrays, int], Arrays],
    ) -> None:
        self.calibrated = calibrated
        self.losses = np.empty(0)
        self._known = known
        self._identity = identity
        self._forward = forward

    @property
    def loss(self) -> float:
        """Mean over the samples so far."""
        return float(self.losses.mean())

    def run(self, block: _Block) -> None:
        """Take in more samples."""
        keys = [_digest(f"{self._identity()} {digest}".encode()) for digest in block.digests]
        if not self._known.keys() >= set(keys):
            found = _split(self._forward(block.feed, len(block.samples)), len(block.samples))
            self._known.update(zip(keys, map(_similarity, found, block.expected), strict=True))
        self.losses = np.append(self.losses, [1 - self._known[key] for key in keys])


def _race(
    subject: Subject, candidates: Sequence[CalibrationOptions], by_first: bool
) -> dict[CalibrationOptions, _Runner]:
    """What successive halving leaves of ``candidates``, which are per tensor and give tensors the same types.

    The best so far then enters per channel as well, where that makes a difference; it catches up on the others.

    Args:
        subject: what the search works on.
        candidates: per tensor.
        by_first: the first sample leaves one of them.
    """
    with ThreadPoolExecutor(subject.threads) as pool:
        thresholds = [pool.submit(subject.statistics.thresholds, candidate) for candidate in candidates]
        expected = cache(partial(FloatSession, subject.optimized, threads=subject.threads))
        found = dict(zip(candidates, (pending.result for pending in thresholds), strict=True))
        field = _per_tensor(subject, found)
        if by_first:
            field = _best_on_first(subject, field, expected)
            if next(iter(field.values())).loss <= 1 - SIMILAR:
                return field
            field |= _per_tensor(subject, _asymmetric(subject, found))
            field = _best_on_first(subject, field, expected)
            if not _differs_per_channel(subject):  # nothing is left to compare it with
                return field
        return _halve(subject, field, expected)


def _differs_per_channel(subject: Subject) -> bool:
    return any(tensor.equalized for tensor in subject.statistics.tensors.values())


def _best_on_first(
    subject: Subject, field: Mapping[CalibrationOptions, _Runner], expected: Callable[[], FloatSession]
) -> dict[CalibrationOptions, _Runner]:
    """The candidate that is best on the first sample; ``expected``: as for _halve."""
    block = _read(subject, [0], expected)
    for candidate, runner in field.items():
        if not runner.losses.size:
            runner.run(block)
        logger.debug("Cosine similarity of %s on the first sample: %.6f", candidate.log_name, 1 - runner.loss)
    best = min(field, key=lambda candidate: field[candidate].loss)
    return {best: field[best]}


def _halve(
    subject: Subject, field: dict[CalibrationOptions, _Runner], expected: Callable[[], FloatSession]
) -> dict[CalibrationOptions, _Runner]:
    """What is left of ``field``, which begins anew; ``expected`` gives the float session."""
    for runner in field.values():
        runner.losses = np.empty(0)
    indices = _spread_out(len(subject.data), MAX_SAMPLES)
    entry = min(ENTRY, len(indices)) if _differs_per_channel(subject) else 0
    blocks: list[_Block] = []
    for start in range(0, len(indices), BLOCK):
        blocks.append(_read(subject, indices[start : start + BLOCK], expected))
        goes_on = start + 2 * BLOCK <= len(indices)
        for runner in field.values():
            runner.run(blocks[-1])
        field = _better_half(field) if goes_on else field
        if start < entry <= start + BLOCK:
            best = min(field, key=lambda candidate: field[candidate].loss).model_copy(update={"per_channel": True})
            runner = _per_channel(subject, best)
            for block in blocks:
                runner.run(block)
            field = _better_half(field | {best: runner}) if goes_on else field | {best: runner}
    return field


def _read(subject: Subject, indices: Sequence[int], expected: Callable[[], FloatSession]) -> _Block:
    return _Block(tuple(subject.data.read(index, index + 1) for index in indices), expected)


_Pending = Mapping[CalibrationOptions, Callable[[], Thresholds]]
"""Thresholds by candidate; they are waited for when it runs: those of ``kl`` take a while."""


def _per_tensor(
    subject: Subject, thresholds: _Pending, measured: ir.Model | None = None
) -> dict[CalibrationOptions, _Runner]:
    """Candidates per tensor, which give tensors the same types.

    Args:
        subject: what the search works on.
        thresholds: of the candidates.
        measured: what is run of it; None for all.
    """
    if not thresholds:
        return {}
    unsigned = unsigned_of(subject.placed, next(iter(thresholds)))
    session = cache(partial(ScaledSession, measured or subject.placed, unsigned, threads=subject.threads))

    def runner(found: Callable[[], Thresholds]) -> _Runner:
        return _Runner(
            subject.similarities,
            cache(lambda: _identity(found(), unsigned, "all" if measured is None else "measured")),
            lambda: apply_thresholds(subject.placed, found(), unsigned=unsigned),
            lambda feed, samples: session().run(feed, samples, found()),
        )

    return {candidate: runner(found) for candidate, found in thresholds.items()}


def _asymmetric(subject: Subject, thresholds: _Pending) -> _Pending:
    """The candidates of ``thresholds`` with unsigned types, as far as that makes a difference."""
    found = {option.model_copy(update={"asymmetric": True}): pending for option, pending in thresholds.items()}
    is_new = not found.keys() & thresholds.keys() and unsigned_of(subject.placed, next(iter(found)))
    return found if is_new else {}


def _per_channel(subject: Subject, candidate: CalibrationOptions) -> _Runner:
    """A candidate whose weights have scales of activations folded in: it needs a session of its own."""
    model = cache(partial(calibrate, subject.placed, subject.statistics, candidate))
    session = cache(lambda: FloatSession(model(), threads=subject.threads))
    unsigned = unsigned_of(subject.placed, candidate)
    return _Runner(
        subject.similarities,
        cache(lambda: _identity(subject.statistics.thresholds(candidate), unsigned, "all")),
        model,
        lambda feed, _: session().run(feed),
    )


def _identity(thresholds: Thresholds, unsigned: Collection[str], part: str) -> str:
    """Digest of what tells a candidate's model from others: per channel it has thresholds of that many.

    ``part`` says what of the model is quantised.
    """
    return _digest(repr([sorted(thresholds.items()), sorted(unsigned), part]).encode())


def _split(arrays: Arrays, samples: int) -> list[Arrays]:
    """``arrays`` sample by sample, for the given number of samples."""
    parts = [np.split(array, samples) for array in arrays.values()]
    return [dict(zip(arrays, values, strict=True)) for values in zip(*parts, strict=True)]


def _better_half(field: Mapping[CalibrationOptions, _Runner]) -> dict[CalibrationOptions, _Runner]:
    """The better half of the candidates, at least two, in the same order."""
    ranked = sorted(field, key=lambda candidate: field[candidate].loss)
    left = ranked[: max(2, len(ranked) // 2)]
    return {candidate: runner for candidate, runner in field.items() if candidate in left}


def _spread_out(total: int, count: int) -> list[int]:
    """Up to ``count`` of ``total`` indices, evenly spread; so are, roughly, the first few of them."""
    indices = evenly_spread(total, count)
    return [index for start in (0, 2, 1, 3) for index in indices[start::4]]


def _similarity(actual: Arrays, expected: Arrays) -> float:
    """Mean cosine over all outputs of a sample, in float32 as the original computes it: outputs that differ by less
    than 1e-7 are equally similar.
    """
    return float(np.mean([cosine32(actual[name], expected[name]) for name in expected]))


class LayerwiseSearch(Search):
    """``mix``: one method, and the best of all for every tensor that it alone makes a difference with.

    The base is the method whose outputs are most similar on the first sample where nothing is quantised but what has a
    threshold of its own (:func:`only_measured`; 62 of 65 networks). A tensor's similarity is that of the model's
    outputs on the last sample where nothing but this tensor is quantised; tensors of less than :data:`SENSITIVE` take
    the method of the largest, the better on the first sample where several are equal. Tensors that are tied, or take
    the largest threshold of several, follow. So are all 114 tensors with a threshold of their own in ``yolov8_decode``
    and ``unet_t3_argmax``. ``per_channel`` has no effect.
    """

    log_name = "layerwise search"
    about_per_channel = "it mixes thresholds per tensor"

    def candidates(self, options: CalibrationOptions) -> tuple[CalibrationOptions, ...]:
        """``kl``, ``max`` and the percentile."""
        return _in_turn(options)

    def run(self, subject: Subject, options: CalibrationOptions) -> ir.Model:
        """See :meth:`Search.run`."""
        base, *others = self._ranked(subject, self.candidates(options))
        trials = _Trials(subject)
        logger.info(
            "Calculate all sensitivity nodes with %s calibration method using cosine-similarity metric.", base.log_name
        )
        found = {base: trials.similarities(base, trials.names)}
        sensitive = [name for name, value in found[base].items() if value < SENSITIVE]
        for other in others:
            logger.info(
                "Calculate top%d sensitivity nodes with %s calibration method using cosine-similarity metric.",
                len(sensitive),
                other.log_name,
            )
            found[other] = trials.similarities(other, sensitive)
        logger.info(
            "Topk is not set by the user, select top-%d nodes with cosine-similarity less than %s to merge multi "
            "calibration methods.",
            len(sensitive),
            SENSITIVE,
        )
        logger.info("Merge_Info(cosine-similarity)")
        chosen = {name: max(found, key=lambda option: found[option][name]) for name in sensitive}
        for name, option in chosen.items():
            logger.info(
                "%s: %s -> %s", name, {key.log_name: f"{found[key][name]:.6f}" for key in found}, option.log_name
            )
        return self._merged(subject, base, chosen)

    def _ranked(self, subject: Subject, candidates: Sequence[CalibrationOptions]) -> list[CalibrationOptions]:
        """``candidates`` from the base on; see the class."""
        expected = cache(partial(FloatSession, subject.optimized, threads=subject.threads))
        pending = {each: partial(subject.statistics.thresholds, each) for each in candidates}
        runners = _per_tensor(subject, pending, only_measured(subject.placed))
        block = _read(subject, [0], expected)
        for runner in runners.values():
            runner.run(block)
        return sorted(runners, key=lambda candidate: runners[candidate].loss)

    def _merged(self, subject: Subject, base: CalibrationOptions, chosen: Mapping[str, CalibrationOptions]) -> ir.Model:
        """The model with the thresholds of ``base``, and of the ``chosen`` methods on these tensors."""
        thresholds = dict(subject.statistics.thresholds(base))
        nodes = calibration_nodes(subject.placed)
        followers = {str(node.name) for node in nodes if scale_source(node).follows}
        sources = threshold_sources(subject.placed)
        for name, option in chosen.items():
            if name not in followers:
                thresholds[sources[name]] = subject.statistics.tensors[sources[name]].thresholds(option)
        return apply_thresholds(subject.placed, thresholds, unsigned=unsigned_of(subject.placed, base))


class _Trials:
    """Tensors quantised alone, on the last sample; what other settings tried already is not tried again.

    Args:
        subject: what the search works on.

    Attributes:
        names: of the ``HzCalibration`` nodes that can be tried.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.names = list(threshold_sources(subject.placed))
        self._last = subject.data.read(len(subject.data) - 1, len(subject.data))
        self._known = subject.similarities

    @cached_property
    def _sample(self) -> SwitchedSample:
        (sample,) = SwitchedModel(self._subject.placed, self.names, threads=self._subject.threads).on(self._last)
        return sample

    def similarities(self, method: CalibrationOptions, names: Sequence[str]) -> dict[str, float]:
        """Similarities of the outputs to the float ones where a single ``HzCalibration`` quantises, by its name.

        Its threshold is that of ``method``."""
        if not names:
            return {}
        nodes = calibration_nodes(calibrate(self._subject.placed, self._subject.statistics, method))
        calibrations = {str(node.name): read_calibration(node) for node in nodes}
        sample = _digest_of_sample(self._last)
        keys = {name: _digest_of_trial(sample, name, calibrations[name]) for name in names}
        missing = [name for name in names if keys[name] not in self._known]
        if missing:
            found = self._sample.cosines([{name: calibrations[name]} for name in missing])
            self._known |= {keys[name]: mean_cosine([cosines]) for name, cosines in zip(missing, found, strict=True)}
        return {name: self._known[keys[name]] for name in names}


def _digest_of_trial(sample: str, name: str, calibration: Calibration) -> str:
    """What tells a tensor quantised alone from others of the same model."""
    kind = f"{sample} {name} {calibration.qtype} {calibration.axis}".encode()
    return _digest(kind, calibration.thresholds, calibration.scales)


def _digest_of_sample(sample: Arrays) -> str:
    return _digest(*(part for name in sorted(sample) for part in (name.encode(), sample[name])))


def _digest(*parts: bytes | NDArray[Any]) -> str:
    """SHA-256 of all parts, hexadecimal."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return found.hexdigest()


SEARCHES: Mapping[str, Search] = MappingProxyType(
    {CalibrationType.DEFAULT: ModelwiseSearch(), CalibrationType.MIX: LayerwiseSearch()}
)


def candidates_of(options: CalibrationOptions) -> tuple[CalibrationOptions, ...]:
    """The methods that statistics must serve for ``options``: what a search tries, or ``options`` and more."""
    search = SEARCHES.get(options.calibration_type)
    if search is not None:
        return search.candidates(options)
    if options.nodewise_methods:
        return (options, *(other for other in _alternatives(options) if other.log_name != options.log_name))
    return (options,)


def _alternatives(options: CalibrationOptions) -> tuple[CalibrationOptions, ...]:
    """Methods that single tensors may take, with the granularity of ``options``."""
    mse = options.model_copy(update={"mse_thresholds": True})
    return (
        mse,
        *(method.model_copy(update={"per_channel": options.per_channel}) for method in _elementary(options)),
    )


def _in_turn(options: CalibrationOptions) -> tuple[CalibrationOptions, ...]:
    """``kl``, ``max`` and the percentile: of equally good ones the original takes the first."""
    *others, least_loss = _elementary(options)
    return (least_loss, *others)


def _elementary(options: CalibrationOptions) -> tuple[CalibrationOptions, ...]:
    """``max``, the percentile and ``kl`` with the flags of ``options``, per tensor."""
    plain = CalibrationOptions(asymmetric=options.asymmetric, compatibility=options.compatibility)
    return (
        plain,
        plain.model_copy(update={"max_percentile": PERCENTILE}),
        plain.model_copy(update={"calibration_type": CalibrationType.KL}),
    )
