"""numba's decorators with types, and with a cache that a read-only installation does not break."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.extending

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile as part of the :func:`entry` that calls it; Python cannot call it."""
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Function, numba.njit(**options)(function))


def entry(function: Function) -> Function:
    """Compile on first call, without the GIL; the machine code is kept on disk where a folder for it can be written.

    numba decides by the function's own file and by what its closure holds whether kept code is still valid. What a
    function calls is neither, so a closure must hold :func:`sources_digest`.
    """
    try:
        return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))
    except RuntimeError:  # numba found no writable folder: compile anew in every process
        return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


def sources_digest() -> str:
    """SHA-256 of the sources of all kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose code is given as LLVM IR; see :func:`numba.extending.intrinsic`.

    Kernels call it without the first parameter, the typing context.
    """
    return cast(Callable[..., Any], numba.extending.intrinsic(function))
