"""The machine: runs instructions on an arena, alone or with the help of other threads.

The first thread goes from instruction to instruction. Helpers take units of the present one as long as there are any;
nobody waits for a helper that the operating system does not run, unless it has taken units.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from engine.jit import entry
from engine.simulate.kernels.entries import kernel
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.jit import compiled, sources_digest
from engine.simulate.kernels.scalar import atomic_add, atomic_load, atomic_store, call_kernel, exchange_if

SPINS = 4096
"""Looks at the shared state before a waiting thread gives its time slice away."""
DONE = 64
"""Byte of the shared state, a cache line behind the first, where completed units are counted."""
STATE_WORDS = 16
"""int64 of the shared state."""
OVER = 1 << 62
"""State at which all threads stop."""
LOWER = (1 << 32) - 1
CHUNKS = 4
"""Parts per thread that the units of an instruction are handed out in."""

if os.name == "posix":
    give_way: Callable[[], int] = types.ExternalFunction("sched_yield", types.int32())
else:

    @compiled
    def give_way() -> int:
        """Nothing: a waiting thread spins on."""
        return 0


def make_run(sources: str) -> Callable[[Any, int, int, int, int, int], None]:
    """The machine; ``sources`` is the digest by which code that was kept on disk is recognised as still valid."""

    @entry
    def run(program: Any, arena: int, scratch: int, state: int, thread: int, threads: int) -> None:
        """Run all instructions of ``program`` as thread ``thread`` of ``threads``; only the first sees all of them.

        Args:
            program: array of ``INSTRUCTION`` records.
            arena: address of the buffers.
            scratch: address of this thread's own working memory.
            state: address of :data:`STATE_WORDS` int64, 0 at the start, that all threads share: instruction and next
                unit in the upper and lower half of the first, completed units in another.
            thread: 0-based number of this thread.
            threads: how many run the same program on the same arena.
        """
        _ = sources
        index, spins = 0, 0
        while True:
            seen = atomic_load(state)
            present, unit = seen >> 32, seen & LOWER
            if present >= len(program):
                return
            units = program[present].units
            if unit < units:
                end = min(unit + max(1, units // (CHUNKS * threads) if threads > 1 else units), units)
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

    return run


@compiled
def wait(counter: int, count: int) -> None:
    """Wait until ``counter`` has come to ``count``."""
    spins = 0
    while atomic_load(counter) < count:
        spins += 1
        if spins > SPINS:
            give_way()


run_linked = make_run(sources_digest())


def run(program: NDArray[Any], arena: int, scratch: int, state: int, thread: int, threads: int) -> None:
    """:func:`run_linked`, with the kernels compiled that ``program`` needs and no earlier program needed."""
    if len(program) and not program["kernel"].all():
        link(program)
    run_linked(program, arena, scratch, state, thread, threads)


def link(program: NDArray[Any]) -> None:
    """Write the addresses of the kernels into ``program``; threads that do so at once write the same."""
    for kind in np.unique(program["kind"]):
        program["kernel"][program["kind"] == kind] = kernel(InstructionKind(kind)).address
