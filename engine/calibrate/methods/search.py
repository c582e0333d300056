"""Methods that try others: ``default`` picks one for the whole model, ``mix`` one per tensor.

Source: reference/calibration.md 2.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.data.samples import evenly_spread
from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.methods.measured import only_measured
from engine.calibrate.methods.methods import CalibrationOptions
from engine.calibrate.methods.scaled import ScaledSession
from engine.calibrate.methods.thresholds import (
    Thresholds,
    apply_thresholds,
    calibrate,
    is_weight,
    threshold_sources,
    thresholds_in,
    unsigned_of,
)
from engine.calibrate.statistics.distribution import as_channels
from engine.calibrate.statistics.statistics import Statistics
from engine.floats.border_columns import with_border_columns
from engine.floats.compare import cosine32, cosine_of_sums
from engine.floats.float_model import FloatSession, Kernels
from engine.floats.grouping import group_size
from engine.floats.overflows import with_overflows
from engine.floats.switched import Cosines, SwitchedModel, SwitchedSample
from engine.graph.scales import scale_source, set_scale_source
from engine.ir import Calibration, before_calibration, calibration_nodes, read_calibration, to_bytes
from engine.rulebook.integers import BORDER_COLUMNS, DEFAULT_FIRST_SAMPLE, MISH_OVERFLOW, imitates
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
        border_columns, overflows: see :class:`engine.calibrate.statistics.collection.StatisticsOptions`; here of what
            is compared.
    """

    optimized: ir.Model
    placed: ir.Model
    statistics: Statistics
    data: CalibrationData
    threads: int | None = None
    border_columns: bool = False
    overflows: bool = False

    def imitating(self, options: CalibrationOptions) -> Subject:
        """The same, whose models are compared as the original does, as far as ``options`` want that."""
        columns, overflows = (imitates(rule, options.compatibility) for rule in (BORDER_COLUMNS, MISH_OVERFLOW))
        return replace(self, border_columns=columns, overflows=overflows)

    def as_run(self, model: ir.Model) -> ir.Model:
        """``model`` with averages and Mishes as they are computed where models are compared."""
        model = with_overflows(model) if self.overflows else model
        return with_border_columns(model) if self.border_columns else model

    @cached_property
    def similarities(self) -> dict[str, float]:
        """What was found of this model with these statistics so far, by digest of a sample and what was tried on it."""
        digest = _digest(to_bytes(self.placed), f"{self.border_columns} {self.overflows}".encode())
        kept = self.statistics.similarities
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

    As in the original (rule ``method.default-first-sample``) the first sample decides, unless ``compatibility`` is
    ``clean``: a mean over samples is the steadier estimate on other data. The best method per tensor is taken if it
    reaches :data:`SIMILAR` there. Below, all forms compete: asymmetric, per channel, and both. Those per channel are
    compared with channels multiplied where they are quantised, and with weights as they are per tensor
    (:class:`ScaledSession`); only what is taken has weights that are divided. Of more than :data:`MAX_SAMPLES` samples
    the mean decides whether the best form per tensor goes per channel: so EfficientNet-Lite0 has the original's choice,
    for which no rule is known (provisional). ``per_channel`` is searched, so it need not be set.
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
        subject = subject.imitating(options)
        field = (_on_first_sample if first else _race)(subject, _in_turn(options))
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
        similarity: of the outputs of a sample to the float ones.

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
        similarity: Callable[[Arrays, Arrays], float] | None = None,
    ) -> None:
        self.calibrated = calibrated
        self.losses = np.empty(0)
        self._known = known
        self._identity = identity
        self._forward = forward
        self._similarity = similarity or _similarity

    @property
    def loss(self) -> float:
        """Mean over the samples so far."""
        return float(self.losses.mean())

    def run(self, block: _Block) -> None:
        """Take in more samples."""
        keys = [_digest(f"{self._identity()} {digest}".encode()) for digest in block.digests]
        if not self._known.keys() >= set(keys):
            found = _split(self._forward(block.feed, len(block.samples)), len(block.samples))
            self._known.update(zip(keys, map(self._similarity, found, block.expected), strict=True))
        self.losses = np.append(self.losses, [1 - self._known[key] for key in keys])


