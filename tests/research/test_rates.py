"""Rates and overheads together: they come out of parts that were made with them."""

from __future__ import annotations

import pytest

from engine.chips.latency import Latency, load_latency
from engine.chips.latency.overhead import Overhead
from engine.compile.compiler import CompileOptions, memory_of
from engine.compile.schedule import Schedule
from research.overheads import MeasuredPart, latency_us
from research.rates import START, fit_rates, start_of
from tests.research.rows import row, schedule_of_row

FILE = load_latency("bayes-e")
STARTED = FILE.model_copy(update={"fitted": FILE.fitted.model_copy(update=start_of("bayes-e"))})
CONV = {"op": "conv", "cout": 64, "k": 3, "act": "relu"}


def chain(count: int, size: int, latency: Latency) -> Schedule:
    spec = {"in": {"data": [1, 64, size, size]}, "layers": [CONV, {"op": "act"}] * count}
    found = schedule_of_row(
        row(64, 64, 3).model_copy(update={"spec": spec}), latency, memory_of(latency, CompileOptions())
    )
    assert found is not None
    return found


def test_rates_of_a_synthetic_machine_are_recovered() -> None:
    update = {"mac_rate": 1600.0, "input_rate": 10.0}
    truth = STARTED.model_copy(update={"fitted": STARTED.fitted.model_copy(update=update)})
    planned = [chain(count, size, truth) for count in (1, 2, 4) for size in (8, 16, 32, 64)]
    parts = [MeasuredPart.of_row(latency_us([one], truth), one) for one in planned]
    found = fit_rates("bayes-e", parts, STARTED)
    assert found.fitted.mac_rate == pytest.approx(1600, rel=0.1)
    assert found.fitted.load_gbps == STARTED.fitted.load_gbps
    assert found.overheads[Overhead.SINGLE] == STARTED.overheads[Overhead.SINGLE]
    for one in planned:
        assert latency_us([one], found) == pytest.approx(latency_us([one], truth), rel=0.05)


def test_a_march_without_a_start_stays_as_it_is() -> None:
    assert start_of("bernoulli2") == {}
    latency = load_latency("bernoulli2")
    assert fit_rates("bernoulli2", [], latency) is latency
    assert set(START) == {"bayes-e", "bayes"}
