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
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]  # it ships no types

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.registers import LEVEL, Level
from engine.simulate.kernels.sources import sources_digest

FOLDER = Path(__file__).parent / "objects"
PREFIX = "ptqlab_"
"""Of the names of functions in an object."""
NAMES = (*(kind.name.lower() for kind in InstructionKind), "interpreter")
"""Functions of an object."""
_DIGITS = 16


def supported() -> bool:
    """Whether objects are made for this operating system and this kind of processor."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def file_name(level: Level) -> str:
    """Name of the object of the present sources for ``level``."""
    return f"{level.name}-{sources_digest()[:_DIGITS]}.o"


_LINKING = threading.Lock()
"""One thread links: of two linkers, the one that is not kept would free the code that its addresses lead to."""


def addresses() -> Mapping[str, int] | None:
    """Addresses of :data:`NAMES`, valid as long as the process lives; None where no object suits this CPU."""
    with _LINKING:
        return _addresses()


@cache
def _addresses() -> Mapping[str, int] | None:
    if LEVEL is None or not supported():
        return None
    path = FOLDER / file_name(LEVEL)
    if not path.is_file():
        return None
    engine = _linker()
    engine.add_object_file(binding.ObjectFileRef.from_path(str(path)))
    engine.finalize_object()
    return {name: engine.get_function_address(PREFIX + name) for name in NAMES}


@cache
def _linker() -> Any:
    """LLVM's linker, which places objects in the memory of this process and keeps them there."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), target)
