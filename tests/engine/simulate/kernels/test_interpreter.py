"""The loop of the machine and what helpers wait in, compiled on this machine and not ahead."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.simulate.destinations import reach_outside
from engine.simulate.kernels.entries import compiled_entry
from engine.simulate.kernels.instructions import ENTRIES
from engine.simulate.kernels.interpreter import part_of
from engine.simulate.kernels.state import (
    ADDRESS,
    ARGUMENTS,
    AWAY,
    COPIED,
    HEADER,
    PORTIONS,
    POSTED,
    PRESENT,
    RESULT,
    ROW,
    SEAT_WORDS,
    WAITING,
    WORD,
    state_words,
)
from engine.simulate.lowering.elementwise import lower_quantize
from engine.simulate.program import Assembler, Program, Tensor, aligned_zeros
from tests.engine.simulate import machine
from tests.engine.simulate.machine import arena_of, call


def entry(name: str) -> Callable[..., None]:
    """Compiled here."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * ENTRIES[name])(compiled_entry(name).address)


def negation(size: int) -> tuple[Program, NDArray[Any], Tensor, Tensor]:
    """:func:`tests.engine.simulate.machine.negation` with the kernel that is compiled here."""
    finished, part, x, y = machine.negation(size)
    part["kernel"] = compiled_entry("table").address
    return finished, part, x, y


