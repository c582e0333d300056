"""The loop of the machine: instructions in order, their units shared out among threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numba import carray, types

from engine.simulate.kernels.jit import compiled
from engine.simulate.kernels.scalar import atomic_add, atomic_load, atomic_store, call_kernel, exchange_if
from engine.simulate.kernels.state import CHUNKS, DONE, LOWER, SPINS

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
        threads: how many run the same program on the same arena; a single one shares nothing and leaves the state
            as it is.
    """
    program = carray(records, count)
    if threads == 1:
        for present in range(count):
            record = program.ctypes.data + present * program.itemsize
            call_kernel(program[present].kernel, record, arena, scratch, 0, program[present].units)
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
def wait(counter: int, count: int) -> None:
    """Wait until ``counter`` has come to ``count``."""
    spins = 0
    while atomic_load(counter) < count:
        spins += 1
        if spins > SPINS:
            give_way()
