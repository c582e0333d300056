"""``a * b + c`` of float32, rounded once on every CPU."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba.core import cgutils

from engine.native.registers import LEVEL

FUSES = LEVEL is None or "fma" in LEVEL.features
"""Whether the CPU rounds ``a * b + c`` once by itself."""


def multiply_add(builder: ir.IRBuilder, args: Sequence[ir.Value], native: bool = FUSES) -> ir.Value:
    """``args[0] * args[1] + args[2]`` of three float32, or of three vectors of them.

    Without the CPU's own instruction (``native``): in float64, with an odd last bit where the sum is not exact.
    """
    narrow = args[0].type
    if native:
        name = f"llvm.fma.v{narrow.count}f32" if isinstance(narrow, ir.VectorType) else "llvm.fma.f32"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(narrow, [narrow] * 3), name)
        return builder.call(function, args)
    wide, integer = (_like(narrow, item) for item in (ir.DoubleType(), ir.IntType(64)))
    a, b, c = (builder.fpext(value, wide) for value in args)
    product = builder.fmul(a, b)
    total = builder.fadd(product, c)
    part = builder.fsub(total, product)
    error = builder.fadd(builder.fsub(product, builder.fsub(total, part)), builder.fsub(c, part))
    zero, bits = _all(wide, 0.0), builder.bitcast(total, integer)
    even = builder.icmp_signed("==", builder.and_(bits, _all(integer, 1)), _all(integer, 0))
    above = builder.fcmp_ordered(">", error, zero)
    same = builder.icmp_signed("==", above, builder.fcmp_ordered(">", total, zero))
    step = builder.select(same, _all(integer, 1), _all(integer, -1))
    inexact = builder.and_(builder.fcmp_ordered("!=", error, zero), even)
    odd = builder.add(bits, builder.select(inexact, step, _all(integer, 0)))
    return builder.fptrunc(builder.bitcast(odd, wide), narrow)


def _like(kind: ir.Type, item: ir.Type) -> ir.Type:
    """``item``, or as many of them as the vector ``kind`` has."""
    return ir.VectorType(item, kind.count) if isinstance(kind, ir.VectorType) else item


def _all(kind: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)
