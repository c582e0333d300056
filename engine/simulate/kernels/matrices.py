"""Products of int8 and int16 by instructions that multiply matrices (AMX): sums of int32 in registers.

A register has 16 rows of 64 bytes.

An operand's rows lie as far apart as its pixels. Of weights a register holds 16 steps of a vector, each of four values
of every channel. What is summed is exact, and wraps like the BPU's accumulator. Bytes of int16 lie as they are: their
lower ones, unsigned, meet weights in every second place, their upper ones the same weights in the places between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import compiled, inlined, intrinsic
from engine.native.registers import LANES
from engine.simulate.kernels.tiles import (
    DEPTH,
    MATRICES,
    MOST_HIGH,
    MOST_WIDE,
    REGISTER_BYTES,
    ROW_BYTES,
    SIDE,
)
from engine.simulate.kernels.vector import VECTOR, load, store

I8, I64 = ir.IntType(8), ir.IntType(64)
_COUNT = 8
_CONFIGURATION = 64
_FIRST_A, _FIRST_B = 4, 6
"""Registers of operands; those before hold sums."""


@intrinsic
def begin_matrices(typing_context: Any) -> Any:
    """Give all registers their full size, as :func:`products` takes them; :func:`end_matrices` gives them back."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if MATRICES:
            sizes = [*([ROW_BYTES, 0] * _COUNT), *([0] * 16), *([SIDE] * _COUNT), *([0] * 8)]
            values = [1, *([0] * 15), *sizes]  # palette 1, then bytes of a row, then rows
            constant = ir.Constant(ir.ArrayType(I8, _CONFIGURATION), bytearray(values))
            place = cgutils.alloca_once(builder, constant.type)
            builder.store(constant, place)
            _call(builder, "ldtilecfg", [builder.bitcast(place, I8.as_pointer())])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def end_matrices(typing_context: Any) -> Any:
    """Leave nothing in the registers, so that no change of threads saves them."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if MATRICES:
            _call(builder, "tilerelease", [])
        return context.get_dummy_value()

    return types.void(), codegen


def make_step(heights: int, widths: int, halves: bool = False) -> Callable[..., None]:
    """Intrinsic ``(a, pitch, w)``: one step of the products of ``heights`` times ``widths`` matrices.

    With ``halves`` the first of two matrices of weights meets bytes that are unsigned.

    ``a`` int8, ``heights * SIDE`` rows ``pitch`` bytes apart; ``w`` int8, a register of :data:`DEPTH` steps of four of
    each of ``widths`` vectors. The sums stay in registers: :func:`clear_sums` begins them, :func:`make_store` ends.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if MATRICES:
            a, pitch, w = args
            for row in range(heights):
                address = builder.add(a, builder.mul(pitch, _int(row * SIDE)))
                _call(builder, "tileloadd64", [_register(_FIRST_A + row), _pointer(builder, address), pitch])
            for column in range(widths):
                address = builder.add(w, _int(column * REGISTER_BYTES))
                _call(
                    builder, "tileloadd64", [_register(_FIRST_B + column), _pointer(builder, address), _int(ROW_BYTES)]
                )
            for row in range(heights):
                for column in range(widths):
                    total = _register(row * MOST_WIDE + column)
                    name = "tdpbusd" if halves and column == 0 else "tdpbssd"
                    _call(builder, name, [total, _register(_FIRST_A + row), _register(_FIRST_B + column)])
        return context.get_dummy_value()

    @intrinsic
    def step(typing_context: Any, a: Any, pitch: Any, w: Any) -> Any:
        return types.void(*[types.intp] * 3), codegen

    return step


def make_store(heights: int, widths: int) -> Callable[..., None]:
    """Intrinsic ``(out, pitch)``: the sums of so many matrices, int32, to rows ``pitch`` bytes apart."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if MATRICES:
            out, pitch = args
            for row in range(heights):
                for column in range(widths):
                    address = builder.add(out, builder.mul(pitch, _int(row * SIDE)))
                    address = builder.add(address, _int(column * ROW_BYTES))
                    total = _register(row * MOST_WIDE + column)
                    _call(builder, "tilestored64", [total, _pointer(builder, address), pitch])
        return context.get_dummy_value()

    @intrinsic
    def store_sums(typing_context: Any, out: Any, pitch: Any) -> Any:
        return types.void(types.intp, types.intp), codegen

    return store_sums


@intrinsic
def clear_sums(typing_context: Any) -> Any:
    """Zeros in the registers of sums."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if MATRICES:
            for number in range(_FIRST_A):
                _call(builder, "tilezero", [_register(number)])
        return context.get_dummy_value()

    return types.void(), codegen