def _on_first_sample(subject: Subject, candidates: Sequence[CalibrationOptions]) -> dict[CalibrationOptions, _Runner]:
    """The candidate that the first sample leaves; see :class:`ModelwiseSearch`.

    Args:
        subject: what the search works on.
        candidates: per tensor, signed; of equally good ones the first is taken.
    """
    with ThreadPoolExecutor(subject.threads) as pool:
        found = _pending(subject, candidates, pool)
        block = _read(subject, [0], _float_session(subject))
        field = _best(_per_tensor(subject, found, exact=True), block)
        if next(iter(field.values())).loss <= 1 - SIMILAR:
            return field
        forms = [found, _asymmetric(subject, found)]
        if len(subject.data) > MAX_SAMPLES and _differs_per_channel(subject):
            (best,) = _best(field | _per_tensor(subject, forms[1], exact=True), block)
            left = _per_tensor(subject, {best: {**forms[0], **forms[1]}[best]})
            return _halve(subject, left, _float_session(subject, exact=False))
        for form in forms if _differs_per_channel(subject) else ():
            options = [option.model_copy(update={"per_channel": True}) for option in form]
            forms = [*forms, _per_channel_after_first(subject, _pending(subject, options, pool))]
        # Of equally good forms of the percentile and the maximum the original takes the percentile there.
        for form in forms[1:]:
            in_turn = sorted(form, key=lambda option: option.max_percentile)
            field |= _per_tensor(subject, {option: form[option] for option in in_turn}, exact=True)
        return _best(field, block)


def _race(subject: Subject, candidates: Sequence[CalibrationOptions]) -> dict[CalibrationOptions, _Runner]:
    """What successive halving leaves of ``candidates``, which are per tensor and give tensors the same types.

    The best so far then enters per channel as well, where that makes a difference; it catches up on the others.

    Args:
        subject: what the search works on.
        candidates: per tensor.
    """
    with ThreadPoolExecutor(subject.threads) as pool:
        field = _per_tensor(subject, _pending(subject, candidates, pool))
        return _halve(subject, field, _float_session(subject, exact=False))


def _pending(subject: Subject, candidates: Sequence[CalibrationOptions], pool: ThreadPoolExecutor) -> _Pending:
    """The thresholds of ``candidates``, being computed."""
    given = partial(thresholds_in, subject.placed, subject.statistics)
    thresholds = [pool.submit(given, candidate) for candidate in candidates]
    return dict(zip(candidates, (each.result for each in thresholds), strict=True))


def _per_channel_after_first(subject: Subject, found: _Pending) -> _Pending:
    """``found`` per channel as the original has it in this search: where samples run one by one, the largest values of
    tensors with several thresholds are those of the first sample, or the percentile's where that is larger
    (38 tensors of eight networks; what ``kl`` takes there is not known).
    """
    of_percentile = next((values for option, values in found.items() if option.max_percentile < 1), None)
    largest = next((option for option in found if option.log_name.startswith("max:")), None)
    if of_percentile is None or largest is None or group_size(subject.optimized) > 1:
        return found

    @cache
    def limited() -> Thresholds:
        own, least = found[largest](), of_percentile()
        first = _largest_of_first(subject, _with_several(own))
        return {name: max(least[name], first[name], key=max) if name in first else own[name] for name in own}

    return {**found, largest: limited}


def _float_session(subject: Subject, *, exact: bool = True) -> Callable[[], FloatSession]:
    """Gives the session of the float model; ``exact``: in the order of sums of the original."""
    kernels = Kernels.PLAIN if exact else Kernels.FAST
    return cache(lambda: FloatSession(subject.as_run(subject.optimized), kernels=kernels, threads=subject.threads))


def _differs_per_channel(subject: Subject) -> bool:
    return any(tensor.equalized for tensor in subject.statistics.tensors.values())


