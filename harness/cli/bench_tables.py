"""The tables of ``ptqlab bench``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from harness.bench.measure import BenchReport


def show(reports: Sequence[BenchReport], profiled: bool, more: Sequence[Table] = ()) -> None:
    """Print the tables that have rows, and ``more``; ``profiled`` for those of single operators too."""
    from engine.cli.console import open_console

    console = open_console()
    profiles = [_profile(report) for report in reports] if profiled else []
    tables = (_speed(reports), _slower(reports), _memory(reports), *more, _conversion(reports), *profiles)
    for table in tables:
        if table.row_count:
            console.print(table)
            console.print()


def _slower(reports: Sequence[BenchReport]) -> Table:
    """Networks that are slower than float, with what takes most of their time."""
    from rich.table import Table

    table = Table("model", "batch", "ratio", "slowest operators", title="slower than float", box=None)
    for report in reports:
        for row in report.simulator:
            if report.profile is not None and row.ratio_to_float is not None and row.ratio_to_float < 1:
                slowest = [f"{c.op_type} ({c.instruction}) {c.seconds * 1e3:.2f} ms" for c in report.profile.costs[:3]]
                table.add_row(report.model, str(row.batch), f"{row.ratio_to_float:.2f}", ", ".join(slowest))
    return table


def _profile(report: BenchReport) -> Table:
    from rich.table import Table

    profile = report.profile
    outside = (
        "" if profile is None else f", {profile.seconds * 1e3:.2f} ms, {profile.outside_kernels:.1%} outside kernels"
    )
    table = Table("operator", "instruction", title=f"{report.model}{outside}", title_justify="left", box=None)
    for heading in ("calls", "ms", "MB", "GB/s"):
        table.add_column(heading, justify="right")
    for cost in profile.costs if profile is not None else ():
        rate = cost.bytes / cost.seconds / 1e9
        row = (str(cost.calls), f"{cost.seconds * 1e3:.3f}", f"{cost.bytes / 1e6:.2f}", f"{rate:.2f}")
        table.add_row(cost.op_type, cost.instruction, *row)
    return table


def _speed(reports: Sequence[BenchReport]) -> Table:
    from rich.table import Table

    table = Table("model", title="simulator, images per second", title_justify="left", box=None, header_style="bold")
    rows = [(report.model, row) for report in reports for row in report.simulator]
    peers = list(dict.fromkeys(name for _, row in rows for name in row.peer_images_per_s))
    for heading in ("batch", "threads", "simulator", "float ORT", "ratio"):
        table.add_column(heading, justify="right")
    for heading in peers:
        table.add_column(heading, justify="right")
        table.add_column("ratio", justify="right")
    for heading in ("numpy", "ratio"):
        table.add_column(heading, justify="right")
    for model, row in rows:
        of_peers = [(row.peer_images_per_s.get(peer), row.ratio_to_peers.get(peer)) for peer in peers]
        table.add_row(
            model,
            str(row.batch),
            str(row.threads),
            _number(row.images_per_s, ".1f"),
            _number(row.float_images_per_s, ".1f"),
            _number(row.ratio_to_float, ".2f"),
            *[cell for rate, ratio in of_peers for cell in (_number(rate, ".1f"), _number(ratio, ".2f"))],
            _number(row.reference_images_per_s, ".2f"),
            _number(row.ratio_to_reference, ".0f"),
        )
    for batch in dict.fromkeys(row.batch for _, row in rows):
        if len(reports) > 1:
            _add_summary(table, reports, batch, peers)
    return table


def _add_summary(table: Table, reports: Sequence[BenchReport], batch: int, peers: Sequence[str]) -> None:
    """Geometric mean and least ratio of all models at one batch size."""
    from harness.bench.measure import geometric_mean, ratios

    found = [ratios(reports, batch, peer) for peer in (None, *peers)]
    for name, figures in (
        ("geometric mean", map(geometric_mean, found)),
        ("lowest", (min(f, default=None) for f in found)),
    ):
        table.add_row(name, str(batch), "", "", *[cell for x in figures for cell in ("", _number(x, ".2f"))])


def _memory(reports: Sequence[BenchReport]) -> Table:
    from rich.table import Table

    from harness.bench.measure import geometric_mean

    table = Table("model", title="peak memory, MB", title_justify="left", box=None, header_style="bold")
    for heading in ("batch", "simulator", "float ORT", "ratio"):
        table.add_column(heading, justify="right")
    for report in reports:
        for row in report.memory:
            figures = row.as_dict()
            table.add_row(
                report.model,
                str(row.batch),
                _number(row.simulator_bytes / 1e6, ".0f"),
                _number(None if row.float_bytes is None else row.float_bytes / 1e6, ".0f"),
                _number(figures["ratio_to_float"], ".2f"),
            )
    found = [row.as_dict()["ratio_to_float"] for report in reports for row in report.memory if row.float_bytes]
    if len(reports) > 1 and found:
        table.add_row("geometric mean", "", "", "", _number(geometric_mean(found), ".2f"))
        table.add_row("highest", "", "", "", _number(max(found), ".2f"))
    return table


def _conversion(reports: Sequence[BenchReport]) -> Table:
    from rich.table import Table

    table = Table("model", title="conversion, seconds", title_justify="left", box=None, header_style="bold")
    measured = [report for report in reports if report.conversion]
    stages = list(dict.fromkeys(stage for r in measured if r.conversion for stage in r.conversion.seconds))
    for heading in ("images", *stages, "float pass"):
        table.add_column(heading, justify="right")
    for report in measured:
        if report.conversion is None:
            continue
        given = report.conversion
        seconds = [_number(given.seconds.get(stage), ".2f") for stage in stages]
        table.add_row(report.model, str(given.images), *seconds, _number(given.float_pass_seconds, ".2f"))
    return table


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