step_1_1, step_1_2, step_2_1, step_2_2 = (make_step(row, column) for row in (1, 2) for column in (1, 2))
halves_1, halves_2 = make_step(1, 2, halves=True), make_step(2, 2, halves=True)
store_1_1, store_1_2, store_2_1, store_2_2 = (make_store(row, column) for row in (1, 2) for column in (1, 2))


@inlined
def add_step(rows: int, vectors: int, a: int, pitch: int, w: int, quads: int) -> int:
    """One step of sums of up to :data:`MOST_HIGH` ``rows`` and two of ``vectors``; where the next one's weights lie.

    Without ``quads`` the rows are int16, and the sums are those of the lower and of the upper bytes with one vector.
    """
    if not quads:
        if rows > SIDE:
            halves_2(a, pitch, w)
        else:
            halves_1(a, pitch, w)
        return w + MOST_WIDE * REGISTER_BYTES
    if rows > SIDE:
        if vectors > 1:
            step_2_2(a, pitch, w)
        else:
            step_2_1(a, pitch, w)
    elif vectors > 1:
        step_1_2(a, pitch, w)
    else:
        step_1_1(a, pitch, w)
    return w + min(vectors, MOST_WIDE) * REGISTER_BYTES


@inlined
def store_sums(rows: int, vectors: int, out: int, pitch: int) -> None:
    """Store what :func:`add_step` summed."""
    if rows > SIDE:
        if vectors > 1:
            store_2_2(out, pitch)
        else:
            store_2_1(out, pitch)
    elif vectors > 1:
        store_1_2(out, pitch)
    else:
        store_1_1(out, pitch)


@compiled
def store_halves(rows: int, out: int, pitch: int, spare: int) -> None:
    """Store sums of lower and upper bytes, put together; ``spare`` is memory for rows of two registers."""
    store_sums(rows, MOST_WIDE, spare, MOST_WIDE * ROW_BYTES)
    for row in range(min(rows, MOST_HIGH)):
        join_halves(spare + row * MOST_WIDE * ROW_BYTES, out + row * pitch)


@intrinsic
def join_halves(typing_context: Any, halves: Any, out: Any) -> Any:
    """A vector of int32, and the next one times 256."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        lower, upper = (load(builder, builder.add(args[0], _int(k * ROW_BYTES)), VECTOR) for k in range(2))
        moved = builder.shl(upper, ir.Constant(VECTOR, [8] * LANES))
        store(builder, builder.add(lower, moved), args[1])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@compiled
def products(
    rows: int, vectors: int, a: int, pitch: int, pieces: int, between: int, weights: int, steps: int, out: int
) -> int:
    """Sums of up to :data:`MOST_HIGH` ``rows`` with a panel of ``vectors`` vectors of channels; how many rows.

    ``out[r, c] = sum_p sum_k a[r, p, k] * w[p, k, c]`` modulo 2**32; ``a`` int8, rows ``pitch`` bytes apart and their
    pieces ``between``, ``steps`` a multiple of :data:`DEPTH`; ``weights`` in the order of
    ``engine.simulate.lowering.matrices.in_registers``; ``out`` int32 (rows, vectors, lanes). A last matrix may have
    rows that do not exist.
    """
    w = weights
    for first in range(0, vectors, MOST_WIDE):
        clear_sums()
        for piece in range(pieces):
            source = a + piece * between
            for _ in range(steps // DEPTH):
                w = add_step(rows, vectors - first, source, pitch, w, 1)
                source += ROW_BYTES
        store_sums(rows, vectors - first, out + first * LANES * 4, vectors * LANES * 4)
    return min(rows, MOST_HIGH)


@inlined
def register_place(vector: int, step: int, vectors: int, steps: int) -> int:
    """Bytes from the start of a panel, in the order of :func:`products`, to a step of one of its ``vectors``."""
    pair, within = vector // MOST_WIDE, vector % MOST_WIDE
    registers = pair * MOST_WIDE * (steps // DEPTH) + step // DEPTH * min(MOST_WIDE, vectors - pair * MOST_WIDE)
    return (registers + within) * REGISTER_BYTES + step % DEPTH * ROW_BYTES


def _call(builder: ir.IRBuilder, name: str, arguments: Sequence[ir.Value]) -> None:
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), arguments)


def _register(number: int) -> ir.Constant:
    return ir.Constant(I8, number)


def _pointer(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.inttoptr(address, I8.as_pointer())


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)
