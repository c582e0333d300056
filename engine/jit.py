"""numba's decorators with types, and with a cache that a read-only installation does not break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numba.extending

Function = TypeVar("Function", bound=Callable[..., Any])


_INSIDE = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def entry(function: Function) -> Function:
    """Compile on first call, without the GIL; the machine code is kept on disk where a folder for it can be written.

    numba decides by the function's own file and by what its closure holds whether kept code is still valid. What a
    function calls is neither.
    """
    return _kept(function)


def fusing_entry(function: Function) -> Function:
    """As :func:`entry`, but a product and the sum that takes it may be rounded once: CPUs differ in the last bits."""
    return _kept(function, fastmath={"contract"})


def compiled(function: Function) -> Function:
    """Compile as part of the :func:`entry` that calls it; Python cannot call it."""
    return cast(Function, numba.njit(**_INSIDE)(function))


def inlined(function: Function) -> Function:
    """As :func:`compiled`, and into each function that calls it: worth it for what takes no longer than a call."""
    return cast(Function, numba.njit(**_INSIDE, forceinline=True)(function))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose code is given as LLVM IR; see :func:`numba.extending.intrinsic`.

    Compiled functions call it without the first parameter, the typing context.
    """
    return cast(Callable[..., Any], numba.extending.intrinsic(function))


def _kept(function: Function, **options: Any) -> Function:
    try:
        return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function))
    except RuntimeError:  # numba found no writable folder: compile anew in every process
        return cast(Function, numba.njit(nogil=True, error_model="numpy", **options)(function))
