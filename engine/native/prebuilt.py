"""Code that was compiled when the wheel was built: object files per level of x86-64 CPUs, for Linux.

:mod:`engine.simulate.kernels.build` writes them. Their names hold a digest of the sources, so that an object of other
sources is never loaded; where there is none, numba compiles the same functions on this machine.
"""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from engine.native.object_file import ObjectFile, function_of_c
from engine.native.registers import LEVEL, Level
from engine.native.sources import sources_digest

FOLDER = Path(__file__).parent / "objects"
PREFIX = "ptqlab_"
"""What names of functions in an object begin with."""
PARTS = 2
"""Objects of a level: each is compiled by a process of its own."""
_DIGITS = 16


def supported() -> bool:
    """Whether objects are made for this operating system and this kind of processor."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def object_names(level: Level) -> tuple[str, ...]:
    """Names of the objects of the present sources for ``level``, one for each of the :data:`PARTS`."""
    return tuple(f"{level.name}-{sources_digest()[:_DIGITS]}.{part}.o" for part in range(PARTS))


_LINKING = threading.Lock()
"""One thread loads: of two objects, the one that is not kept would free the code that its addresses lead to."""


def addresses() -> Mapping[str, int] | None:
    """Addresses of functions by name, valid as long as the process lives; None where no object suits this CPU."""
    with _LINKING:
        found = _objects()
    if found is None:
        return None
    places = {name: place for part in found for name, place in part.addresses.items()}
    return {name.removeprefix(PREFIX): place for name, place in places.items() if name.startswith(PREFIX)}


@cache
def _objects() -> tuple[ObjectFile, ...] | None:
    if LEVEL is None or not supported():
        return None
    paths = [FOLDER / name for name in object_names(LEVEL)]
    return tuple(ObjectFile(path, function_of_c) for path in paths) if all(map(Path.is_file, paths)) else None
