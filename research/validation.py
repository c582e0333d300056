"""The whole fit, and what it says of rows and networks that it did not see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.chips.latency import Latency, ModelAccuracy
from engine.chips.latency.overhead import Overhead
from engine.terms import OptimizeLevel
from research.cases import Errors, MeasuredCase, Networks, cases_of, counted, errors_of, where
from research.constants import fit_constants, fit_memory
from research.corpus import MeasuredRow
from research.deployed import Deployed
from research.overheads import MeasuredPart, Shown, fit_apart, fit_overheads, latency_us, parts_of, shows, traffic_bytes
from research.ranking import ordered_pairs
from research.rates import fit_rates, start_of
from research.report import network_line

FOLDS = 5
_UNCERTAIN = 0.9
"""Part of the networks left out whose errors the stated uncertainty covers."""


@dataclass(frozen=True)
class Evidence:
    """What the data of one march are fitted to.

    Attributes:
        networks: rows of the corpus.
        deployed: networks in deployed forms that take part in the fit.
        built: rows of the corpus that only the converter reads.
        asked: drawn layers, blocks and networks, of which the original was asked for the latency.
        asked_unfused: drawn networks at O0.
        pace: what a wait takes of one on the first march of the generation.
    """

    networks: Networks
    deployed: Sequence[Deployed] = ()
    built: Sequence[MeasuredPart] = ()
    asked: Sequence[MeasuredPart] = ()
    asked_unfused: Sequence[MeasuredPart] = ()
    pace: float = 1.0


Estimates = Sequence[tuple[Deployed, Latency]]
"""Networks, each with the data that its estimate is made with."""


def _net(network: Deployed) -> str:
    return network.net


def fit(generation: Sequence[Evidence], latencies: Sequence[Latency]) -> list[Latency]:
    """Memory sizes and constants of each march from its rows at O2, overheads of all marches from the networks too.

    Args:
        generation: marches that are alike.
        latencies: of each.
    """
    sized, cases = [], []
    for evidence, latency in zip(generation, latencies, strict=True):
        told = {overhead: value for overhead, value in latency.overheads.items() if value.timed}
        plain = latency.model_copy(update={"overheads": told})
        memory = fit_memory(evidence.networks, plain)
        found = cases_of(evidence.networks, memory)
        sized.append(fit_constants(where(found, optimize_level="O2"), memory))
        cases.append(found)
    return _with_overheads(generation, cases, sized)


def refit_overheads(generation: Sequence[Evidence], latencies: Sequence[Latency]) -> list[Latency]:
    """The second step alone: memory sizes and constants stay as they are in ``latencies``."""
    pairs = zip(generation, latencies, strict=True)
    return _with_overheads(generation, [cases_of(evidence.networks, latency) for evidence, latency in pairs], latencies)


def refit_rates(generation: Sequence[Evidence], latencies: Sequence[Latency]) -> list[Latency]:
    """The constants of :mod:`research.rates` too, of the marches that have a start there; then the second step."""
    started = [
        latency.model_copy(update={"fitted": latency.fitted.model_copy(update=dict(start_of(_march(evidence))))})
        for evidence, latency in zip(generation, latencies, strict=True)
    ]
    fitted = []
    for evidence, latency in zip(generation, refit_overheads(generation, started), strict=True):
        fused = [network for network in evidence.deployed if network.level in {OptimizeLevel.O2, OptimizeLevel.O3}]
        rows = _parts_at("O2", cases_of(evidence.networks, latency))
        parts = [*parts_of(fused), *rows, *evidence.built, *evidence.asked]
        fitted.append(fit_rates(_march(evidence), parts, latency))
    return refit_overheads(generation, fitted)


def _march(evidence: Evidence) -> str:
    return evidence.networks[0][0].march


def _with_overheads(
    generation: Sequence[Evidence], cases: Sequence[Sequence[MeasuredCase]], latencies: Sequence[Latency]
) -> list[Latency]:
    """The second step; ``cases`` are those of the rows of each march."""
    shown = [
        Shown([*_parts_at("O2", rows), *evidence.built, *evidence.asked], evidence.deployed, latency, evidence.pace)
        for evidence, rows, latency in zip(generation, cases, latencies, strict=True)
    ]
    found = _with_waits(generation, cases, fit_overheads(shown))
    passing = [
        [network for network in _at(evidence, OptimizeLevel.O1) if shows(network, Overhead.SINGLE_DDR, latency)]
        for evidence, latency in zip(generation, found, strict=True)
    ]
    parts_passing = [parts_of(networks) for networks in passing]
    return fit_apart(parts_passing, found, Overhead.SINGLE_DDR, [_count(networks) for networks in passing])


def refit_unfused(generation: Sequence[Evidence], latencies: Sequence[Latency]) -> list[Latency]:
    """The wait between layers at O0 alone: all else stays as it is in ``latencies``."""
    pairs = zip(generation, latencies, strict=True)
    return _with_waits(generation, [cases_of(evidence.networks, latency) for evidence, latency in pairs], latencies)


def _with_waits(
    generation: Sequence[Evidence], cases: Sequence[Sequence[MeasuredCase]], latencies: Sequence[Latency]
) -> list[Latency]:
    """``latencies`` with the wait between layers at O0."""
    found = []
    for evidence, rows, fitted in zip(generation, cases, latencies, strict=True):
        if fitted.unfused_computes:  # nothing is waited for between layers
            found.append(fitted)
            continue
        apart = _at(evidence, OptimizeLevel.O0)
        parts = [*parts_of(apart), *_parts_at("O0", counted(rows)), *evidence.asked_unfused]
        found += fit_apart([parts], [fitted], Overhead.UNFUSED, [_count(apart)])
    return found


def _at(evidence: Evidence, *levels: OptimizeLevel) -> list[Deployed]:
    return [network for network in evidence.deployed if network.level in levels]


def _count(networks: Sequence[Deployed]) -> int:
    return len({network.net for network in networks})


def _parts_at(level: str, cases: Sequence[MeasuredCase]) -> list[MeasuredPart]:
    return [MeasuredPart.of_row(case.row.latency_us, case.schedule) for case in where(cases, optimize_level=level)]


def left_out(
    generation: Sequence[Evidence], latencies: Sequence[Latency], group: Callable[[Deployed], str] = _net
) -> Estimates:
    """Each deployed network with overheads fitted without its group, on every march: to other networks, or to other
    families (:func:`family`); the rows of the first step hold none of them.
    """
    cases = [cases_of(evidence.networks, latency) for evidence, latency in zip(generation, latencies, strict=True)]
    found: list[tuple[Deployed, Latency]] = []
    for name in sorted({group(network) for evidence in generation for network in evidence.deployed}):
        others = [
            replace(evidence, deployed=[network for network in evidence.deployed if group(network) != name])
            for evidence in generation
        ]
        for evidence, fitted in zip(generation, _with_overheads(others, cases, latencies), strict=True):
            found += [(network, fitted) for network in evidence.deployed if group(network) == name]
    return found


def family(network: Deployed) -> str:
    """The family of a network, for :func:`left_out`."""
    return network.family


def accuracy_of(estimates: Estimates, unseen: Errors | None = None) -> ModelAccuracy:
    """What nine of ten networks left out of the fit stay within, and nine of ten of those that no fit saw.

    Args:
        estimates: with the data that were fitted without a network or its family; may be none.
        unseen: errors on networks that no fit saw.
    """
    both = ([Errors(*errors_of_networks(estimates))] if estimates else []) + ([] if unseen is None else [unseen])
    return ModelAccuracy(
        latency=round(max(float(np.quantile(errors.latency, _UNCERTAIN)) for errors in both), 3),
        ddr=round(max(float(np.quantile(errors.ddr, _UNCERTAIN)) for errors in both), 3),
    )


def errors_of_networks(estimates: Estimates) -> tuple[np.ndarray, np.ndarray]:
    """Relative errors of latencies and of traffic."""
    latency = [abs(latency_us(network.schedules, data) / network.latency_us - 1) for network, data in estimates]
    traffic = [abs(traffic_bytes(network.schedules, data) / network.ddr_bytes - 1) for network, data in estimates]
    return np.asarray(latency), np.asarray(traffic)


def networks_report(label: str, estimates: Estimates) -> str:
    """One line of the table of networks."""
    if not estimates:
        return f"{label:34} -"
    errors = Errors(*errors_of_networks(estimates))
    names = {network.net for network, _ in estimates}
    return f"{label:34} {len(names):3} {len(estimates):4} {errors.summary()}  pairs {ordering(estimates)}"


def built_text(parts: Sequence[MeasuredPart], latency: Latency) -> str:
    """The errors of rows that only the converter reads."""
    if not parts:
        return ""
    errors = np.asarray([abs(latency_us(part.schedules, latency) / part.measured_us - 1) for part in parts])
    return f"{'other operators, O2':24} {len(parts):4} {np.median(errors):7.1%} {np.quantile(errors, 0.9):7.1%}\n"


def ordering(estimates: Estimates) -> str:
    """How often the faster of two networks of one march and level is estimated to be the faster one."""
    right = total = 0
    for key in {(network.march, network.level) for network, _ in estimates}:
        own = [pair for pair in estimates if (pair[0].march, pair[0].level) == key]
        found = ordered_pairs([(one.latency_us, latency_us(one.schedules, data)) for one, data in own])
        right, total = right + found[0], total + found[1]
    return f"{right / total:.1%} of {total}" if total else "-"


NETWORKS_HEADER = (
    f"{'networks in deployed forms':34} {'net':>3} {'case':>4} {'latency: median':>9} {'p90':>7} DDR: median    p90"
)


def worst_networks(estimates: Estimates, count: int = 10) -> Iterator[str]:
    """The networks whose estimates are farthest off."""
    errors = errors_of_networks(estimates)[0]
    for position in np.argsort(-errors)[:count]:
        network, data = estimates[position]
        found = latency_us(network.schedules, data)
        yield (
            f"  {network.name:28} {network.level.value} {network.latency_us:9.1f} us, estimated {found:9.1f} "
            f"({found / network.latency_us - 1:+6.1%})"
        )


def validation_report(evidence: Evidence, latency: Latency) -> str:
    """Errors on unseen rows, and of whole networks of the corpus of which no row was seen."""
    judged = [pair for pair in cross_validated(evidence, latency) if pair[0] in counted([pair[0]])]
    each = [errors_of([case], fitted) for case, fitted in judged]
    errors = Errors(np.concatenate([e.latency for e in each]), np.concatenate([e.ddr for e in each]))
    lines = [f"{FOLDS}-fold, O2".ljust(29) + errors.summary(), "networks of the corpus left out of the fit:"]
    lines += [network_line(case, fitted) for case, fitted in without_each_network(evidence, latency)]
    return "\n".join(lines) + "\n"


def cross_validated(evidence: Evidence, latency: Latency) -> list[tuple[MeasuredCase, Latency]]:
    """Cases at O2, each with data fitted without it: ``FOLDS`` folds over the specs, memory sizes included."""
    specs = list(dict.fromkeys(_spec_of(row) for row, _ in evidence.networks))
    fold_of = {spec: position % FOLDS for position, spec in enumerate(specs)}
    folds = [{spec for spec in specs if fold_of[spec] == fold} for fold in range(FOLDS)]
    return [pair for fold in folds for pair in _without(evidence, latency, fold)]


def without_each_network(evidence: Evidence, latency: Latency) -> list[tuple[MeasuredCase, Latency]]:
    """Whole networks at O2, each with data fitted to all rows but those of that network, whatever its input size."""
    names: dict[str, set[str]] = {}
    for row, _ in evidence.networks:
        if row.kind == "net":
            names.setdefault(row.spec["net"], set()).add(_spec_of(row))
    return [pair for specs in names.values() for pair in _without(evidence, latency, specs)]


def _without(evidence: Evidence, latency: Latency, specs: Collection[str]) -> list[tuple[MeasuredCase, Latency]]:
    """Cases of ``specs`` at O2 with data fitted to all others."""
    seen = [pair for pair in evidence.networks if _spec_of(pair[0]) not in specs]
    (fitted,) = fit([replace(evidence, networks=seen)], [latency])
    unseen = [pair for pair in evidence.networks if _spec_of(pair[0]) in specs and pair[0].optimize_level == "O2"]
    return [(case, fitted) for case in cases_of(unseen, fitted)]


def _spec_of(row: MeasuredRow) -> str:
    """The part of a row's id that names its network: rows of other levels are no unseen ones."""
    return row.id.partition("|")[0]


def held_out(networks: Iterable[Deployed], latency: Latency) -> Estimates:
    """The networks that no fit saw."""
    return [(network, latency) for network in networks if network.held_out]
