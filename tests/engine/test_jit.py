"""Compiled functions: numpy's rules of division, and an installation that cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from engine.jit import compiled, entry, fusing_entry


def quotient(numerator: float, denominator: float) -> float:
    return numerator / denominator


def test_a_division_by_zero_gives_infinity_as_in_numpy() -> None:
    assert entry(quotient)(1.0, 0.0) == np.inf


def test_machine_code_is_kept_and_the_lock_released(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _options(monkeypatch, lambda options: None) == [{"nogil": True, "cache": True, "error_model": "numpy"}]


def test_without_a_writable_folder_it_compiles_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(options: dict[str, Any]) -> None:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")

    assert _options(monkeypatch, refuse)[1:] == [{"nogil": True, "error_model": "numpy"}]


def test_products_are_fused_with_sums_only_where_a_function_allows_it() -> None:
    def tiny(factor: float, summand: float) -> float:
        return factor * factor + summand

    factor, summand = 1 + 2.0**-30, -1 - 2.0**-29
    assert entry(tiny)(factor, summand) == 0.0
    assert fusing_entry(tiny)(factor, summand) in (0.0, 2.0**-60)


def test_functions_inside_run_without_the_lock_and_divide_like_numpy() -> None:
    options = compiled(lambda: 0).targetoptions  # type: ignore[attr-defined]  # numba's
    assert (options["nogil"], options["error_model"]) == (True, "numpy")
    assert (options["no_cpython_wrapper"], options["no_cfunc_wrapper"]) == (True, True)


def _options(monkeypatch: pytest.MonkeyPatch, check: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
    """What :func:`entry` asks numba for, attempt by attempt; ``check`` may refuse one."""
    asked: list[dict[str, Any]] = []

    def njit(**options: Any) -> Callable[[Any], Any]:
        asked.append(options)
        check(options)
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    assert entry(quotient) is quotient
    return asked