def _best(field: Mapping[CalibrationOptions, _Runner], block: _Block) -> dict[CalibrationOptions, _Runner]:
    """The candidate that is best on the sample of ``block``."""
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
    subject: Subject, thresholds: _Pending, measured: ir.Model | None = None, *, exact: bool = False
) -> dict[CalibrationOptions, _Runner]:
    """Candidates that give tensors the same types, run with one threshold per tensor.

    Args:
        subject: what the search works on.
        thresholds: of the candidates. Where they are per channel, the tensor's channels are multiplied so that the
            largest threshold holds for all.
        measured: what is run of it; None for all.
        exact: sums are in the order of the original.
    """
    if not thresholds:
        return {}
    first = next(iter(thresholds))
    unsigned = unsigned_of(subject.placed, first)
    kernels = Kernels.PLAIN if exact else Kernels.FAST
    session = cache(
        lambda: ScaledSession(
            subject.as_run(measured or subject.placed),
            unsigned,
            factors=_factors(subject, _with_several(thresholds[first]())),
            kernels=kernels,
            threads=subject.threads,
        )
    )
    part = ("all" if measured is None else "measured") + (" multiplied" if first.per_channel else "") + f" {kernels}"

    def runner(option: CalibrationOptions, found: Callable[[], Thresholds]) -> _Runner:
        return _Runner(
            subject.similarities,
            cache(lambda: _identity(found(), unsigned, part)),
            lambda: apply_thresholds(subject.placed, found(), unsigned=unsigned),
            lambda feed, samples: session().run(
                feed, samples, {name: (max(values),) for name, values in found().items()}
            ),
            _similarity if measured is None else _similarity_of_sums,
        )

    return {candidate: runner(candidate, found) for candidate, found in thresholds.items()}


def _with_several(thresholds: Thresholds) -> list[str]:
    """The names of the tensors with several ``thresholds``."""
    return [name for name, values in thresholds.items() if len(values) > 1]


def _factors(subject: Subject, names: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """What the channels of tensors are multiplied by, by name, where they have factors."""
    factors = {name: subject.statistics.tensors[name].factors for name in names}
    return {name: values for name, values in factors.items() if values is not None}


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
        cache(lambda: _identity(thresholds_in(subject.placed, subject.statistics, candidate), unsigned, "all")),
        model,
        lambda feed, _: session().run(feed),
    )


def _identity(thresholds: Thresholds, unsigned: Collection[str], part: str) -> str:
    """Digest of what tells a candidate's model from others: per channel it has thresholds of that many.

    ``part`` says what of the model is quantised.
    """
    return _digest(repr([sorted(thresholds.items()), sorted(unsigned), part]).encode())


def _largest_of_first(subject: Subject, names: Sequence[str]) -> Thresholds:
    """The thresholds per channel of each tensor if only the first sample's largest values counted."""
    sample, model = subject.data.read(0, 1), subject.as_run(subject.optimized)
    computed = [name for name in names if name not in sample]
    session = partial(FloatSession, model, computed, threads=subject.threads, kernels=Kernels.PLAIN)
    found = {**sample, **(session().run(sample) if computed else {})}
    largest = {}
    for name, factors in _factors(subject, names).items():
        maxima = np.abs(as_channels(found[name])).max(axis=(0, 2)) * factors
        largest[name] = tuple(float(value) for value in maxima.max() / factors)
    return largest


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


def _similarity_of_sums(actual: Arrays, expected: Arrays) -> float:
    """The same by float32 sums of pairs over norms of BLAS, as ``mix`` ranks methods.

    Of two that are 2e-8 or 2e-7 apart it tells the better one, of three that are 1e-11 apart none (``draw_48_24``,
    ``draw_51_49``, ``ties_of_kl``, ``classes_of_pixels`` on two marches; norms of such sums, one root and float64 each
    miss one or more).
    """
    return float(np.mean([cosine_of_sums(actual[name], expected[name]) for name in expected]))


