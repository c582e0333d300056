"""Fit the performance model to measured compilations and tabulate its errors.

Run as ``python -m research.fit CORPUS [--write] [--validate] [--document FILE]``. ``CORPUS`` is a ``latency.jsonl``
file; the default is ``latency/latency.jsonl`` under the folder that ``PTQLAB_REFERENCE`` names. Prints the error table;
``--write`` puts the constants into the march's data file, ``--validate`` adds the errors on rows left out of the fit,
``--document`` puts the tables into a Markdown file.

Two steps per march: the memory sizes are those of a grid that reproduce the measured DDR traffic best; the constants
of :class:`~engine.march.latency.Fitted` minimise a robust loss of ``log(estimated / measured)`` of latencies and, with
less weight, of computing times. No row enters the model by itself: about 20 constants stand against some 170 rows per
march.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from engine.compile.compiler import CompileOptions, memory_of
from engine.compile.cost import LayerTraffic, Traffic, layer_costs, layer_traffic, subgraph_us
from engine.compile.schedule import Schedule
from engine.errors import ConfigError, PtqlabError
from engine.ir import write_atomically
from engine.march.latency import Accuracy, Fitted, Latency, data_file, load_latency, marches
from engine.terms import OptimizeLevel
from research.corpus import Network, Row, network_of_row, read_rows

Floats = NDArray[np.float64]

SHORT_US = 30.0
"""Rows that take less are fitted but not counted: a microsecond is several percent of them."""

FOLDS = 5

_MEMORY_GRID = tuple(
    kilobytes << 10 for kilobytes in (32, 48, 64, 96, 128, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 3072, 4096)
)
_MEMORY_PRIOR_WEIGHT = 0.002
"""Pull of a memory size towards its start per doubling: it decides among sizes that the rows do not tell apart."""
_LOSS_SCALE = 0.05
"""Relative error beyond which a row pulls with constant force."""
_NETWORK_WEIGHT = 4.0
"""Weight of whole networks against single layers and stacks: they stand for many layers."""
_PRIOR_WEIGHT = 0.02
"""Pull of a constant towards its start, so that those which no row determines stay there."""
_MEASURED = {"load_gbps": 1.0, "store_gbps": 1.0, "depthwise_rate": 0.2}
"""The same for constants that were measured by themselves (reference/latency.md)."""
_TOLERANCE = 1e-3
"""Relative gain of a step at which the fit ends: errors change by less than a hundredth of a percent from there on."""
_SHARES = frozenset({"drain_exposed", "drain_apart"})
"""Constants that cannot exceed one."""
_WALK = 10.0
"""Constants stay within this factor of their start."""
_LEAST_COMPUTE_US = 5.0
"""Rows that compute less are too coarse to fit rates to: times are whole microseconds."""

_COMPUTE_WEIGHT = 0.3
"""Weight of an error in computing time relative to one in latency."""

_COMMON = {
    "int16_factor": 2.5,
    "int16_rate": 4,
    "row_ns": 1.6,
    "matrix_us": 1.7,
    "sync_us": 100.0,
    "drain_exposed": 0.5,
    "drain_apart": 0.5,
    "pipeline_power": 1.2,
}
START: Mapping[str, Mapping[str, float]] = {
    "bayes-e": _COMMON
    | {"mac_rate": 2048, "depthwise_rate": 310, "activation_rate": 36, "elementwise_rate": 25, "multiply_rate": 12}
    | {
        "pool_rate": 60,
        "window_rate": 100,
        "resize_rate": 10.5,
        "wide_rate": 9,
        "input_rate": 40,
        "load_gbps": 7.45,
        "store_gbps": 7.7,
    }
    | {"fixed_us": 4, "layer_us": 1.33, "pipeline_bytes": 2e6},
    "bayes": _COMMON
    | {"mac_rate": 9900, "depthwise_rate": 1000, "activation_rate": 150, "elementwise_rate": 80, "multiply_rate": 40}
    | {
        "pool_rate": 190,
        "window_rate": 300,
        "resize_rate": 50,
        "wide_rate": 28,
        "input_rate": 120,
        "load_gbps": 8.85,
        "store_gbps": 9,
    }
    | {"fixed_us": 3.2, "layer_us": 1.06, "pipeline_bytes": 5e6},
    "bernoulli2": _COMMON
    | {"mac_rate": 256, "depthwise_rate": 258, "activation_rate": 40, "elementwise_rate": 20, "multiply_rate": 0.128}
    | {
        "pool_rate": 77,
        "window_rate": 4.5,
        "resize_rate": 10,
        "wide_rate": 0.27,
        "input_rate": 1.5,
        "load_gbps": 9.9,
        "store_gbps": 9,
    }
    | {"fixed_us": 15, "layer_us": 0.54, "pipeline_bytes": 5e6},
}
"""Where the fit of constants starts: figures of reference/latency.md; its result does not depend on what the
data files hold.
"""

MEMORY_START: Mapping[str, Mapping[str, int]] = {
    "bayes-e": {"group_bytes": 1 << 20, "map_bytes": 1 << 20, "unfused_bytes": 1 << 19},
    "bayes": {"group_bytes": 3 << 20, "map_bytes": 3 << 20, "unfused_bytes": 3 << 19},
    "bernoulli2": {"group_bytes": 3 << 18, "map_bytes": 1 << 16, "unfused_bytes": 1 << 17},
}
"""Memory sizes that the traffic of single stacks and the "spills from" of reference/latency.md suggest."""


@dataclass(frozen=True)
class Case:
    """A measured row, the schedule that the compiler would make, and its traffic, which no fitted constant changes."""

    row: Row
    schedule: Schedule
    traffic: Sequence[LayerTraffic]

    @classmethod
    def of(cls, row: Row, schedule: Schedule, latency: Latency) -> Case:
        """The case of a row and its schedule."""
        return cls(row, schedule, layer_traffic(schedule, latency))

    def times_us(self, latency: Latency) -> tuple[float, float]:
        """Estimates of the latency and of the computing time of all layers."""
        costs = layer_costs(self.schedule, latency, self.traffic)
        return subgraph_us(self.schedule, costs, latency.fitted), sum(cost.working_us for cost in costs)

    def latency_us(self, latency: Latency) -> float:
        """The estimate of the latency."""
        return self.times_us(latency)[0]

    def working_us(self, latency: Latency) -> float:
        """The estimate of the computing time of all layers."""
        return self.times_us(latency)[1]

    @property
    def ddr_bytes(self) -> int:
        """The estimate."""
        total = sum((straight + detour for straight, detour in self.traffic), Traffic())
        return total.loaded + total.stored


@dataclass(frozen=True)
class Errors:
    """Relative errors of estimates; 0.1 is 10 percent."""

    latency: Floats
    ddr: Floats

    def summary(self) -> str:
        """Median and 90th percentile of both."""
        return " ".join(f"{np.median(e):7.1%} {np.quantile(e, 0.9):7.1%}" for e in (self.latency, self.ddr))


Networks = Sequence[tuple[Row, Network]]
"""Rows of one core and mode ``latency`` whose networks the reader knows."""


def networks_of(rows: Iterable[Row], latency: Latency) -> Networks:
    """The rows that take part."""
    plain = (row for row in rows if row.core_num == 1 and row.compile_mode == "latency")
    read = ((row, network_of_row(row, latency)) for row in plain)
    return [(row, network) for row, network in read if network is not None]


def cases_of(networks: Networks, latency: Latency) -> list[Case]:
    """The rows with their schedules."""
    memory = {
        level: memory_of(latency, CompileOptions(optimize_level=OptimizeLevel(level)))
        for level in {row.optimize_level for row, _ in networks}
    }
    return [Case.of(row, network.schedule(memory[row.optimize_level]), latency) for row, network in networks]


def fit_memory(networks: Networks, latency: Latency) -> Latency:
    """The memory sizes that reproduce the measured DDR traffic best: those of O2, one where maps share it with weights,
    then that of O1.
    """
    pairs = ((size, size) for size in _MEMORY_GRID) if latency.weights_on_chip else product(_MEMORY_GRID, repeat=2)
    fused = ({"group_bytes": rows, "map_bytes": maps} for rows, maps in pairs)
    unfused = ({"unfused_bytes": size} for size in _MEMORY_GRID)
    return _best_memory(networks, "O1", unfused, _best_memory(networks, "O2", fused, latency))


def _best_memory(networks: Networks, level: str, candidates: Iterable[dict[str, int]], latency: Latency) -> Latency:
    """``latency`` with the sizes of the least mean error of traffic at a level, near their start among equals."""
    chosen = [(row, network) for row, network in networks if row.optimize_level == level]
    start = MEMORY_START[networks[0][0].march]

    def error(sizes: dict[str, int]) -> float:
        cases = cases_of(chosen, latency.model_copy(update=sizes))
        walk = sum(abs(np.log2(size / start[name])) for name, size in sizes.items())
        return float(np.average(ddr_errors(cases).clip(max=1), weights=_weights(cases)) + _MEMORY_PRIOR_WEIGHT * walk)

    return latency.model_copy(update=min(candidates, key=error))


def fit_constants(cases: Sequence[Case], latency: Latency) -> Latency:
    """The constants that minimise the robust log errors of latencies and computing times, from :data:`START`.

    The loss has several minima in how much the engines overlap; the best of three starts counts.
    """
    names = list(Fitted.model_fields)
    start = np.log([START[cases[0].row.march][name] for name in names])
    prior = np.asarray([_MEASURED.get(name, _PRIOR_WEIGHT) for name in names])
    measured = np.asarray([case.row.latency_us for case in cases])
    computing = np.asarray([case.row.compute_us for case in cases])
    timed = computing >= _LEAST_COMPUTE_US
    weights = _weights(cases)

    def with_constants(logarithms: Floats) -> Latency:
        values = dict(zip(names, np.exp(logarithms).tolist(), strict=True))
        return latency.model_copy(update={"fitted": Fitted(**values)})

    def residuals(logarithms: Floats) -> Floats:
        candidate = with_constants(logarithms)
        found = np.asarray([case.times_us(candidate) for case in cases])
        of_latency = weights * np.log(found[:, 0] / measured)
        of_computing = np.log(found[timed, 1] / computing[timed])
        return np.concatenate([of_latency, _COMPUTE_WEIGHT * of_computing, prior * (logarithms - start)])

    walk = np.log(_WALK)
    least = np.array([0.0 if name == "int16_factor" else -np.inf for name in names])
    most = np.array([0.0 if name in _SHARES else np.inf for name in names])
    limits = (np.maximum(start - walk, least), np.minimum(start + walk, most))
    overlap = np.array([name == "pipeline_bytes" for name in names], float)
    found = (
        least_squares(
            residuals, start + overlap * shift, bounds=limits, loss="soft_l1", f_scale=_LOSS_SCALE, ftol=_TOLERANCE
        )
        for shift in (-walk / 2, 0.0, walk / 2)
    )
    return with_constants(min(found, key=lambda result: float(result.cost)).x)


def _weights(cases: Sequence[Case]) -> Floats:
    return np.asarray([_NETWORK_WEIGHT if case.row.kind == "net" else 1.0 for case in cases])


def _computing(cases: Sequence[Case], latency: Latency) -> Floats:
    return np.asarray([case.working_us(latency) for case in cases])


def _latencies(cases: Sequence[Case], latency: Latency) -> Floats:
    return np.asarray([case.latency_us(latency) for case in cases])


def errors_of(cases: Sequence[Case], latency: Latency) -> Errors:
    """Relative errors of all cases."""
    measured = np.asarray([case.row.latency_us for case in cases])
    return Errors(abs(_latencies(cases, latency) / measured - 1), ddr_errors(cases))


def ddr_errors(cases: Sequence[Case]) -> Floats:
    """Relative errors of the traffic of all cases."""
    return np.asarray([abs(case.ddr_bytes / case.row.ddr_bytes - 1) for case in cases])


def rank_correlation(cases: Sequence[Case], latency: Latency) -> float:
    """Spearman's correlation of estimated and measured latencies: whether what is faster is said to be faster."""
    return float(spearmanr(_latencies(cases, latency), [case.row.latency_us for case in cases]).statistic)


