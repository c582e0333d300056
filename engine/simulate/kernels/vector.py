"""Vector instructions for numba kernels: register tiles of integer dot products, and requantisation of a vector.

numba's own vectoriser does not keep a tile of accumulators in registers, which is what makes a convolution fast. The
intrinsics here emit that inner code as LLVM vector IR: portable operations only (sign extensions, multiplications,
shuffles), which LLVM turns into ``pmaddwd`` or ``vpdpwssd`` on x86 and into multiply-accumulates elsewhere.

All of them work on addresses (``intp``); the caller guarantees that what lies there is large enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from engine.simulate.kernels.jit import intrinsic

I8, I16, I32, I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
PAIR = 2
"""Products that one 32-bit lane sums at a time: activations and weights are int16 pairs."""


@dataclass(frozen=True)
class Registers:
    """Shape of the register tiles that suit this CPU.

    Attributes:
        lanes: int32 lanes of a vector register.
        rows: for 1, 2, … vectors of output channels, the rows (pixels) of a tile, so that accumulators, one weight
            vector per column and one broadcast activation fit the register file.
    """

    lanes: int
    rows: tuple[int, ...]


def _host_registers() -> Registers:
    features = binding.get_host_cpu_features()
    if features.get("avx512bw"):
        return Registers(lanes=16, rows=(12, 12, 8, 6))
    if features.get("avx2"):
        return Registers(lanes=8, rows=(8, 6))
    return Registers(lanes=4, rows=(8, 6))


REGISTERS = _host_registers()
LANES = REGISTERS.lanes
VECTOR = ir.VectorType(I32, LANES)
PIXELS = 4
"""Neighbouring output pixels that a depthwise tile computes with one load of each weight."""


def make_dot_tile(vectors: int) -> Callable[..., None]:
    """Intrinsic ``(a, pitch, w, pairs, out)``: a tile of dot products.

    ``out[r, c] = sum_k a[r, k] * w[k, c]`` for ``REGISTERS.rows[vectors - 1]`` rows and ``vectors * LANES`` columns;
    ``a`` int16 rows ``pitch`` bytes apart, ``w`` int16 (pairs, columns, 2), ``out`` int32, dense.
    """
    rows = REGISTERS.rows[vectors - 1]

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        a, pitch, w, pairs, out = args
        tile = [_zeroed(builder) for _ in range(rows * vectors)]
        starts = [builder.add(a, builder.mul(pitch, _int(row))) for row in range(rows)]
        with cgutils.for_range(builder, pairs) as loop:
            columns = builder.add(w, builder.mul(loop.index, _int(vectors * LANES * 4)))
            weights = [_load(builder, builder.add(columns, _int(v * LANES * 4)), VECTOR) for v in range(vectors)]
            offset = builder.mul(loop.index, _int(4))
            for row in range(rows):
                pair = _splat(builder, _load(builder, builder.add(starts[row], offset), I32))
                for v in range(vectors):
                    total = tile[row * vectors + v]
                    builder.store(_add_dot_of_pairs(builder, builder.load(total), pair, weights[v]), total)
        return _write(context, builder, tile, out)

    @intrinsic
    def dot_tile(typing_context: Any, a: Any, pitch: Any, w: Any, pairs: Any, out: Any) -> Any:
        return _addresses(5), codegen

    return dot_tile


def make_taps_tile(x_type: ir.IntType) -> Callable[..., None]:
    """Intrinsic ``(x, step, offsets, taps, w, w_pitch, out)``: a depthwise tile.

    ``out[p, c] = sum_t x[p * step + offsets[t] + c] * w[t, c]`` for :data:`PIXELS` pixels and ``LANES`` channels;
    ``x`` of ``x_type``, ``step`` and ``offsets`` (int64) in bytes, ``w`` int32 rows ``w_pitch`` bytes apart.
    """
    narrow = ir.VectorType(x_type, LANES)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, step, offsets, taps, w, w_pitch, out = args
        tile = [_zeroed(builder) for _ in range(PIXELS)]
        starts = [builder.add(x, builder.mul(step, _int(pixel))) for pixel in range(PIXELS)]
        with cgutils.for_range(builder, taps) as loop:
            offset = _load(builder, builder.add(offsets, builder.mul(loop.index, _int(8))), I64)
            weight = _load(builder, builder.add(w, builder.mul(loop.index, w_pitch)), VECTOR)
            for start, total in zip(starts, tile, strict=True):
                wide = builder.sext(_load(builder, builder.add(start, offset), narrow), VECTOR)
                builder.store(builder.add(builder.load(total), builder.mul(wide, weight)), total)
        return _write(context, builder, tile, out)

    @intrinsic
    def taps_tile(
        typing_context: Any, x: Any, step: Any, offsets: Any, taps: Any, w: Any, w_pitch: Any, out: Any
    ) -> Any:
        return _addresses(7), codegen

    return taps_tile


def make_add_residual(e_type: ir.IntType) -> Callable[..., None]:
    """Intrinsic ``(acc, e, scale, left, right)``: ``acc += ((e * scale) << left) >> right`` on one int32 vector.

    ``e`` of ``e_type``; all arguments are addresses.
    """
    narrow = ir.VectorType(e_type, LANES)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        acc, e, scale, left, right = args
        product = builder.mul(builder.sext(_load(builder, e, narrow), VECTOR), _load(builder, scale, VECTOR))
        moved = builder.ashr(builder.shl(product, _load(builder, left, VECTOR)), _load(builder, right, VECTOR))
        _store(builder, builder.add(_load(builder, acc, VECTOR), moved), acc)
        return context.get_dummy_value()

    @intrinsic
    def add_residual(typing_context: Any, acc: Any, e: Any, scale: Any, left: Any, right: Any) -> Any:
        return _addresses(5), codegen

    return add_residual


def make_requantize(y_type: ir.IntType) -> Callable[..., None]:
    """Intrinsic ``(acc, bias, right_shift, scale, out_shift, low, high, y)`` on one vector.

    ``y = clip((sat16((acc + bias) >> right_shift) * scale) >> out_shift, low, high)``; ``low`` and ``high`` are
    numbers, the others addresses of int32 vectors, of ``y_type`` for ``y``.
    """
    narrow = ir.VectorType(y_type, LANES)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        acc, bias, right_shift, scale, out_shift, low, high, y = args
        total = builder.add(_load(builder, acc, VECTOR), _load(builder, bias, VECTOR))
        shifted = builder.ashr(total, _load(builder, right_shift, VECTOR))
        narrowed = _clip(builder, shifted, _int32(builder, -32768), _int32(builder, 32767))
        product = builder.mul(narrowed, _load(builder, scale, VECTOR))
        result = builder.ashr(product, _load(builder, out_shift, VECTOR))
        bounds = (_splat(builder, builder.trunc(bound, I32)) for bound in (low, high))
        _store(builder, builder.trunc(_clip(builder, result, *bounds), narrow), y)
        return context.get_dummy_value()

    @intrinsic
    def requantize(
        typing_context: Any,
        acc: Any,
        bias: Any,
        right_shift: Any,
        scale: Any,
        out_shift: Any,
        low: Any,
        high: Any,
        y: Any,
    ) -> Any:
        return _addresses(8), codegen

    return requantize


@intrinsic
def add_bias(typing_context: Any, acc: Any, bias: Any, low: Any, y: Any) -> Any:
    """``y = max(acc + bias, low)`` on one int32 vector; ``low`` is a number, the others addresses."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        acc, bias, low, y = args
        total = builder.add(_load(builder, acc, VECTOR), _load(builder, bias, VECTOR))
        bound = _splat(builder, builder.trunc(low, I32))
        _store(builder, builder.select(builder.icmp_signed(">", total, bound), total, bound), y)
        return context.get_dummy_value()

    return _addresses(4), codegen


