"""What holds of the compiled loops of every room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from engine.native import prebuilt
from engine.native.loops import Loop


def assert_loops_fit(loops: Sequence[Loop]) -> None:
    """Names differ, and every loop has a function of as many arguments."""
    assert len({loop.name for loop in loops}) == len(loops)
    for loop in loops:
        code: Any = loop.function
        assert code.py_func.__code__.co_argcount == len(loop.arguments), loop.name


def assert_built_as_compiled(loop: Loop, drawn: Callable[[Loop], list[Any]]) -> None:
    """The loop that was built computes the bits of numba's from the arguments ``drawn``."""
    if prebuilt.addresses() is None:
        pytest.skip("this installation has no compiled kernels; python -m engine.simulate.kernels.build host says why")
    built, compiled = drawn(loop), drawn(loop)
    loop(*built)
    loop.function(*compiled)
    for one, other in zip(built, compiled, strict=True):
        np.testing.assert_array_equal(one, other)
