"""The CPU's estimate of a reciprocal root, which a runtime's square root begins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import intrinsic
from engine.native.registers import LEVEL

ESTIMATES = LEVEL is not None
"""Whether the CPU has ``rsqrtss``: those of x86-64 have."""
_QUAD = ir.VectorType(ir.FloatType(), 4)


def make_reciprocal_root(native: bool) -> Callable[[Any], Any]:
    """Intrinsic ``(x)``: about ``1 / sqrt(x)`` of float32, good to 12 bits, or without ``native`` the exact quotient.

    CPUs of one maker give the same bits.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        (x,) = args
        if native:
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_QUAD, [_QUAD]), "llvm.x86.sse.rsqrt.ss"
            )
            lane = ir.Constant(ir.IntType(32), 0)
            found = builder.call(function, [builder.insert_element(ir.Constant(_QUAD, ir.Undefined), x, lane)])
            return builder.extract_element(found, lane)
        kind = ir.FunctionType(x.type, [x.type])
        root = builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.f32"), [x])
        return builder.fdiv(ir.Constant(x.type, 1.0), root)

    @intrinsic
    def reciprocal_root(typing_context: Any, x: Any) -> Any:
        return types.float32(types.float32), codegen

    return reciprocal_root


reciprocal_root = make_reciprocal_root(ESTIMATES)
