"""The machine: runs instructions on an arena, alone or shared among threads that meet after every instruction."""

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
from engine.simulate.kernels.scalar import atomic_increment, atomic_load

CONVOLUTION, DEPTHWISE, PAD = int(Kind.CONVOLUTION), int(Kind.DEPTHWISE), int(Kind.PAD)
COPY, TABLE, ELEMENTWISE = int(Kind.COPY), int(Kind.TABLE), int(Kind.ELEMENTWISE)
MAX_POOL, AVERAGE_POOL, GLOBAL_AVERAGE = int(Kind.MAX_POOL), int(Kind.AVERAGE_POOL), int(Kind.GLOBAL_AVERAGE)
BILINEAR, QUANTIZE, DEQUANTIZE = int(Kind.BILINEAR), int(Kind.QUANTIZE), int(Kind.DEQUANTIZE)
MATRIX_PRODUCT, REDUCE = int(Kind.MATRIX_PRODUCT), int(Kind.REDUCE)

SPINS = 4096
"""Looks at the barrier before a waiting thread gives its time slice away."""

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
    def run(program: Any, arena: int, scratch: int, barrier: int, thread: int, threads: int) -> None:
        """Run all instructions of ``program`` as thread ``thread`` of ``threads``.

        Args:
            program: array of ``INSTRUCTION`` records.
            arena: address of the buffers.
            scratch: address of this thread's own working memory.
            barrier: address of an int64 counter, 0 at the start, that all threads share.
            thread: 0-based number of this thread.
            threads: how many run the same program on the same arena.
        """
        _ = sources
        for index in range(len(program)):
            f = program[index]
            begin, end = thread * f.units // threads, (thread + 1) * f.units // threads
            if begin < end:
                execute(f, arena, scratch, begin, end)
            if threads > 1:
                wait(barrier, (index + 1) * threads)

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
def wait(barrier: int, arrivals: int) -> None:
    """Arrive at the barrier and wait until ``arrivals`` have been counted since the start."""
    atomic_increment(barrier)
    spins = 0
    while atomic_load(barrier) < arrivals:
        spins += 1
        if spins > SPINS:
            give_way()


run = make_run(sources_digest())