@pytest.mark.nightly
@pytest.mark.parametrize("threads", [1, 2])
def test_it_goes_through_a_program(threads: int) -> None:
    """The first of two threads does all the work where the second does not come; a single one keeps no state."""
    finished, part, x, y = negation(1000)
    arena, state = arena_of(finished), np.zeros(state_words(threads), np.int64)
    x.view(arena)[...] = np.arange(1000) % 100
    scratch = aligned_zeros(finished.scratch_bytes)
    shared = state.ctypes.data if threads > 1 else 0
    entry("leader")(0, 0, part.ctypes.data, len(part), arena.ctypes.data, scratch.ctypes.data, shared, threads)
    np.testing.assert_array_equal(y.view(arena), -1 - np.arange(1000) % 100)
    assert state[PRESENT // WORD] == (len(part) + 1 if threads > 1 else 0)


def test_threads_go_through_samples_that_no_other_has_taken() -> None:
    finished, part, x, y = negation(70)
    arena, scratch = arena_of(finished), aligned_zeros(finished.scratch_bytes)
    given = np.random.default_rng(0).integers(-128, 128, (6, 70)).astype(np.int8)
    found = np.zeros_like(given)
    ends = [(given.ctypes.data, x.offset, 70, COPIED), (found.ctypes.data, y.offset, 70, RESULT)]
    samples = np.array([(2, 5, len(ends), 1), (0,) * ROW, *ends], np.int64)
    assert samples[: -len(ends)].size == HEADER
    arguments = (part.ctypes.data, len(part), arena.ctypes.data, scratch.ctypes.data, samples.ctypes.data, 1)
    entry("leader")(0, 0, *arguments)
    np.testing.assert_array_equal(found[2:5], -1 - given[2:5])
    assert not found[[0, 1, 5]].any()
    assert samples[0, 0] == 5


def test_samples_are_read_where_they_lie_if_the_program_takes_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.simulate.destinations.REACHED_FROM", 0)
    program = Assembler()
    x = program.input((1, 40), np.float32)
    y = lower_quantize(call("HzQuantize", x, np.float32([0.5]), bits=8), program)
    program.keep(y)
    address = reach_outside(program, {"x": x}, {"y": y})["x"]
    finished = program.finish()
    (part,) = finished.parts
    assert isinstance(part, np.ndarray)
    part["kernel"] = compiled_entry("quantize").address
    arena, scratch = arena_of(finished), aligned_zeros(finished.scratch_bytes)
    given = np.random.default_rng(0).standard_normal((3, 40), np.float32)
    found = np.zeros((3, 40), np.int8)
    ends = [(given.ctypes.data, address.offset, 160, ADDRESS), (found.ctypes.data, y.offset, 40, RESULT)]
    samples = np.array([(1, 3, len(ends), 1), (0,) * ROW, *ends], np.int64)
    arguments = (part.ctypes.data, len(part), arena.ctypes.data, scratch.ctypes.data, samples.ctypes.data, 1)
    entry("leader")(0, 0, *arguments)
    np.testing.assert_array_equal(found, [np.zeros(40), *np.rint(given[1:] / 0.5)])


def test_a_helper_does_what_lies_on_its_seat_and_leaves() -> None:
    finished, part, x, y = negation(1000)
    arena, scratch = arena_of(finished), aligned_zeros(finished.scratch_bytes)
    x.view(arena)[...] = np.arange(1000) % 100
    seat = np.zeros(SEAT_WORDS, np.int64)
    seat[0] = POSTED
    seat[ARGUMENTS : ARGUMENTS + 7] = (part.ctypes.data, len(part), arena.ctypes.data, scratch.ctypes.data, 0, 0, 1)
    entry("helper")(seat.ctypes.data)
    np.testing.assert_array_equal(y.view(arena), -1 - np.arange(1000) % 100)
    assert seat[0] == AWAY


def test_work_that_no_helper_took_is_taken_back() -> None:
    finished, part, x, y = negation(1000)
    arena, scratch = arena_of(finished), aligned_zeros(finished.scratch_bytes)
    x.view(arena)[...] = np.arange(1000) % 100
    seats = np.zeros((2, SEAT_WORDS), np.int64)
    seats[1, 0] = WAITING
    arguments = (part.ctypes.data, len(part), arena.ctypes.data, scratch.ctypes.data, 0, 1)
    entry("leader")(seats.ctypes.data, 2, *arguments)
    np.testing.assert_array_equal(y.view(arena), -1 - np.arange(1000) % 100)
    assert seats[:, 0].tolist() == [AWAY, WAITING]


@pytest.mark.parametrize("portions", [0, 1, PORTIONS])
@pytest.mark.parametrize("size", [1, 3000, 400_000])
def test_a_leader_and_its_helper_compute_each_unit_once(size: int, portions: int) -> None:
    """Again and again, so that helpers come early, late and never."""
    finished, part, x, y = negation(size)
    part["portions"] = portions
    arena = arena_of(finished)
    scratch = [aligned_zeros(finished.scratch_bytes) for _ in range(2)]
    state, seats = np.zeros(state_words(2), np.int64), np.zeros((1, SEAT_WORDS), np.int64)
    lead, serve = entry("leader"), entry("helper")
    values = np.random.default_rng(1).integers(-128, 128, size).astype(np.int8)
    common = (part.ctypes.data, len(part), arena.ctypes.data)
    seats[0, ARGUMENTS : ARGUMENTS + 7] = (*common, scratch[1].ctypes.data, state.ctypes.data, 1, 2)
    for _ in range(20):
        x.view(arena)[...] = values
        y.view(arena)[...] = 0
        seats[0, 0] = WAITING
        helper = Thread(target=serve, args=(seats.ctypes.data,))
        helper.start()
        lead(seats.ctypes.data, 1, *common, scratch[0].ctypes.data, state.ctypes.data, 2)
        np.testing.assert_array_equal(y.view(arena), -1 - values)
        helper.join()
        assert seats[0, 0] == AWAY


def test_parts_of_threads_are_even_and_leave_nothing_out() -> None:
    for units in (0, 1, 7, 8, 100):
        for threads in (1, 2, 3, 16):
            ends = [part_of.py_func(units, thread, threads) for thread in range(threads + 1)]
            sizes = np.diff(ends)
            assert (ends[0], ends[-1]) == (0, units)
            assert sizes.max() - sizes.min() <= 1
            assert sizes[0] == sizes.max()