def accuracy_of(cases: Sequence[Case], latency: Latency) -> Accuracy:
    """The 90th percentiles of the errors."""
    errors = errors_of(cases, latency)
    return Accuracy(
        latency=round(float(np.quantile(errors.latency, 0.9)), 3), ddr=round(float(np.quantile(errors.ddr, 0.9)), 3)
    )


def cross_validated(networks: Networks, latency: Latency) -> list[tuple[Case, Latency]]:
    """Cases at O2, each with data fitted without it: ``FOLDS`` folds over the specs, memory sizes included."""
    specs = list(dict.fromkeys(_spec_of(row) for row, _ in networks))
    fold_of = {spec: position % FOLDS for position, spec in enumerate(specs)}
    folds = [{spec for spec in specs if fold_of[spec] == fold} for fold in range(FOLDS)]
    return [pair for fold in folds for pair in _left_out(networks, latency, fold)]


def without_each_network(networks: Networks, latency: Latency) -> list[tuple[Case, Latency]]:
    """Whole networks at O2, each with data fitted to all rows but those of that network, whatever its input size."""
    names: dict[str, set[str]] = {}
    for row, _ in networks:
        if row.kind == "net":
            names.setdefault(row.spec["net"], set()).add(_spec_of(row))
    return [pair for specs in names.values() for pair in _left_out(networks, latency, specs)]


