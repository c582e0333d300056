"""Multiply-adds of vectors, with and without the CPU's own instruction, round once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba import types

from engine.floats import fused as definition
from engine.floats.multiply_add import FUSES, multiply_add
from engine.jit import intrinsic

FOUR = ir.VectorType(ir.FloatType(), 4)


def of_four(native: bool) -> Any:
    """Intrinsic on the addresses of four float32 each."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        pointers = [builder.inttoptr(address, FOUR.as_pointer()) for address in args]
        result = multiply_add(builder, [builder.load(pointer, align=4) for pointer in pointers[:3]], native)
        builder.store(result, pointers[3], align=4)
        return context.get_dummy_value()

    @intrinsic
    def compute(typing_context: Any, a: Any, b: Any, c: Any, out: Any) -> Any:
        return types.void(*[types.intp] * 4), codegen

    return compute


by_hand, as_it_is = of_four(False), of_four(FUSES)


@numba.njit
def computed(native: bool, a: int, b: int, c: int, out: int, count: int) -> None:
    for k in range(0, 4 * count, 16):
        if native:
            as_it_is(a + k, b + k, c + k, out + k)
        else:
            by_hand(a + k, b + k, c + k, out + k)


@pytest.mark.parametrize("native", [True, False])
def test_vectors_round_once(native: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(4000).astype(np.float32) for _ in range(2))
    c = (np.exp2(rng.integers(-40, 40, 4000)) * rng.choice([-1, 1], 4000)).astype(np.float32)
    out = np.empty_like(a)
    computed(native, a.ctypes.data, b.ctypes.data, c.ctypes.data, out.ctypes.data, len(a))
    np.testing.assert_array_equal(out, definition.fused(a, b, c))
