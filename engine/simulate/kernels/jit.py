"""numba's decorators with types, for functions that only compiled functions call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numba.extending

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile as part of the :func:`engine.jit.entry` that calls it; Python cannot call it."""
    options = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Function, numba.njit(**options)(function))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose code is given as LLVM IR; see :func:`numba.extending.intrinsic`.

    Kernels call it without the first parameter, the typing context.
    """
    return cast(Callable[..., Any], numba.extending.intrinsic(function))