class LayerwiseSearch(Search):
    """``mix``: one method, and the best of all for every tensor that it alone makes a difference with.

    Both steps are taken before tensors take the scales of others (:func:`only_measured`). The base is the method whose
    outputs are most similar on the first sample with nothing but these quantised. A tensor's similarity is that of the
    model's outputs on the last sample where it alone is quantised; tensors of less than :data:`SENSITIVE` take the
    method of the largest, or one with which the outputs are no numbers, the better on the first sample where several
    are equal, and keep that threshold even where they would take another tensor's or one that follows from their
    function's input, unless it is fixed already. The rest follow as with any method. ``per_channel`` has no effect.
    """

    log_name = "layerwise search"
    about_per_channel = "it mixes thresholds per tensor"

    def candidates(self, options: CalibrationOptions) -> tuple[CalibrationOptions, ...]:
        """``max``, the percentile and ``kl``: of equally good ones the first is the base."""
        return _elementary(options)

    def run(self, subject: Subject, options: CalibrationOptions) -> ir.Model:
        """See :meth:`Search.run`."""
        subject = subject.imitating(options)
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
        chosen = {name: max(found, key=lambda option: _rank(found[option][name])) for name in sensitive}
        for name, option in chosen.items():
            logger.info(
                "%s: %s -> %s", name, {key.log_name: f"{found[key][name]:.6f}" for key in found}, option.log_name
            )
        return self._merged(subject, base, chosen)

    def _ranked(self, subject: Subject, candidates: Sequence[CalibrationOptions]) -> list[CalibrationOptions]:
        """``candidates`` from the base on; see the class."""
        pending = {each: partial(subject.statistics.thresholds, each) for each in candidates}
        runners = _per_tensor(subject, pending, only_measured(subject.placed), exact=True)
        block = _read(subject, [0], _float_session(subject))
        for runner in runners.values():
            runner.run(block)
        return sorted(runners, key=lambda candidate: runners[candidate].loss)

    def _merged(self, subject: Subject, base: CalibrationOptions, chosen: Mapping[str, CalibrationOptions]) -> ir.Model:
        """The model with the thresholds of ``base``, and of the ``chosen`` methods on these tensors."""
        thresholds = dict(subject.statistics.thresholds(base))
        placed = subject.placed.clone()
        sources = threshold_sources(only_measured(placed))
        taken = {
            str(node.name): node for node in calibration_nodes(placed) if str(node.name) in chosen.keys() & sources
        }
        for name, node in taken.items():
            set_scale_source(node, replace(scale_source(node), of=None, largest=None, fixed=None))
            thresholds[sources[name]] = subject.statistics.tensors[sources[name]].thresholds(chosen[name])
        tensors = {str(before_calibration(node.outputs[0]).name) for node in taken.values()}
        for node in calibration_nodes(placed):
            source = scale_source(node)
            if source.of in tensors:
                set_scale_source(node, replace(source, largest=None, fixed=None))
        return apply_thresholds(placed, thresholds, unsigned=unsigned_of(placed, base))


class _Trials:
    """Tensors quantised alone, on the last sample; what other settings tried already is not tried again.

    Args:
        subject: what the search works on.

    Attributes:
        names: of the ``HzCalibration`` nodes that can be tried.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._placed = only_measured(subject.placed)
        self.names = [str(node.name) for node in calibration_nodes(self._placed) if not is_weight(node)]
        self._last = subject.data.read(len(subject.data) - 1, len(subject.data))
        self._known = subject.similarities

    @cached_property
    def _sample(self) -> SwitchedSample:
        placed = self._subject.as_run(self._subject.placed)
        (sample,) = SwitchedModel(placed, self.names, threads=self._subject.threads).on(self._last)
        return sample

    def similarities(self, method: CalibrationOptions, names: Sequence[str]) -> dict[str, float]:
        """Similarities of the outputs to the float ones where a single ``HzCalibration`` quantises, by its name.

        Its threshold is that of ``method``."""
        if not names:
            return {}
        nodes = calibration_nodes(calibrate(self._placed, self._subject.statistics, method))
        calibrations = {str(node.name): read_calibration(node) for node in nodes}
        sample = _digest_of_sample(self._last)
        keys = {name: _digest_of_trial(sample, name, calibrations[name]) for name in names}
        missing = [name for name in names if keys[name] not in self._known]
        if missing:
            found = self._sample.cosines([{name: calibrations[name]} for name in missing])
            self._known |= {keys[name]: _mean_of_numbers(cosines) for name, cosines in zip(missing, found, strict=True)}
        return {name: self._known[keys[name]] for name in names}


def _rank(similarity: float) -> float:
    """``similarity`` as methods for one tensor are compared by it: one that is no number is the largest (4 of 4)."""
    return np.inf if np.isnan(similarity) else similarity


def _mean_of_numbers(cosines: Cosines) -> float:
    """Mean over the outputs of a sample that have a similarity; not a number where none has.

    An output that a Mish has made no number tells nothing, and without another one no tensor makes a difference: each
    in two networks, with two outputs and with one. Where methods are ranked such a mean is no number itself, so that
    all are equal (six networks).
    """
    known = [value for row in cosines for value in row if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


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
