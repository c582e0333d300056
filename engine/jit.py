"""numba's decorator with types, and with a cache that a read-only installation does not break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def entry(function: Function) -> Function:
    """Compile on first call, without the GIL; the machine code is kept on disk where a folder for it can be written.

    numba decides by the function's own file and by what its closure holds whether kept code is still valid. What a
    function calls is neither.
    """
    return _compiled(function)


def fusing_entry(function: Function) -> Function:
    """As :func:`entry`, but a product and the sum that takes it may be rounded once: CPUs differ in the last bits."""
    return _compiled(function, fastmath={"contract"})


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function))
    except RuntimeError:  # numba found no writable folder: compile anew in every process
        return cast(Function, numba.njit(nogil=True, error_model="numpy", **options)(function))
