"""Helpers: one thread at a time has them, and nobody waits for those that do not come."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from engine.simulate import team as teams
from engine.simulate.kernels.machine import link
from engine.simulate.kernels.state import AWAY, WAITING, state_words
from engine.simulate.program import aligned_zeros
from engine.simulate.team import Memory, Team
from tests.engine.simulate.machine import arena_of, negation

SIZE = 5000


def memory_of(arenas: list[Any], scratch: list[Any]) -> list[Memory]:
    return [(arena.ctypes.data, own.ctypes.data) for arena, own in zip(arenas, scratch, strict=True)]


@pytest.mark.parametrize("threads", [2, 4])
def test_units_and_samples_are_shared(threads: int) -> None:
    finished, table, x, y = negation(SIZE)
    part = link(table)
    arenas = [arena_of(finished) for _ in range(threads)]
    scratch = [aligned_zeros(finished.scratch_bytes) for _ in range(threads)]
    values = np.random.default_rng(0).integers(-128, 128, (9, SIZE)).astype(np.int8)
    team = Team(threads)
    x.view(arenas[0])[...] = values[0]
    state = np.zeros(state_words(threads), np.int64)
    team.share_units(part, memory_of(arenas[:1] * threads, scratch), state.ctypes.data)
    np.testing.assert_array_equal(y.view(arenas[0]), -1 - values[0])

    found = np.zeros_like(values)
    ends = [(values.ctypes.data, x.offset, SIZE, 0), (found.ctypes.data, y.offset, SIZE, 1)]
    samples = np.array([(0, 9, len(ends), 1), (0,) * 4, *ends], np.int64)
    team.share_samples(part, memory_of(arenas, scratch), samples.ctypes.data)
    np.testing.assert_array_equal(found, -1 - values)


def test_one_has_the_helpers_at_a_time() -> None:
    team = Team(2)
    assert team.take()
    assert not team.take()
    team.release()
    assert team.take()


def test_a_helper_that_is_awake_is_not_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    finished, table, _, _ = negation(SIZE)
    part = link(table)
    arena, scratch = arena_of(finished), [aligned_zeros(finished.scratch_bytes) for _ in range(2)]
    team, called, state = Team(2), [], np.zeros(state_words(2), np.int64)

    class Pool:
        def submit(self, *arguments: Any) -> Future[None]:
            called.append(arguments)
            return Future()

    monkeypatch.setattr(team, "_pool", Pool())
    for _ in range(2):
        team.share_units(part, memory_of([arena] * 2, scratch), state.ctypes.data)
    assert [(work, number) for work, _, number in called] == [(teams.serve, 0)]
    assert team._seats[0, 0] == WAITING != AWAY


def test_helpers_are_waited_for_a_moment_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a tenth of the time where one does not come."""
    clock, naps, helpers = [5.0], [0], [Future[None](), Future[None]()]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        naps[0] += 1
        if naps[0] == 2:
            helpers[0].set_running_or_notify_cancel()

    class Pool:
        def submit(self, _: Any, seats: Any, number: int) -> Future[None]:
            return helpers[number]

    monkeypatch.setattr("engine.simulate.team.time.sleep", sleep)
    monkeypatch.setattr("engine.simulate.team.time.monotonic", lambda: clock[0])
    one, two = Team(2), Team(3)
    for team, expected in ((one, 2), (one, 2), (two, 2 + teams.NAPS), (two, 2 + teams.NAPS)):
        monkeypatch.setattr(team, "_pool", Pool())
        team.gather()
        assert naps[0] == expected
    clock[0] += 9.1 * teams.NAPS * teams.NAP
    for _ in range(2):
        two.gather()
    assert naps[0] == 2 + 2 * teams.NAPS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_has_no_helpers() -> None:
    finished, table, x, y = negation(SIZE)
    part = link(table)
    arena, scratch = arena_of(finished), [aligned_zeros(finished.scratch_bytes) for _ in range(2)]
    team, state = Team(2), np.zeros(state_words(2), np.int64)
    x.view(arena)[...] = 5
    team.share_units(part, memory_of([arena] * 2, scratch), state.ctypes.data)
    assert (y.view(arena) == -6).all()
    child = os.fork()
    if child == 0:
        os._exit(1 if team.take() else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert team.take()


def test_a_helper_that_could_not_be_called_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    finished, table, _, _ = negation(SIZE)
    part = link(table)
    arena, scratch = arena_of(finished), [aligned_zeros(finished.scratch_bytes) for _ in range(2)]
    team, state = Team(2), np.zeros(state_words(2), np.int64)

    class Pool:
        def submit(self, *_: Any) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(team, "_pool", Pool())
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            team.share_units(part, memory_of([arena] * 2, scratch), state.ctypes.data)
        assert team._seats[0, 0] == AWAY


def test_fewer_arenas_than_threads_ask_fewer_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    finished, table, x, y = negation(SIZE)
    part = link(table)
    arenas, scratch = (
        [arena_of(finished) for _ in range(2)],
        [aligned_zeros(finished.scratch_bytes) for _ in range(2)],
    )
    values = np.random.default_rng(0).integers(-128, 128, (2, SIZE)).astype(np.int8)
    found, team = np.zeros_like(values), Team(5)
    ends = [(values.ctypes.data, x.offset, SIZE, 0), (found.ctypes.data, y.offset, SIZE, 1)]
    samples = np.array([(0, 2, len(ends), 1), (0,) * 4, *ends], np.int64)
    team.share_samples(part, memory_of(arenas, scratch), samples.ctypes.data)
    np.testing.assert_array_equal(found, -1 - values)
    assert not team._seats[1:].any()
