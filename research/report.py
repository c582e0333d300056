"""The error tables of the fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from engine.chips.latency import Latency
from engine.errors import ConfigError
from engine.ir import write_atomically
from research.cases import SHORT_US, Floats, MeasuredCase, counted, errors_of, latencies, where
from research.constants import LEAST_COMPUTE_US


def report(cases: Sequence[MeasuredCase], total: int, latency: Latency) -> str:
    """The error table of one march: by kind, by level, whole networks, worst rows."""
    judged = counted(cases)
    at_o2 = [case for case in judged if case.row.optimize_level == "O2"]
    lines = [f"{total} rows, {len(cases)} read, {len(judged)} above {SHORT_US:g} us", _HEADER]
    lines.append(_line("all, O2", at_o2, latency))
    lines += [_line(f"level {level}", where(judged, optimize_level=level), latency) for level in ("O0", "O1", "O3")]
    groups = dict.fromkeys(case.row.group for case in at_o2)
    lines += [_line(group, where(at_o2, group=group), latency) for group in groups]
    lines.append(f"Spearman correlation of latencies at O2: {rank_correlation(at_o2, latency):.4f}")
    lines.append(f"computing time of a row: median error {_compute_error(at_o2, latency):.1%}")
    lines.append("networks:")
    lines += [network_line(case, latency) for case in judged if case.row.kind == "net"]
    worst = sorted(at_o2, key=lambda case: -errors_of([case], latency).latency[0])[:10]
    lines += ["worst ten:", *(_worst_line(case, latency) for case in worst)]
    return "\n".join(lines)


def rank_correlation(cases: Sequence[MeasuredCase], latency: Latency) -> float:
    """Spearman's correlation of estimated and measured latencies: whether what is faster is said to be faster."""
    return float(spearmanr(latencies(cases, latency), [case.row.latency_us for case in cases]).statistic)


def _computing(cases: Sequence[MeasuredCase], latency: Latency) -> Floats:
    return np.asarray([case.working_us(latency) for case in cases])


def _compute_error(cases: Sequence[MeasuredCase], latency: Latency) -> float:
    timed = [case for case in cases if case.row.compute_us >= LEAST_COMPUTE_US]
    measured = np.asarray([case.row.compute_us for case in timed])
    return float(np.median(abs(_computing(timed, latency) / measured - 1)))


_HEADER = f"{'':24} rows {'latency: median':>9} {'p90':>7} {'DDR: median':>7} {'p90':>6}"


def _line(label: str, cases: Sequence[MeasuredCase], latency: Latency) -> str:
    return f"{label:24} {len(cases):4} {errors_of(cases, latency).summary() if cases else '-'}"


def network_line(case: MeasuredCase, latency: Latency) -> str:
    row, found, ddr = case.row, case.latency_us(latency), case.ddr_bytes
    return (
        f"  {row.id:44} {row.latency_us:9.1f} us, estimated {found:9.1f} "
        f"({found / row.latency_us - 1:+6.1%}); {row.ddr_bytes:9} bytes ({ddr / row.ddr_bytes - 1:+6.1%})"
    )


def _worst_line(case: MeasuredCase, latency: Latency) -> str:
    """A row, with its computing time: an error in that is one of a rate, any other is one of overlap or planning."""
    measured, estimated = case.row.compute_us, case.working_us(latency)
    return f"{network_line(case, latency)}; computing {measured:.0f} us, estimated {estimated:.0f}"


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
