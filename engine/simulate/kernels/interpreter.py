"""The loop of the machine: instructions in order, their units shared out among threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numba import carray, types

from engine.simulate.kernels.jit import compiled
from engine.simulate.kernels.memory import copy_bytes, int64_at
from engine.simulate.kernels.scalar import atomic_add, atomic_load, atomic_store, call_kernel, exchange_if
from engine.simulate.kernels.state import CHUNKS, DONE, HEADER, LOWER, ROW, SPINS

if os.name == "posix":
    give_way: Callable[[], int] = types.ExternalFunction("sched_yield", types.int32())
else:

    @compiled
    def give_way() -> int:
        """Nothing: a waiting thread spins on."""
        return 0


@compiled
def interpret(records: Any, count: int, arena: int, scratch: int, state: int, thread: int, threads: int) -> None:
    """Run all instructions of a program as thread ``thread`` of ``threads``; only the first sees all of them.

    Args:
        records: pointer to ``INSTRUCTION`` records, their kernels' addresses filled in.
        count: how many there are.
        arena: address of the buffers.
        scratch: address of this thread's own working memory.
        state: address of ``STATE_WORDS`` int64, 0 at the start, that all threads share: instruction and next unit in
            the upper and lower half of the first, completed units in another.
        thread: 0-based number of this thread.
        threads: how many run the same program on the same arena. A single one shares nothing: ``state`` leads to the
            samples that it runs through, :data:`HEADER` int64 and rows, or is 0 for what is in the arena.
    """
    program = carray(records, count)
    if threads == 1:
        if state == 0:
            run_all(program, count, arena, scratch)
        else:
            run_samples(program, count, arena, scratch, state)
        return
    index, spins = 0, 0
    while True:
        seen = atomic_load(state)
        present, unit = seen >> 32, seen & LOWER
        if present >= count:
            return
        units = program[present].units
        if unit < units:
            end = min(unit + max(1, units // (CHUNKS * threads)), units)
            if exchange_if(state, seen, seen - unit + end):
                record = program.ctypes.data + present * program.itemsize
                call_kernel(program[present].kernel, record, arena, scratch, unit, end)
                atomic_add(state + DONE, end - unit)
            spins = 0
        elif thread > 0:
            spins += 1
            if spins > SPINS:
                give_way()
        else:
            wait(state + DONE, units)
            index += 1
            atomic_store(state + DONE, 0)
            atomic_store(state, index << 32)


@compiled
def run_all(program: Any, count: int, arena: int, scratch: int) -> None:
    """All instructions, one after the other."""
    for present in range(count):
        record = program.ctypes.data + present * program.itemsize
        call_kernel(program[present].kernel, record, arena, scratch, 0, program[present].units)


@compiled
def run_samples(program: Any, count: int, arena: int, scratch: int, samples: int) -> None:
    """The same for one sample after the other, each copied into the arena, its results out of it."""
    header = int64_at(samples, HEADER)
    first, end, step, ends = header[0], header[1], header[2], header[3]
    rows = int64_at(samples + 8 * HEADER, ROW * ends)
    for index in range(first, end, step):
        for k in range(ends):
            if rows[ROW * k + 3] == 0:
                size = rows[ROW * k + 2]
                copy_bytes(rows[ROW * k] + index * size, arena + rows[ROW * k + 1], size)
        run_all(program, count, arena, scratch)
        for k in range(ends):
            if rows[ROW * k + 3] == 1:
                size = rows[ROW * k + 2]
                copy_bytes(arena + rows[ROW * k + 1], rows[ROW * k] + index * size, size)


@compiled
def wait(counter: int, count: int) -> None:
    """Wait until ``counter`` has come to ``count``."""
    spins = 0
    while atomic_load(counter) < count:
        spins += 1
        if spins > SPINS:
            give_way()