def _left_out(networks: Networks, latency: Latency, specs: Collection[str]) -> list[tuple[Case, Latency]]:
    """Cases of ``specs`` at O2 with data fitted to all others."""
    fitted = fit([pair for pair in networks if _spec_of(pair[0]) not in specs], latency)
    unseen = [pair for pair in networks if _spec_of(pair[0]) in specs and pair[0].optimize_level == "O2"]
    return [(case, fitted) for case in cases_of(unseen, fitted)]


def fit(networks: Networks, latency: Latency) -> Latency:
    """Memory sizes, then constants on the rows at O2."""
    sized = fit_memory(networks, latency)
    return fit_constants(_where(cases_of(networks, sized), optimize_level="O2"), sized)


def _spec_of(row: Row) -> str:
    """The part of a row's id that names its network: rows of other levels are no unseen ones."""
    return row.id.partition("|")[0]


def counted(cases: Sequence[Case]) -> list[Case]:
    """Cases that are long enough to judge."""
    return [case for case in cases if case.row.latency_us > SHORT_US]


def report(cases: Sequence[Case], total: int, latency: Latency) -> str:
    """The error table of one march: by kind, by level, whole networks, worst rows."""
    judged = counted(cases)
    at_o2 = [case for case in judged if case.row.optimize_level == "O2"]
    lines = [f"{total} rows, {len(cases)} read, {len(judged)} above {SHORT_US:g} us", _HEADER]
    lines.append(_line("all, O2", at_o2, latency))
    lines += [_line(f"level {level}", _where(judged, optimize_level=level), latency) for level in ("O0", "O1", "O3")]
    groups = dict.fromkeys(case.row.group for case in at_o2)
    lines += [_line(group, _where(at_o2, group=group), latency) for group in groups]
    lines.append(f"Spearman correlation of latencies at O2: {rank_correlation(at_o2, latency):.4f}")
    lines.append(f"computing time of a row: median error {_compute_error(at_o2, latency):.1%}")
    lines.append("networks:")
    lines += [_network_line(case, latency) for case in judged if case.row.kind == "net"]
    worst = sorted(at_o2, key=lambda case: -errors_of([case], latency).latency[0])[:10]
    lines += ["worst ten:", *(_worst_line(case, latency) for case in worst)]
    return "\n".join(lines)


