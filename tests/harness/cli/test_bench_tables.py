"""The tables of ``ptqlab bench``."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from engine.simulate.bench import BenchRow
from engine.simulate.profile import OperatorCost, Profile
from harness.bench.measure import BenchReport, ConversionTimes, MemoryRow
from harness.cli.bench_tables import _conversion, _memory, _profile, _slower, _speed


def lines(table: Table) -> list[list[str]]:
    """Cells of the table's rows."""
    stream = StringIO()
    Console(file=stream, width=200).print(table)
    return [line.split() for line in stream.getvalue().splitlines() if line.strip()]


COSTS = tuple(
    OperatorCost(name, "gemm", 2, 0.004 / count, 10**7) for count, name in enumerate(("A", "B", "C", "D"), start=1)
)


def report(ratio: float | None = 2.0, **parts: Any) -> BenchReport:
    rows = (BenchRow(8, 3, 123.44, None if ratio is None else 123.44 / ratio, 12.0),)
    return BenchReport("net", rows, (), **parts)


def test_speeds_and_their_mean_over_several_models() -> None:
    table = lines(_speed([report(2.0), report(8.0)]))
    assert table[2] == ["net", "8", "3", "123.4", "61.7", "2.00", "12.00", "10"]
    assert table[-2:] == [["geometric", "mean", "8", "4.00"], ["lowest", "8", "2.00"]]
    assert len(lines(_speed([report(None)]))) == 3
    assert lines(_speed([report(None)]))[2] == ["net", "8", "3", "123.4", "–", "–", "12.00", "10"]


def test_networks_slower_than_float_name_three_operators() -> None:
    profile = Profile(COSTS, 0.02)
    shown = lines(_slower([report(0.5, profile=profile), report(1.0, profile=profile), report(None, profile=profile)]))
    assert " ".join(shown[-1]) == "net 8 0.50 A (gemm) 4.00 ms, B (gemm) 2.00 ms, C (gemm) 1.33 ms"
    assert _slower([report(1.0, profile=profile), report(0.5)]).row_count == 0


def test_profiles_give_rates_and_what_is_outside_kernels() -> None:
    shown = lines(_profile(report(profile=Profile(COSTS[:1], 0.016))))
    assert " ".join(shown[0]) == "net, 16.00 ms, 75.0% outside kernels"
    assert shown[-1] == ["A", "gemm", "2", "4.000", "10.00", "2.50"]


def test_memory_is_in_megabytes() -> None:
    rows = (MemoryRow(1, 150_000_000, 10**12), MemoryRow(8, 2_500_001, None))
    shown = lines(_memory([BenchReport("net", (), rows)]))
    assert shown[-2:] == [["net", "1", "150", "1000000", "0.00"], ["net", "8", "3", "–", "–"]]


def test_conversions_have_a_column_per_stage_of_any() -> None:
    first = report(conversion=ConversionTimes(50, {"optimize": 1.0}, 0.5))
    other = report(conversion=ConversionTimes(7, {"optimize": 2.0, "compile": 0.25}, 0.125))
    shown = lines(_conversion([first, report(), other]))
    assert shown[1] == ["model", "images", "optimize", "compile", "float", "pass"]
    assert shown[2:] == [["net", "50", "1.00", "–", "0.50"], ["net", "7", "2.00", "0.25", "0.12"]]


def test_peers_have_a_rate_and_a_ratio_each() -> None:
    rows = [
        BenchRow(1, 1, 100.0, 50.0, None, given) for given in ({"int8 ORT": 80.0, "int8 X": 25.0}, {"int8 X": 100.0})
    ]
    shown = lines(_speed([BenchReport("a", rows[:1], ()), BenchReport("b", rows[1:], ())]))
    assert " ".join(shown[1]) == "model batch threads simulator float ORT ratio int8 ORT ratio int8 X ratio numpy ratio"
    assert shown[2] == ["a", "1", "1", "100.0", "50.0", "2.00", "80.0", "1.25", "25.0", "4.00", "–", "–"]
    assert shown[3] == ["b", "1", "1", "100.0", "50.0", "2.00", "–", "–", "100.0", "1.00", "–", "–"]
    assert shown[4:] == [["geometric", "mean", "1", "2.00", "1.25", "2.00"], ["lowest", "1", "2.00", "1.25", "1.00"]]


def test_memory_of_several_models_has_a_mean_and_a_highest() -> None:
    reports = [BenchReport("a", (), (MemoryRow(1, 200, 100),)), BenchReport("b", (), (MemoryRow(1, 800, 100),))]
    assert lines(_memory(reports))[-2:] == [["geometric", "mean", "4.00"], ["highest", "8.00"]]
