"""numba's code generator, made to stop at LLVM IR.

numba optimises every function, then again with each function that calls it, and makes machine code of each: where one
object is made of many functions, all of that is done once more with all of them together. Compiling ahead, it took half
of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import codegen
from numba.core.registry import cpu_target


class _Library(codegen.CPUCodeLibrary):  # type: ignore[misc]  # numba ships no types
    """A function and those that it calls. Passes over single functions are run: what is linked later is smaller."""

    def _optimize_final_module(self) -> None:
        """Leave the module to who takes it."""

    def _finalize_specific(self) -> None:
        """Nothing refers to addresses."""

    def _get_compiled_object(self) -> bytes:
        """What numba's cache would keep."""
        return b""

    def get_pointer_to_function(self, name: str) -> int:
        """No address; numba relies on this call to link what ``name`` calls."""
        self._ensure_finalized()
        return 0


class _Generator(codegen.JITCPUCodegen):  # type: ignore[misc]
    """numba's generator for the CPU that ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` name."""

    _library_class = _Library

    def _add_module(self, module: Any) -> None:
        """Keep ``module`` from the engine, which would compile it."""

    def set_env(self, env_name: str, env: Any) -> None:
        """Functions that Python does not call read no environment."""


@contextmanager
def intermediate_code() -> Iterator[Any]:
    """Within, numba's libraries hold LLVM IR alone, and its functions cannot be called; gives the target machine."""
    context = cpu_target.target_context
    kept, context._internal_codegen = context._internal_codegen, _Generator("ahead")
    try:
        yield context._internal_codegen._tm
    finally:
        context._internal_codegen = kept
