"""numba's decorators with types, for functions that only compiled functions call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.extending

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile as part of the :func:`engine.jit.entry` that calls it; Python cannot call it."""
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Function, numba.njit(**options)(function))


def sources_digest() -> str:
    """SHA-256 of the sources of all kernels: what the closure of an :func:`engine.jit.entry` must hold."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose code is given as LLVM IR; see :func:`numba.extending.intrinsic`.

    Kernels call it without the first parameter, the typing context.
    """
    return cast(Callable[..., Any], numba.extending.intrinsic(function))
