"""The machine: runs instructions on an arena, alone or with the help of other threads.

The first thread goes from instruction to instruction. Helpers take units of the present one as long as there are any;
nobody waits for a helper that the operating system does not run, unless it has taken units.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numba import types

from engine.jit import entry
from engine.simulate.kernels import conversion, matmul, reduction
from engine.simulate.kernels import convolution as conv
from engine.simulate.kernels import elementwise as ew
from engine.simulate.kernels import movement as move
from engine.simulate.kernels.instructions import Kind
from engine.simulate.kernels.jit import compiled, sources_digest
from engine.simulate.kernels.scalar import atomic_add, atomic_load, atomic_store, exchange_if

CONVOLUTION, DEPTHWISE, PAD = int(Kind.CONVOLUTION), int(Kind.DEPTHWISE), int(Kind.PAD)
COPY, TABLE, ELEMENTWISE = int(Kind.COPY), int(Kind.TABLE), int(Kind.ELEMENTWISE)
MAX_POOL, AVERAGE_POOL, GLOBAL_AVERAGE = int(Kind.MAX_POOL), int(Kind.AVERAGE_POOL), int(Kind.GLOBAL_AVERAGE)
BILINEAR, QUANTIZE, DEQUANTIZE = int(Kind.BILINEAR), int(Kind.QUANTIZE), int(Kind.DEQUANTIZE)
MATRIX_PRODUCT, REDUCE = int(Kind.MATRIX_PRODUCT), int(Kind.REDUCE)

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
                # One place only that executes: every other one would be compiled with all kernels in it.
                end = min(unit + max(1, units // (CHUNKS * threads) if threads > 1 else units), units)
                if exchange_if(state, seen, seen - unit + end):
                    execute(program[present], arena, scratch, unit, end)
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
def execute(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Units ``begin`` to ``end`` of one instruction."""
    if f.kind == CONVOLUTION:
        conv.convolution(f, arena, scratch, begin, end)
    elif f.kind == DEPTHWISE:
        conv.depthwise(f, arena, scratch, begin, end)
    elif f.kind == PAD:
        move.pad(f, arena, begin, end)
    elif f.kind == COPY:
        move.strided_copy(f, arena, begin, end)
    elif f.kind == TABLE:
        move.look_up(f, arena, begin, end)
    elif f.kind == ELEMENTWISE:
        ew.elementwise(f, arena, scratch, begin, end)
    elif f.kind == MAX_POOL:
        ew.max_pool(f, arena, begin, end)
    elif f.kind == AVERAGE_POOL:
        ew.average_pool(f, arena, scratch, begin, end)
    elif f.kind == GLOBAL_AVERAGE:
        ew.global_average(f, arena, scratch, begin, end)
    elif f.kind == BILINEAR:
        conversion.bilinear(f, arena, begin, end)
    elif f.kind == QUANTIZE:
        conversion.quantize(f, arena, begin, end)
    elif f.kind == DEQUANTIZE:
        conversion.dequantize(f, arena, begin, end)
    elif f.kind == MATRIX_PRODUCT:
        matmul.product(f, arena, scratch, begin, end)
    elif f.kind == REDUCE:
        reduction.reduce(f, arena, scratch, begin, end)


@compiled
def wait(counter: int, count: int) -> None:
    """Wait until ``counter`` has come to ``count``."""
    spins = 0
    while atomic_load(counter) < count:
        spins += 1
        if spins > SPINS:
            give_way()


run = make_run(sources_digest())
