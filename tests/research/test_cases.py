"""Measured rows beside their estimates: which take part, which count, how far estimates are off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.compile.cost import Traffic
from research import cases
from research.cases import Errors, MeasuredCase, cases_of, counted, ddr_errors, errors_of, latencies, networks_of, where
from tests.research.rows import row


class Estimated(MeasuredCase):
    """A case whose estimate is twice the latency data."""

    def times_us(self, latency: Any) -> tuple[float, float]:
        return 2.0 * latency, latency / 4


def case(latency_us: float = 100.0, ddr: int = 1000, estimated_ddr: int = 1000, level: str = "O2") -> MeasuredCase:
    measured = row(8, 8, 1, latency_us).model_copy(update={"ddr_bytes": ddr, "optimize_level": level})
    half = estimated_ddr // 2
    traffic = [(Traffic(loaded=half), Traffic(stored=estimated_ddr - half))]
    return Estimated(measured, SimpleNamespace(), traffic)  # type: ignore[arg-type]


def test_estimates_are_compared_with_what_was_measured() -> None:
    listed = [case(100.0, 1000, 900), case(50.0, 1000, 1500)]
    assert latencies(listed, 45.0).tolist() == [90.0, 90.0]  # type: ignore[arg-type]
    errors = errors_of(listed, 45.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(errors.latency, [0.1, 0.8])
    np.testing.assert_allclose(errors.ddr, [0.1, 0.5])
    np.testing.assert_allclose(ddr_errors(listed), [0.1, 0.5])
    assert (listed[0].latency_us(45.0), listed[0].working_us(45.0)) == (90.0, 11.25)  # type: ignore[arg-type]


def test_traffic_is_loaded_and_stored_straight_and_by_detours() -> None:
    traffic = [(Traffic(loaded=1, stored=20), Traffic(loaded=300)), (Traffic(stored=4000), Traffic())]
    assert MeasuredCase(row(8, 8, 1), SimpleNamespace(), traffic).ddr_bytes == 4321  # type: ignore[arg-type]


def test_a_summary_is_median_and_90th_percentile_of_both() -> None:
    errors = Errors(np.arange(11) / 100, np.arange(11) / 10)
    assert errors.summary() == "   5.0%    9.0%   50.0%   90.0%"


def test_short_rows_are_not_counted() -> None:
    listed = [case(30.0), case(30.1), case(200.0)]
    assert counted(listed) == listed[1:]


def test_rows_of_one_level() -> None:
    listed = [case(), case(level="O0"), case(level="O0", ddr=2)]
    assert where(listed, optimize_level="O0") == listed[1:]
    assert where(listed, optimize_level="O0", kind="net") == []


def test_rows_of_several_cores_or_for_bandwidth_and_unknown_ones_take_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row(8, 8, 1).model_copy(update=changes)
        for changes in ({}, {"core_num": 2}, {"compile_mode": "bandwidth"}, {"id": "unknown"})
    ]
    monkeypatch.setattr(
        cases, "network_of_row", lambda row, latency: None if row.id == "unknown" else (row.id, latency)
    )
    assert networks_of(rows, "data") == [(rows[0], (rows[0].id, "data"))]  # type: ignore[arg-type]


def test_each_level_has_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "memory_of", lambda latency, options: (latency, options.optimize_level.value))
    monkeypatch.setattr(cases, "layer_traffic", lambda schedule, latency: [schedule, latency])
    networks = [
        (row(8, 8, 1).model_copy(update={"optimize_level": level}), SimpleNamespace(schedule=lambda memory: memory))
        for level in ("O2", "O0")
    ]
    found = cases_of(networks, "data")  # type: ignore[arg-type]
    assert [each.schedule for each in found] == [("data", "O2"), ("data", "O0")]
    assert [each.traffic for each in found] == [[("data", "O2"), "data"], [("data", "O0"), "data"]]
