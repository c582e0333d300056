"""The loop of the machine, compiled on this machine and not ahead."""

from __future__ import annotations

import ctypes

import numba
import numpy as np
import pytest

from engine.simulate.kernels.entries import compiled_entry
from engine.simulate.kernels.interpreter import wait
from engine.simulate.kernels.state import DONE, HEADER, ROW, STATE_WORDS
from engine.simulate.lowering.tables import look_up
from engine.simulate.program import Assembler, aligned_zeros


@pytest.mark.parametrize("threads", [1, 2])
def test_it_goes_through_a_program(threads: int) -> None:
    """The first of two threads does all the work where the second does not come; a single one keeps no state."""
    program = Assembler()
    x = program.input((1000,), np.int8)
    y = look_up(x, np.arange(-128, 128).astype(np.int8)[::-1].reshape(1, -1), program)
    program.keep(y)
    finished = program.finish()
    (part,) = finished.parts
    assert isinstance(part, np.ndarray)
    part["kernel"] = compiled_entry("table").address
    arena, state = finished.new_arena(), np.zeros(STATE_WORDS, np.int64)
    x.view(arena)[...] = np.arange(1000) % 100
    scratch = aligned_zeros(finished.scratch_bytes)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)(compiled_entry("interpreter").address)
    shared = state.ctypes.data if threads > 1 else 0
    run(part.ctypes.data, len(part), arena.ctypes.data, scratch.ctypes.data, shared, 0, threads)
    np.testing.assert_array_equal(y.view(arena), -1 - np.arange(1000) % 100)
    assert state[0] == (len(part) << 32 if threads > 1 else 0)
    assert state[DONE // 8] == 0


def test_one_thread_goes_through_every_second_sample() -> None:
    program = Assembler()
    x = program.input((70,), np.int8)
    y = look_up(x, np.arange(-128, 128).astype(np.int8)[::-1].reshape(1, -1), program)
    program.keep(y)
    finished = program.finish()
    (part,) = finished.parts
    assert isinstance(part, np.ndarray)
    part["kernel"] = compiled_entry("table").address
    arena, scratch = finished.new_arena(), aligned_zeros(finished.scratch_bytes)
    given = np.random.default_rng(0).integers(-128, 128, (6, 70)).astype(np.int8)
    found = np.zeros_like(given)
    ends = [(given.ctypes.data, x.offset, 70, 0), (found.ctypes.data, y.offset, 70, 1)]
    samples = np.array([(1, 6, 2, len(ends)), *ends], np.int64)
    assert samples.shape == (1 + len(ends), ROW) == (1 + len(ends), HEADER)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)(compiled_entry("interpreter").address)
    run(part.ctypes.data, len(part), arena.ctypes.data, scratch.ctypes.data, samples.ctypes.data, 0, 1)
    np.testing.assert_array_equal(found[1::2], -1 - given[1::2])
    assert not found[::2].any()


@numba.njit
def waited(counter: int, count: int) -> bool:
    wait(counter, count)
    return True


def test_nobody_waits_for_what_is_done() -> None:
    counter = np.array([5], np.int64)
    assert waited(counter.ctypes.data, 5)
    assert waited(counter.ctypes.data, 3)