@intrinsic
def atomic_increment(typing_context: Any, address: Any) -> Any:
    """Add 1 to the int64 at ``address`` in one indivisible step."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        builder.atomic_rmw("add", builder.inttoptr(args[0], I64.as_pointer()), _int(1), "seq_cst")
        return context.get_dummy_value()

    return _addresses(1), codegen


@intrinsic
def atomic_load(typing_context: Any, address: Any) -> Any:
    """The int64 at ``address``, which another thread may change."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.load_atomic(builder.inttoptr(args[0], I64.as_pointer()), "seq_cst", 8)

    return types.intp(types.intp), codegen


@intrinsic
def void_pointer(typing_context: Any, address: Any) -> Any:
    """``address`` as a pointer, for :func:`numba.carray`."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), codegen


def _addresses(count: int) -> Any:
    return types.void(*[types.intp] * count)


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def _int32(builder: ir.IRBuilder, value: int) -> ir.Value:
    return _splat(builder, ir.Constant(I32, value))


def _zeroed(builder: ir.IRBuilder) -> ir.Value:
    slot = cgutils.alloca_once(builder, VECTOR)
    builder.store(ir.Constant(VECTOR, None), slot)
    return slot


def _load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def _store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def _splat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(VECTOR, [0] * LANES))


def _clip(builder: ir.IRBuilder, value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    raised = builder.select(builder.icmp_signed(">", value, low), value, low)
    return builder.select(builder.icmp_signed("<", raised, high), raised, high)


def _add_dot_of_pairs(builder: ir.IRBuilder, total: ir.Value, a: ir.Value, w: ir.Value) -> ir.Value:
    """``total + a.low * w.low + a.high * w.high`` per lane: the pattern that LLVM knows as pmaddwd."""
    pairs, wide = ir.VectorType(I16, PAIR * LANES), ir.VectorType(I32, PAIR * LANES)
    products = builder.mul(builder.sext(builder.bitcast(a, pairs), wide), builder.sext(builder.bitcast(w, pairs), wide))
    low, high = (_every_second(builder, products, start) for start in range(PAIR))
    return builder.add(total, builder.add(low, high))


def _every_second(builder: ir.IRBuilder, value: ir.Value, start: int) -> ir.Value:
    lanes = ir.Constant(VECTOR, list(range(start, PAIR * LANES, PAIR)))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), lanes)


def _write(context: Any, builder: ir.IRBuilder, tile: Sequence[ir.Value], out: ir.Value) -> ir.Value:
    for index, slot in enumerate(tile):
        _store(builder, builder.load(slot), builder.add(out, _int(index * LANES * 4)))
    return context.get_dummy_value()
