"""The machine: runs instructions on an arena, alone or with the help of other threads.

The first thread goes from instruction to instruction. Helpers take units of the present one as long as there are any;
no thread waits for a helper that the operating system has suspended, unless that one holds units.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.simulate.kernels import prebuilt
from engine.simulate.kernels.instructions import InstructionKind

_Run = Callable[[int, int, int, int, int, int, int], None]
_RUN_TYPE = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)
"""Such a function runs without the GIL."""


def run(program: NDArray[Any], arena: int, scratch: int, state: int, thread: int, threads: int) -> None:
    """:func:`~engine.simulate.kernels.interpreter.interpret`, with the kernels there that ``program`` needs."""
    if len(program) and not program["kernel"].all():
        link(program)
    _interpreter()(program.ctypes.data, len(program), arena, scratch, state, thread, threads)


def link(program: NDArray[Any]) -> None:
    """Write the addresses of the kernels into ``program``; threads that do so at once write the same."""
    for kind in np.unique(program["kind"]):
        program["kernel"][program["kind"] == kind] = address(InstructionKind(kind).name.lower())


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
