"""The machine: runs instructions on an arena, alone or with the help of other threads.

The first thread goes from instruction to instruction. Helpers take units of the present one as long as there are any;
no thread waits for a helper that the operating system has suspended, unless that one holds units.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.simulate.kernels import prebuilt
from engine.simulate.kernels.instructions import InstructionKind

_Run = Callable[[int, int, int, int, int, int, int], None]
_RUN_TYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)
"""Such a function runs without the GIL."""


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


def run(program: Linked, arena: int, scratch: int, state: int, thread: int, threads: int) -> None:
    """:func:`~engine.simulate.kernels.interpreter.interpret`."""
    _interpreter()(program.address, program.count, arena, scratch, state, thread, threads)


def link(table: NDArray[Any]) -> Linked:
    """Write the addresses of the kernels into ``table``; threads that do so at once write the same."""
    for kind in np.unique(table["kind"]):
        table["kernel"][table["kind"] == kind] = address(InstructionKind(kind).name.lower())
    return Linked(table, table.ctypes.data, len(table))


@cache
def address(name: str) -> int:
    """Where the kernel of the kind ``name``, or the ``interpreter``, lies: built with the wheel, or compiled now."""
    built = prebuilt.addresses()
    if built is not None:
        return built[name]
    from engine.simulate.kernels.entries import compiled_entry  # needs numba

    return int(compiled_entry(name).address)


@cache
def _interpreter() -> _Run:
    function: _Run = _RUN_TYPE(address("interpreter"))
    return function
