"""Scalar operations as LLVM IR: shifts in 32 bits, and what threads share memory with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import compiled, intrinsic

I64 = ir.IntType(64)


@intrinsic
def shifted_left(typing_context: Any, value: Any, bits: Any) -> Any:
    """``value << bits`` in 32 bits, ``bits`` 0 to 31: Python's operator would make it 64."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.shl(*args)

    return types.int32(types.int32, types.int32), codegen


@intrinsic
def shifted_right(typing_context: Any, value: Any, bits: Any) -> Any:
    """``value >> bits`` in 32 bits, floored, ``bits`` 0 to 31."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.ashr(*args)

    return types.int32(types.int32, types.int32), codegen


@intrinsic
def unsigned_parts(typing_context: Any, value: Any, divisor: Any) -> Any:
    """``value // divisor`` and ``value % divisor`` by one division, of a ``value`` from 0 and a ``divisor`` from 1."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        pair = types.UniTuple(types.intp, 2)
        return context.make_tuple(builder, pair, (builder.udiv(*args), builder.urem(*args)))

    return types.UniTuple(types.intp, 2)(types.intp, types.intp), codegen


@compiled
def divided(value: int, divisor: int) -> tuple[int, int]:
    """The same, without a division where ``divisor`` is 1 or more than ``value``: one takes longer than it seems."""
    if divisor == 1:
        return value, 0
    if value < divisor:
        return 0, value
    parts: tuple[int, int] = unsigned_parts(value, divisor)
    return parts


@intrinsic
def call_kernel(typing_context: Any, kernel: Any, record: Any, arena: Any, scratch: Any, begin: Any, end: Any) -> Any:
    """Call the function at the address ``kernel``, one of :mod:`engine.simulate.kernels.entries`."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        address, *given = args
        kind = ir.FunctionType(ir.VoidType(), [I64] * len(given))
        builder.call(builder.inttoptr(address, kind.as_pointer()), given)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), codegen


@intrinsic
def atomic_load(typing_context: Any, address: Any) -> Any:
    """The int64 at ``address``, which another thread may change; what that had stored before it is there, too."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.load_atomic(builder.inttoptr(args[0], I64.as_pointer()), "acquire", 8)

    return types.intp(types.intp), codegen


@intrinsic
def atomic_store(typing_context: Any, address: Any, value: Any) -> Any:
    """Set the int64 at ``address``, which other threads read; this one does not wait until they see it."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        builder.store_atomic(args[1], builder.inttoptr(args[0], I64.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@intrinsic
def exchange_if(typing_context: Any, address: Any, expected: Any, value: Any) -> Any:
    """Set the int64 at ``address`` to ``value`` if it is ``expected``, in one indivisible step; whether it was."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        pointer = builder.inttoptr(args[0], I64.as_pointer())
        return builder.extract_value(builder.cmpxchg(pointer, args[1], args[2], "seq_cst", "seq_cst"), 1)

    return types.boolean(types.intp, types.intp, types.intp), codegen


@intrinsic
def void_pointer(typing_context: Any, address: Any) -> Any:
    """``address`` as a pointer, for :func:`numba.carray`."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), codegen
