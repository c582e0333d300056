"""The table of rooflines."""

from __future__ import annotations

from benchmarks.speed.measure import NetworkReport
from benchmarks.speed.roofline import Peaks, Roofline
from benchmarks.speed.tables import roofline_table
from harness.bench.measure import BenchReport
from tests.harness.cli.test_bench_tables import lines

BARE = NetworkReport(BenchReport("net", (), ()))


def test_rooflines_are_shares_of_the_peaks() -> None:
    line = Roofline(10**9, 10**7, 0.010, 0.005, Peaks(400e9, 50e9, 10e9))
    shown = lines(roofline_table([BARE, NetworkReport(BARE.figures, line)]))
    assert "400 Gop/s, copies 50 GB/s in the cache and 10 GB/s in memory" in " ".join(shown[0])
    assert shown[-1] == ["net", "10.00", "1.000", "100", "25%", "50%", "50%", "10.0", "1.0", "2%"]
    assert roofline_table([BARE]).row_count == 0