def validation_report(networks: Networks, latency: Latency) -> str:
    """Errors on unseen rows, and of whole networks of which no row was seen."""
    judged = [pair for pair in cross_validated(networks, latency) if pair[0].row.latency_us > SHORT_US]
    each = [errors_of([case], fitted) for case, fitted in judged]
    errors = Errors(np.concatenate([e.latency for e in each]), np.concatenate([e.ddr for e in each]))
    lines = [f"{FOLDS}-fold, O2".ljust(29) + errors.summary(), "networks left out of the fit:"]
    lines += [_network_line(case, fitted) for case, fitted in without_each_network(networks, latency)]
    return "\n".join(lines) + "\n"


def _compute_error(cases: Sequence[Case], latency: Latency) -> float:
    timed = [case for case in cases if case.row.compute_us >= _LEAST_COMPUTE_US]
    measured = np.asarray([case.row.compute_us for case in timed])
    return float(np.median(abs(_computing(timed, latency) / measured - 1)))


_HEADER = f"{'':24} rows {'latency: median':>9} {'p90':>7} {'DDR: median':>7} {'p90':>6}"


def _where(cases: Sequence[Case], **wanted: str) -> list[Case]:
    return [case for case in cases if all(getattr(case.row, key) == value for key, value in wanted.items())]


