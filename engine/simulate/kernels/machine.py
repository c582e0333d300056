"""The machine: runs instructions on an arena, alone or with the help of other threads.

The first thread goes from instruction to instruction. Helpers take units of the present one as long as there are any;
no thread waits longer than about a microsecond for a helper that the operating system has suspended, unless that one
holds units. A helper without work looks at its seat for half a millisecond before it goes to sleep, as it takes up to
0.3 ms to wake one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.native import prebuilt
from engine.simulate.kernels.instructions import ENTRIES, InstructionKind


@dataclass(frozen=True)
class Linked:
    """A table of instructions that is ready to run: the kernels that it needs are there.

    Attributes:
        table: of instructions, dtype ``INSTRUCTION``.
        address: of its first record.
        count: of its records.
    """

    table: NDArray[Any]
    address: int
    count: int

    def steps(self) -> list[Linked]:
        """Its instructions, each by itself."""
        size = self.table.itemsize
        return [Linked(self.table[k : k + 1], self.address + k * size, 1) for k in range(self.count)]


def run(program: Linked, arena: int, scratch: int, samples: int = 0) -> None:
    """All instructions on one thread.

    Args:
        program: what to run.
        arena: address of the buffers.
        scratch: address of working memory.
        samples: address of what describes those to run through (:data:`~engine.simulate.kernels.state.HEADER`); 0 for
            what is in the arena.
    """
    _entry("leader")(0, 0, program.address, program.count, arena, scratch, samples, 1)


def run_with(seats: int, helpers: int, program: Linked, arena: int, scratch: int, state: int, threads: int) -> None:
    """The same with the help of others, whose arguments lie on their seats.

    Args:
        seats: address of ``SEAT_WORDS`` int64 for each helper.
        helpers: how many.
        program: see :func:`run`, likewise ``arena`` and ``scratch``, which are this thread's.
        state: address of what all threads share: of the program where they share its units, else the samples.
        threads: how many work on this arena; 1 where each has its own.
    """
    _entry("leader")(seats, helpers, program.address, program.count, arena, scratch, state, threads)


def serve(seats: NDArray[np.int64], number: int) -> None:
    """Be the helper on that seat until nothing has lain there for a while."""
    _entry("helper")(seats[number:].ctypes.data)


def link(table: NDArray[Any]) -> Linked:
    """Write the addresses of the kernels into ``table``; threads that do so at once write the same."""
    for kind in np.unique(table["kind"]):
        table["kernel"][table["kind"] == kind] = address(InstructionKind(kind).name.lower())
    return Linked(table, table.ctypes.data, len(table))


@cache
def address(name: str) -> int:
    """Where the kernel of the kind ``name``, or one of :data:`ENTRIES`, lies: built with the wheel, or compiled now."""
    built = prebuilt.addresses()
    if built is not None:
        return built[name]
    from engine.simulate.kernels.entries import compiled_entry  # needs numba

    return int(compiled_entry(name).address)


@cache
def _entry(name: str) -> Callable[..., None]:
    """A function that runs without the GIL."""
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * ENTRIES[name])
    function: Callable[..., None] = kind(address(name))
    return function
