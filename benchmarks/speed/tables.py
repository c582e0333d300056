"""The table of how near networks come to the machine's peaks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.speed.measure import NetworkReport


def roofline_table(reports: Sequence[NetworkReport]) -> Table:
    """How near each network comes to this machine's peaks, one sample on one thread."""
    measured = [(report.figures.model, report.roofline) for report in reports if report.roofline]
    peaks = ""
    if measured:
        of_machine = measured[0][1].peaks
        peaks = (
            f": {of_machine.operations_per_s / 1e9:.0f} Gop/s, copies {of_machine.cached_bytes_per_s / 1e9:.0f} GB/s"
            f" in the cache and {of_machine.memory_bytes_per_s / 1e9:.0f} GB/s in memory"
        )
    table = Table("model", title=f"share of one thread's peak{peaks}", title_justify="left", box=None)
    for heading in (
        "ms",
        "Gop",
        "Gop/s",
        "of peak",
        "in dot products",
        "of peak there",
        "MB",
        "GB/s",
        "of the cache's",
    ):
        table.add_column(heading, justify="right")
    for model, line in measured:
        table.add_row(
            model,
            f"{line.seconds * 1e3:.2f}",
            f"{line.operations / 1e9:.3f}",
            f"{line.operations / line.seconds / 1e9:.0f}",
            f"{line.share_of_operations:.0%}",
            f"{line.dot_seconds / line.seconds:.0%}",
            f"{line.share_of_dots:.0%}",
            f"{line.bytes / 1e6:.1f}",
            f"{line.bytes / line.seconds / 1e9:.1f}",
            f"{line.share_of_bytes:.0%}",
        )
    return table