def _line(label: str, cases: Sequence[Case], latency: Latency) -> str:
    return f"{label:24} {len(cases):4} {errors_of(cases, latency).summary() if cases else '-'}"


def _network_line(case: Case, latency: Latency) -> str:
    row, found, ddr = case.row, case.latency_us(latency), case.ddr_bytes
    return (
        f"  {row.id:44} {row.latency_us:9.1f} us, estimated {found:9.1f} "
        f"({found / row.latency_us - 1:+6.1%}); {row.ddr_bytes:9} bytes ({ddr / row.ddr_bytes - 1:+6.1%})"
    )


def _worst_line(case: Case, latency: Latency) -> str:
    """A row, with its computing time: an error in that is one of a rate, any other is one of overlap or planning."""
    measured, estimated = case.row.compute_us, case.working_us(latency)
    return f"{_network_line(case, latency)}; computing {measured:.0f} us, estimated {estimated:.0f}"


_BEGIN, _END = "<!-- fit: begin -->", "<!-- fit: end -->"


def document(path: Path, reports: Sequence[str]) -> None:
    """Put the error tables between the marks of a Markdown file.

    Raises:
        ConfigError: the file cannot be read or has no marks.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ConfigError(f"{path}: has no lines {_BEGIN!r} and {_END!r} to put the tables between")
    tables = "\n\n".join(f"```text\n{report.strip()}\n```" for report in reports)
    write_atomically(path, f"{before}{_BEGIN}\n{tables}\n{_END}{after}".encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit all marches; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m research.fit", description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", type=Path, help="latency.jsonl")
    parser.add_argument("--write", action="store_true", help="put the fitted constants into the march's data file")
    parser.add_argument("--validate", action="store_true", help="also cross-validate (takes minutes)")
    parser.add_argument("--document", type=Path, help="Markdown file to put the tables into")
    options = parser.parse_args(arguments)
    try:
        reports = _fit_all(read_rows(options.corpus or _default_corpus()), options.write, options.validate)
        if options.document:
            document(options.document, reports)
    except PtqlabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _fit_all(rows: Sequence[Row], write: bool, validate: bool) -> list[str]:
    """Fit every march, print its tables, write its data if wanted; the tables."""
    reports = []
    for march in marches():
        of_march = [row for row in rows if row.march == march]
        networks = networks_of(of_march, load_latency(march))
        latency = fit(networks, load_latency(march))
        cases = cases_of(networks, latency)
        text = f"{march}: {report(cases, len(of_march), latency)}\n"
        if validate:
            text += validation_report(networks, latency)
        sys.stdout.write(f"\n== {text}")
        sys.stdout.flush()
        reports.append(text)
        if write:
            accuracy = accuracy_of(counted(_where(cases, optimize_level="O2")), latency)
            write_atomically(data_file(march), _to_yaml(latency.model_copy(update={"accuracy": accuracy})).encode())
    return reports


def _default_corpus() -> Path:
    folder = os.environ.get("PTQLAB_REFERENCE")
    if not folder:
        raise ConfigError("no corpus given: name a latency.jsonl file or set PTQLAB_REFERENCE")
    return Path(folder) / "latency" / "latency.jsonl"


def _to_yaml(latency: Latency) -> str:
    content = latency.model_dump()
    content["fitted"] = {name: float(f"{value:.4g}") for name, value in content["fitted"].items()}
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)


if __name__ == "__main__":
    sys.exit(main())
