"""Kernels that were compiled when the wheel was built: one object file per level of x86-64 CPUs, for Linux.

:mod:`engine.simulate.kernels.build` writes them. Their names hold a digest of the sources, so that an object of other
sources is never loaded; where there is none, numba compiles the same kernels on this machine.
"""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from engine.simulate.kernels.instructions import ENTRIES, InstructionKind
from engine.simulate.kernels.object_file import ObjectFile, function_of_c
from engine.simulate.kernels.registers import LEVEL, Level
from engine.simulate.kernels.sources import sources_digest

FOLDER = Path(__file__).parent / "objects"
PREFIX = "ptqlab_"
"""Of the names of functions in an object."""
NAMES = (*(kind.name.lower() for kind in InstructionKind), *ENTRIES)
"""Functions of an object."""
_DIGITS = 16


def supported() -> bool:
    """Whether objects are made for this operating system and this kind of processor."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def file_name(level: Level) -> str:
    """Name of the object of the present sources for ``level``."""
    return f"{level.name}-{sources_digest()[:_DIGITS]}.o"


_LINKING = threading.Lock()
"""One thread loads: of two objects, the one that is not kept would free the code that its addresses lead to."""


def addresses() -> Mapping[str, int] | None:
    """Addresses of :data:`NAMES`, valid as long as the process lives; None where no object suits this CPU."""
    with _LINKING:
        found = _object()
    return None if found is None else {name: found.addresses[PREFIX + name] for name in NAMES}


@cache
def _object() -> ObjectFile | None:
    if LEVEL is None or not supported():
        return None
    path = FOLDER / file_name(LEVEL)
    return ObjectFile(path, function_of_c) if path.is_file() else None
