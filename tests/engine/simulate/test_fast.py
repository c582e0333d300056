"""The fast simulator: samples over threads, memory that is used again, what a caller gets back."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest

from engine.errors import InferenceError
from engine.simulate.fast import SAMPLES_AT_ONCE, FastSimulator, _unstack, available_cpus
from engine.simulate.kernels.state import PATIENCE
from engine.simulate.pace import Pace
from engine.simulate.program import Program
from engine.simulate.team import Team
from tests.engine.simulate.machine import ramp
from tests.engine.simulate.models import node_model

X = ramp(1, 5, 6, 4, first=-60)
TABLE = np.arange(-128, 128)[::-1].astype(np.int8)
MODEL = node_model("HzLut", [X], {}, {1: TABLE})


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("samples", [1, 2, 3, 7])
def test_any_number_of_samples_over_any_number_of_threads(samples: int, threads: int) -> None:
    """Those that do not divide by the threads are computed by all of them together."""
    x = np.concatenate([X + shift for shift in range(samples)]).astype(np.int8)
    (found,) = FastSimulator(MODEL, threads).run({"x0": x}).values()
    np.testing.assert_array_equal(found, -1 - x)


@pytest.mark.parametrize("threads", [1, 2])
def test_more_samples_than_one_call_takes_and_arrays_with_gaps(threads: int) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2 * SAMPLES_AT_ONCE + 3, 5, 6, 8)).astype(np.int8)[..., ::2]
    (found,) = FastSimulator(MODEL, threads).run({"x0": x}).values()
    np.testing.assert_array_equal(found, -1 - x)


class AskedTeam(Team):
    """Counts what it is asked to share: units of a sample, and samples."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.asked = [0, 0]

    def share_units(self, *arguments: Any) -> None:
        self.asked[0] += 1
        super().share_units(*arguments)

    def share_samples(self, *arguments: Any) -> None:
        self.asked[1] += 1
        super().share_samples(*arguments)


class KnownPace(Pace):
    """Of a sample that takes one thread so long, and all of them a part of that; nothing else is learned."""

    def __init__(self, program: Program, seconds: float, together: float = 1 / 3) -> None:
        super().__init__(program, threads=2)
        self._untimed, self._alone, self._together = 0, seconds, seconds * together
        self.learnt: list[float] = []

    def learn(self, seconds: float) -> None:
        pass

    def learn_together(self, seconds: float) -> None:
        self.learnt.append(seconds)


def asked_simulator(monkeypatch: pytest.MonkeyPatch, seconds: float) -> tuple[FastSimulator, list[int]]:
    """One with two threads that takes a sample for so long, and what its team is asked."""
    simulator, team = FastSimulator(MODEL, threads=2), AskedTeam(2)
    monkeypatch.setattr(simulator, "_team", team)
    monkeypatch.setattr(simulator, "_pace", KnownPace(simulator.program, seconds))
    return simulator, team.asked


@pytest.mark.parametrize(
    ("enough", "little", "expected"),
    [
        (math.inf, math.inf, [0, 0]),
        (0.0, math.inf, [2, 1]),
        (math.inf, 1e-12, [2, 1]),
    ],
)
def test_threads_take_part_where_work_is_worth_it(
    monkeypatch: pytest.MonkeyPatch, enough: float, little: float, expected: list[int]
) -> None:
    """Of four samples every thread takes some, and both share a single one; so they do where helpers are awake."""
    monkeypatch.setattr("engine.simulate.pace.ENOUGH_WORK", enough)
    monkeypatch.setattr("engine.simulate.pace.LITTLE_WORK", little)
    simulator, asked = asked_simulator(monkeypatch, 1e-9)
    for samples in (1, 4, 1):
        monkeypatch.setattr(simulator, "_last_end", math.inf)  # the last call ended just now
        x = np.concatenate([X + shift for shift in range(samples)]).astype(np.int8)
        (found,) = simulator.run({"x0": x}).values()
        np.testing.assert_array_equal(found, -1 - x)
    assert asked == expected


def test_helpers_sleep_between_calls_that_are_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator, asked = asked_simulator(monkeypatch, 2.4e-4)
    four = np.concatenate([X] * 4)
    for since in (math.inf, PATIENCE * 2e-6, 0.0):
        monkeypatch.setattr("engine.simulate.fast.time.monotonic", lambda since=since: since)
        monkeypatch.setattr(simulator, "_last_end", 0.0)
        simulator.run({"x0": four})
    assert asked == [0, 1]


@pytest.mark.parametrize(("together", "expected"), [(0.5, [3, 0]), (2.0, [0, 0])])
def test_a_single_sample_is_shared_where_that_is_faster(
    monkeypatch: pytest.MonkeyPatch, together: float, expected: list[int]
) -> None:
    """And what it takes is learnt, of single samples alone."""
    monkeypatch.setattr("engine.simulate.pace.ENOUGH_WORK", math.inf)
    monkeypatch.setattr("engine.simulate.pace.LITTLE_WORK", 0.0)
    simulator, asked = asked_simulator(monkeypatch, 1e-6)
    pace = KnownPace(simulator.program, 1e-6, together)
    monkeypatch.setattr(simulator, "_pace", pace)
    for _ in range(3):
        monkeypatch.setattr(simulator, "_last_end", math.inf)  # the last call ended just now
        simulator.run({"x0": X})
    assert asked == expected
    assert len(pace.learnt) == asked[0]


def test_a_call_beside_another_that_is_helped_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator, asked = asked_simulator(monkeypatch, 60.0)
    assert simulator._team is not None
    assert simulator._team.take()
    (found,) = simulator.run({"x0": X}).values()
    np.testing.assert_array_equal(found, -1 - X)
    assert not simulator._team.take()
    assert asked == [0, 0]


def test_memory_is_used_again() -> None:
    simulator = FastSimulator(MODEL, threads=1)
    for _ in range(3):
        simulator.run({"x0": X})
    assert simulator._workplaces.qsize() == 1
    with pytest.raises(InferenceError, match="unknown output z"):
        simulator.run({"x0": X}, ["z"])
    assert simulator._workplaces.qsize() == 1


def test_every_step_is_timed() -> None:
    simulator = FastSimulator(MODEL, threads=1)
    seconds = simulator.time_steps({"x0": X})
    assert len(seconds) == len(simulator.program.steps) == 1
    assert seconds[0] >= 0


def test_samples_go_back_into_the_first_dimension() -> None:
    assert _unstack(np.zeros((3, 2, 5))).shape == (6, 5)
    assert _unstack(np.arange(3)).tolist() == [0, 1, 2]
    assert _unstack(np.arange(1)).shape == ()


def test_cpus_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 7}, raising=False)
    assert available_cpus() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cpus() == 1


def test_at_least_one_thread() -> None:
    assert FastSimulator(MODEL, threads=-2)._team is None
    assert FastSimulator(MODEL, threads=2)._team is not None
