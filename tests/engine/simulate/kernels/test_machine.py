"""The machine: instructions in order, their units shared out among threads, each computed once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine.simulate.kernels import machine
from engine.simulate.kernels.instructions import INSTRUCTION, InstructionKind
from engine.simulate.kernels.machine import address, link, run, run_with, serve
from engine.simulate.kernels.state import ARGUMENT_COUNT, ARGUMENTS, AWAY, SEAT_WORDS, WAITING, state_words
from engine.simulate.lowering.tables import look_up
from engine.simulate.program import Assembler, Tensor, aligned_zeros
from tests.engine.simulate.machine import arena_of


def counter(steps: int, size: int) -> tuple[Assembler, Tensor, Tensor]:
    """A program that adds one to every element, ``steps`` times."""
    program = Assembler()
    x = program.input((size,), np.int8)
    table = (np.arange(-128, 128) + 1).astype(np.int8).reshape(1, -1)
    y = x
    for _ in range(steps):
        y = look_up(y, table, program)
    program.keep(y)
    return program, x, y


@pytest.mark.parametrize("threads", [1, *[3] * 10])
def test_every_unit_of_every_instruction_is_computed_once(threads: int) -> None:
    program, x, y = counter(5, 100_000)
    finished = program.finish()
    arena, state = arena_of(finished), np.zeros(state_words(threads), np.int64)
    x.view(arena)[...] = np.arange(100_000) % 100
    scratch = [aligned_zeros(finished.scratch_bytes) for _ in range(threads)]
    (part,) = finished.parts
    assert isinstance(part, np.ndarray)
    linked = link(part)
    if threads == 1:
        run(linked, arena.ctypes.data, scratch[0].ctypes.data)
    else:
        seats = np.zeros((threads - 1, SEAT_WORDS), np.int64)
        seats[:, 0] = WAITING
        with ThreadPoolExecutor(threads - 1) as pool:
            for number, seat in enumerate(seats):
                own = scratch[number + 1].ctypes.data
                given = (linked.address, linked.count, arena.ctypes.data, own, state.ctypes.data, number + 1, threads)
                seat[ARGUMENTS : ARGUMENTS + ARGUMENT_COUNT] = given
                pool.submit(serve, seats, number)
            memory = (arena.ctypes.data, scratch[0].ctypes.data)
            run_with(seats.ctypes.data, len(seats), linked, *memory, state.ctypes.data, threads)
        assert seats[:, 0].tolist() == [AWAY] * (threads - 1)
    np.testing.assert_array_equal(y.view(arena), np.arange(100_000) % 100 + 5)


def test_programs_are_linked_with_what_they_need() -> None:
    program = np.zeros(3, INSTRUCTION)
    program["kind"] = [InstructionKind.TABLE, InstructionKind.PAD, InstructionKind.TABLE]
    linked = link(program)
    assert (linked.address, linked.count) == (program.ctypes.data, 3)
    table, pad = address("table"), address("pad")
    assert program["kernel"].tolist() == [table, pad, table]
    assert 0 not in (table, pad)


def test_kernels_of_the_wheel_are_taken_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.prebuilt, "addresses", lambda: {"pad": 4096})
    assert address.__wrapped__("pad") == 4096
