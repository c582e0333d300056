"""Vector instructions for numba kernels: register tiles of integer dot products, and requantisation of a vector.

numba's own vectoriser does not keep a tile of accumulators in registers, which is what makes a convolution fast. The
intrinsics here emit that inner code as LLVM vector IR: portable operations only (sign extensions, multiplications,
shuffles), which LLVM turns into ``pmaddwd`` or ``vpdpwssd`` on x86 and into multiply-accumulates elsewhere.

All of them work on addresses (``intp``); the caller guarantees that what lies there is large enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import intrinsic
from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.tiles import (
    BIAS,
    CHAIN,
    E_LEFT,
    E_RIGHT,
    E_SCALE,
    FLIP,
    HALF,
    OUT_SHIFT,
    PAIR,
    PIXELS,
    RIGHT_SHIFT,
    RUN,
    SCALE,
    STEP_BYTES,
)

I8, I16, I32, I64, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS = ir.VectorType(F32, LANES)
VECTOR = ir.VectorType(I32, LANES)
ROWS_ADDRESSED = 3
"""Rows that an instruction of x86 addresses from the first of them: a register, and another one or two times."""


def make_dot_tile(rows: int, vectors: int, quads: bool = False, ahead: int = 0) -> Callable[..., None]:
    """Intrinsic ``(a, pitch, pieces, piece_pitch, w, steps, out)``: a tile of dot products.

    ``out[r, c] = sum_p sum_k a[r, p, k] * w[p, k, c]`` for ``rows`` rows and ``vectors * LANES`` columns, modulo 2**32;
    ``a`` rows ``pitch`` bytes apart and their pieces ``piece_pitch``; ``out`` int32, dense. A step is a pair of int16,
    ``w`` int16 (pieces, steps, columns, 2), or with ``quads`` four uint8, ``w`` int8 (pieces, steps, columns, 4). With
    ``ahead`` each step brings what lies so many bytes behind its weights into the second cache.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        *operands, out = args
        tile = [_zeroed(builder) for _ in range(rows * vectors)]
        add_products(builder, tile, vectors, quads, operands, bytes_ahead(builder, operands, vectors, ahead))
        return _write(context, builder, tile, out)

    @intrinsic
    def dot_tile(
        typing_context: Any, a: Any, pitch: Any, pieces: Any, piece_pitch: Any, w: Any, steps: Any, out: Any
    ) -> Any:
        return addresses(7), codegen

    return dot_tile


def add_products(
    builder: ir.IRBuilder,
    tile: Sequence[ir.Value],
    vectors: int,
    quads: bool,
    operands: Sequence[ir.Value],
    following: Sequence[ir.Value] = (),
) -> None:
    """Add the dot products of :func:`make_dot_tile`, whose first six arguments are ``operands``, to ``tile``.

    ``tile`` holds the places of sums, ``vectors`` for each row, which stay in registers. ``following`` is an address
    that comes next, from which each step brings so many bytes more into the second cache.
    """
    if quads and CHAIN > 1:
        _add_chains(builder, tile, vectors, operands)
        return
    add_dots = dot_of_quads if quads else _add_dot_of_pairs
    a, pitch, pieces, piece_pitch, w, steps = operands
    step_bytes = _int(vectors * LANES * 4)
    with cgutils.for_range(builder, pieces) as piece:
        first = builder.add(a, builder.mul(piece.index, piece_pitch))
        starts = _row_starts(builder, first, pitch, len(tile) // vectors)
        begin = builder.add(w, builder.mul(builder.mul(piece.index, steps), step_bytes))
        with cgutils.for_range(builder, steps) as loop:
            columns = builder.add(begin, builder.mul(loop.index, step_bytes))
            weights = [load(builder, builder.add(columns, _int(v * LANES * 4)), VECTOR) for v in range(vectors)]
            offset = builder.mul(loop.index, _int(4))
            if following:
                done = builder.add(builder.mul(piece.index, steps), loop.index)
                _prefetch(builder, builder.add(following[0], builder.mul(done, following[1])))
            for row, start in enumerate(starts):
                step = splat(builder, load(builder, builder.add(start, offset), I32))
                for v in range(vectors):
                    total = tile[row * vectors + v]
                    builder.store(add_dots(builder, builder.load(total), step, weights[v]), total)


def _add_chains(builder: ir.IRBuilder, tile: Sequence[ir.Value], vectors: int, operands: Sequence[ir.Value]) -> None:
    """What :func:`add_products` does for bytes with AVX2: products of :data:`CHAIN` steps meet in int16.

    Behind the weights lie those of steps by themselves, which would not fit: their number, int64, how far from the
    first byte of a row each is, int64, and their weights.
    """
    a, pitch, pieces, piece_pitch, w, steps = operands
    rows, step_bytes = len(tile) // vectors, vectors * LANES * 4

    def add(starts: Sequence[ir.Value], columns: ir.Value, offset: ir.Value, count: int) -> None:
        weights = [
            [load(builder, builder.add(columns, _int(k * step_bytes + v * LANES * 4)), VECTOR) for v in range(vectors)]
            for k in range(count)
        ]
        for row, start in enumerate(starts):
            at = builder.add(start, offset)
            taken = [splat(builder, load(builder, builder.add(at, _int(k * STEP_BYTES)), I32)) for k in range(count)]
            for v in range(vectors):
                halves = [_sums_of_two(builder, taken[k], weights[k][v]) for k in range(count)]
                total = tile[row * vectors + v]
                summed = _sums_of_halves(builder, reduce(builder.add, halves))
                builder.store(builder.add(builder.load(total), summed), total)

    with cgutils.for_range(builder, pieces) as piece:
        first = builder.add(a, builder.mul(piece.index, piece_pitch))
        starts = [builder.add(first, builder.mul(pitch, _int(row))) for row in range(rows)]
        begin = builder.add(w, builder.mul(builder.mul(piece.index, steps), _int(step_bytes)))
        with cgutils.for_range(builder, builder.udiv(steps, _int(CHAIN))) as loop:
            columns = builder.add(begin, builder.mul(loop.index, _int(CHAIN * step_bytes)))
            add(starts, columns, builder.mul(loop.index, _int(CHAIN * STEP_BYTES)), CHAIN)
    apart = builder.add(w, builder.mul(builder.mul(pieces, steps), _int(step_bytes)))
    count = load(builder, apart, I64)
    offsets = builder.add(apart, _int(8))
    columns = builder.add(offsets, builder.mul(count, _int(8)))
    starts = [builder.add(a, builder.mul(pitch, _int(row))) for row in range(rows)]
    with cgutils.for_range(builder, count) as loop:
        offset = load(builder, builder.add(offsets, builder.mul(loop.index, _int(8))), I64)
        add(starts, builder.add(columns, builder.mul(loop.index, _int(step_bytes))), offset, 1)


def _row_starts(builder: ir.IRBuilder, first: ir.Value, pitch: ir.Value, rows: int) -> list[ir.Value]:
    """Where rows begin, each group of :data:`ROWS_ADDRESSED` by itself.

    LLVM would find each row from the one before in every step: 12 rows of two vectors of AVX-512 take 47 instructions
    instead of 54, six of AVX2 37 instead of 42.
    """
    starts: list[ir.Value] = []
    for row in range(rows):
        apart = row % ROWS_ADDRESSED
        if not apart:
            starts.append(_unseen(builder, builder.add(first, builder.mul(pitch, _int(row)))))
        else:
            starts.append(builder.add(starts[row - apart], builder.mul(pitch, _int(apart))))
    return starts


def _unseen(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """``value``, an integer of 64 bits, of which the compiler does not know how it came about."""
    kind = ir.FunctionType(I64, [I64])
    return builder.call(ir.InlineAsm(kind, "", "=r,0"), [value])


def bytes_ahead(builder: ir.IRBuilder, operands: Sequence[ir.Value], vectors: int, ahead: int) -> tuple[ir.Value, ...]:
    """What :func:`add_products` takes as ``following`` for weights that lie ``ahead`` bytes behind; nothing for 0."""
    return (builder.add(operands[4], _int(ahead)), _int(vectors * LANES * 4)) if ahead else ()


def _prefetch(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Bring what lies at ``address`` into the second cache."""
    kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    flags = [ir.Constant(I32, flag) for flag in (0, 2, 1)]
    builder.call(function, [builder.inttoptr(address, I8.as_pointer()), *flags])


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Bring what lies at ``address`` into the second cache."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        _prefetch(builder, args[0])
        return context.get_dummy_value()

    return addresses(1), codegen


@intrinsic
def widen_run(typing_context: Any, source: Any, target: Any, size: Any) -> Any:
    """Copy ``size`` int8 to int16; up to :data:`RUN` - 1 more are read and written behind them."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        source, target, size = args
        runs = builder.udiv(builder.add(size, _int(RUN - 1)), _int(RUN))
        with cgutils.for_range(builder, runs) as loop:
            start = builder.mul(loop.index, _int(RUN))
            narrow = load(builder, builder.add(source, start), ir.VectorType(I8, RUN))
            wide = builder.sext(narrow, ir.VectorType(I16, RUN))
            store(builder, wide, builder.add(target, builder.mul(start, _int(2))))
        return context.get_dummy_value()

    return addresses(3), codegen


@intrinsic
def flip_run(typing_context: Any, source: Any, target: Any, size: Any) -> Any:
    """Copy ``size`` int8 as dot products take them; up to ``2 * RUN - 1`` more are read and written behind them."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        source, target, size = args
        kind = ir.VectorType(I8, 2 * RUN)
        runs = builder.udiv(builder.add(size, _int(2 * RUN - 1)), _int(2 * RUN))
        with cgutils.for_range(builder, runs) as loop:
            start = builder.mul(loop.index, _int(2 * RUN))
            value = load(builder, builder.add(source, start), kind)
            store(builder, builder.xor(value, ir.Constant(kind, [-FLIP] * (2 * RUN))), builder.add(target, start))
        return context.get_dummy_value()

    return addresses(3), codegen


@intrinsic
def copy_rows(typing_context: Any, source: Any, step: Any, target: Any, pitch: Any, rows: Any, size: Any) -> Any:
    """Copy ``size`` int8 of each of ``rows`` as dot products take them; with AVX-512, nothing else is read or written.

    Rows of ``source`` begin ``step`` bytes apart, those of ``target`` ``pitch``.
    """
    kind = ir.VectorType(I8, 2 * RUN)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if not REGISTERS.quads:
            return context.get_dummy_value()
        source, step, target, pitch, rows, size = args
        flips = ir.Constant(kind, [-FLIP] * (2 * RUN))
        lines, rest = builder.lshr(size, _int(6)), builder.and_(size, _int(2 * RUN - 1))
        first = builder.shl(lines, _int(6))
        with cgutils.for_range(builder, lines) as line, cgutils.for_range(builder, rows) as row:
            at = builder.shl(line.index, _int(6))
            read = builder.add(builder.add(source, at), builder.mul(row.index, step))
            written = builder.add(builder.add(target, at), builder.mul(row.index, pitch))
            store(builder, builder.xor(load(builder, read, kind), flips), written)
        bits = builder.sub(builder.shl(_int(1), rest), _int(1))
        mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), 2 * RUN))
        with (
            builder.if_then(builder.icmp_unsigned("!=", rest, _int(0))),
            cgutils.for_range(builder, rows) as row,
        ):
            read = builder.add(builder.add(source, first), builder.mul(row.index, step))
            written = builder.add(builder.add(target, first), builder.mul(row.index, pitch))
            masked_store(builder, builder.xor(masked_load(builder, read, mask), flips), written, mask)
        return context.get_dummy_value()

    return addresses(6), codegen


def masked_load(builder: ir.IRBuilder, address: ir.Value, mask: ir.Value) -> ir.Value:
    """The bytes at ``address`` that ``mask`` has, zeros for the others; any alignment."""
    kind = ir.VectorType(I8, mask.type.count)
    function = ir.FunctionType(kind, [kind.as_pointer(), I32, mask.type, kind])
    name = f"llvm.masked.load.v{kind.count}i8.p0v{kind.count}i8"
    loaded = cgutils.get_or_insert_function(builder.module, function, name)
    pointer = builder.inttoptr(address, kind.as_pointer())
    return builder.call(loaded, [pointer, ir.Constant(I32, 1), mask, ir.Constant(kind, None)])


def masked_store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, mask: ir.Value) -> None:
    """The bytes of ``value`` that ``mask`` has, any alignment: no more than they may lie in one line of the cache."""
    kind = ir.VectorType(I8, mask.type.count)
    function = ir.FunctionType(ir.VoidType(), [kind, kind.as_pointer(), I32, mask.type])
    name = f"llvm.masked.store.v{kind.count}i8.p0v{kind.count}i8"
    stored = cgutils.get_or_insert_function(builder.module, function, name)
    pointer = builder.inttoptr(address, kind.as_pointer())
    builder.call(stored, [builder.bitcast(value, kind), pointer, ir.Constant(I32, 1), mask])


def make_taps_tile(x_type: ir.IntType) -> Callable[..., None]:
    """Intrinsic ``(x, step, offsets, taps, w, w_pitch, out)``: a depthwise tile of any window.

    ``out[p, c] = sum_t x[p * step + offsets[t] + c] * w[t, c]`` for :data:`PIXELS` pixels and ``LANES`` channels;
    ``x`` of ``x_type``; ``step`` and ``offsets`` (int64) in bytes; ``w`` int16 pairs (weight, 0), rows ``w_pitch``
    bytes apart; ``out`` int32, dense.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, step, offsets, taps, w, w_pitch, out = args
        tile = [_zeroed(builder) for _ in range(PIXELS)]
        starts = [builder.add(x, builder.mul(step, _int(pixel))) for pixel in range(PIXELS)]
        with cgutils.for_range(builder, taps) as loop:
            offset = load(builder, builder.add(offsets, builder.mul(loop.index, _int(8))), I64)
            weight = load(builder, builder.add(w, builder.mul(loop.index, w_pitch)), VECTOR)
            for start, total in zip(starts, tile, strict=True):
                value = load_wide(builder, builder.add(start, offset), x_type)
                builder.store(_add_dot_of_pairs(builder, builder.load(total), value, weight), total)
        return _write(context, builder, tile, out)

    @intrinsic
    def taps_tile(
        typing_context: Any, x: Any, step: Any, offsets: Any, taps: Any, w: Any, w_pitch: Any, out: Any
    ) -> Any:
        return addresses(7), codegen

    return taps_tile


def make_rows_tile(x_type: ir.IntType, kernel_w: int, stride: int) -> Callable[..., None]:
    """Intrinsic ``(x, column, offsets, rows, w, w_pitch, out)``: a depthwise tile of a common window.

    As :func:`make_taps_tile` for ``rows`` kernel rows of ``kernel_w`` neighbouring columns and pixels ``stride``
    columns apart, but every column is loaded and widened once for all pixels that see it. ``column`` is the distance
    of columns in bytes, ``offsets`` those of the kernel's taps, row by row.
    """
    columns = (PIXELS - 1) * stride + kernel_w

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, column, offsets, rows, w, w_pitch, out = args
        tile = [_zeroed(builder) for _ in range(PIXELS)]
        distances = [builder.mul(column, _int(index)) for index in range(columns)]
        with cgutils.for_range(builder, rows) as loop:
            first = builder.mul(loop.index, _int(kernel_w))
            start = builder.add(x, load(builder, builder.add(offsets, builder.mul(first, _int(8))), I64))
            addresses = [builder.add(w, builder.mul(builder.add(first, _int(k)), w_pitch)) for k in range(kernel_w)]
            weights = [load(builder, address, VECTOR) for address in addresses]
            for index, distance in enumerate(distances):
                value = load_wide(builder, builder.add(start, distance), x_type)
                for pixel, total in enumerate(tile):
                    k = index - pixel * stride
                    if 0 <= k < kernel_w:
                        builder.store(_add_dot_of_pairs(builder, builder.load(total), value, weights[k]), total)
        return _write(context, builder, tile, out)

    @intrinsic
    def rows_tile(
        typing_context: Any, x: Any, column: Any, offsets: Any, rows: Any, w: Any, w_pitch: Any, out: Any
    ) -> Any:
        return addresses(7), codegen

    return rows_tile


def make_add_residual(e_type: ir.IntType) -> Callable[..., None]:
    """Intrinsic ``(acc, acc_step, e, e_step, count, params, pitch)``: adds the residual to a column of accumulators.

    ``acc[i] += ((e[i] * scale) << left) >> right`` for ``count`` vectors ``acc_step`` and ``e_step`` bytes apart; the
    parameter rows :data:`E_SCALE`, :data:`E_LEFT` and :data:`E_RIGHT` are ``pitch`` bytes apart.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        acc, acc_step, e, e_step, count, params, pitch = args
        scale, left, right = (_row(builder, params, pitch, row) for row in (E_SCALE, E_LEFT, E_RIGHT))
        with cgutils.for_range(builder, count) as loop:
            source = builder.add(e, builder.mul(loop.index, e_step))
            target = builder.add(acc, builder.mul(loop.index, acc_step))
            product = builder.mul(load_wide(builder, source, e_type), scale)
            moved = builder.ashr(builder.shl(product, left), right)
            store(builder, builder.add(load(builder, target, VECTOR), moved), target)
        return context.get_dummy_value()

    @intrinsic
    def add_residual(
        typing_context: Any, acc: Any, acc_step: Any, e: Any, e_step: Any, count: Any, params: Any, pitch: Any
    ) -> Any:
        return addresses(7), codegen

    return add_residual


def make_requantize(y_type: ir.Type, rounded: bool = False) -> Callable[..., None]:
    """Intrinsic ``(acc, acc_step, y, y_step, count, params, pitch, low)``: accumulators to results.

    ``y[i] = sat(max((sat16((acc[i] + bias) >> right_shift) * scale) >> out_shift, low))`` for ``count`` vectors
    ``acc_step`` and ``y_step`` bytes apart; the parameter rows :data:`BIAS` to :data:`OUT_SHIFT` are ``pitch`` bytes
    apart. With ``rounded`` row :data:`HALF` is added before the last shift. For int32 results
    ``y[i] = max(acc[i] + bias, low)``; for float32 that times row :data:`SCALE`, which holds float32 then.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        acc, acc_step, y, y_step, count, params, pitch, low = args
        bias, right, scale, out = (_row(builder, params, pitch, k) for k in (BIAS, RIGHT_SHIFT, SCALE, OUT_SHIFT))
        half = _row(builder, params, pitch, HALF) if rounded else None
        least = splat(builder, builder.trunc(low, I32))
        minimum, maximum = (splat(builder, ir.Constant(I32, bound)) for bound in (-32768, 32767))
        with cgutils.for_range(builder, count) as loop:
            total = builder.add(load(builder, builder.add(acc, builder.mul(loop.index, acc_step)), VECTOR), bias)
            target = builder.add(y, builder.mul(loop.index, y_step))
            if y_type is I32:
                store(builder, larger(builder, total, least), target)
            elif y_type is F32:
                result = builder.sitofp(larger(builder, total, least), FLOATS)
                store(builder, builder.fmul(result, builder.bitcast(scale, FLOATS)), target)
            else:
                narrowed = clip(builder, builder.ashr(total, right), minimum, maximum)
                scaled = dot_of_pairs(builder, narrowed, scale)
                scaled = scaled if half is None else builder.add(scaled, half)
                result = larger(builder, builder.ashr(scaled, out), least)
                store(builder, _saturated(builder, result, y_type), target)
        return context.get_dummy_value()

    @intrinsic
    def requantize(
        typing_context: Any,
        acc: Any,
        acc_step: Any,
        y: Any,
        y_step: Any,
        count: Any,
        params: Any,
        pitch: Any,
        low: Any,
    ) -> Any:
        return addresses(8), codegen

    return requantize


def make_pack(item: ir.IntType, count: int) -> Callable[..., None]:
    """Intrinsic ``(source, pitch, target)``: a vector of columns of ``count`` rows, ``pitch`` bytes apart, interleaved.

    Lane c of the result holds the rows' elements c side by side, in 32 / ``count`` bits each.
    """
    bits = I32.width // count

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        source, pitch, target = args
        mask = ir.Constant(VECTOR, [(1 << bits) - 1] * LANES)
        lanes = ir.Constant(VECTOR, None)
        for index in range(count):
            value = load_wide(builder, builder.add(source, builder.mul(pitch, _int(index))), item)
            moved = builder.shl(builder.and_(value, mask), ir.Constant(VECTOR, [bits * index] * LANES))
            lanes = builder.or_(lanes, moved)
        store(builder, lanes, target)
        return context.get_dummy_value()

    @intrinsic
    def pack(typing_context: Any, source: Any, pitch: Any, target: Any) -> Any:
        return addresses(3), codegen

    return pack


def addresses(count: int) -> Any:
    """The type of an intrinsic that takes so many addresses or sizes and returns nothing."""
    return types.void(*[types.intp] * count)


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def _zeroed(builder: ir.IRBuilder) -> ir.Value:
    slot = cgutils.alloca_once(builder, VECTOR)
    builder.store(ir.Constant(VECTOR, None), slot)
    return slot


def load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type) -> ir.Value:
    """A value of ``kind`` at ``address``, any alignment."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def load_wide(builder: ir.IRBuilder, address: ir.Value, kind: ir.IntType) -> ir.Value:
    """A vector of narrow integers, sign-extended to 32 bits."""
    return builder.sext(load(builder, address, ir.VectorType(kind, LANES)), VECTOR)


def store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value) -> None:
    """``value`` to ``address``, any alignment."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def splat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """An int32 in all lanes."""
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(VECTOR, [0] * LANES))


def _row(builder: ir.IRBuilder, params: ir.Value, pitch: ir.Value, row: int) -> ir.Value:
    return load(builder, builder.add(params, builder.mul(pitch, _int(row))), VECTOR)


def larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def clip(builder: ir.IRBuilder, value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    """Every lane, at least ``low`` and at most ``high``."""
    raised = larger(builder, value, low)
    return builder.select(builder.icmp_signed("<", raised, high), raised, high)


def _saturated(builder: ir.IRBuilder, value: ir.Value, narrow: ir.IntType) -> ir.Value:
    """The nearest ``narrow`` integers: the pattern that LLVM knows as a saturating truncation."""
    half = 1 << (narrow.width - 1)
    low, high = (ir.Constant(value.type, [bound] * LANES) for bound in (-half, half - 1))
    return builder.trunc(clip(builder, value, low, high), ir.VectorType(narrow, LANES))


def _add_dot_of_pairs(builder: ir.IRBuilder, total: ir.Value, a: ir.Value, w: ir.Value) -> ir.Value:
    return builder.add(total, dot_of_pairs(builder, a, w))


def dot_of_quads(builder: ir.IRBuilder, total: ir.Value, a: ir.Value, w: ir.Value) -> ir.Value:
    """``total`` plus four products of uint8 ``a`` and int8 ``w`` per lane; sums wrap, nothing saturates (vpdpbusd).

    With AVX2 ``a`` are int8 that are not negative, as sums of two products saturate.
    """
    if CHAIN > 1:
        return builder.add(total, _sums_of_halves(builder, _sums_of_two(builder, a, w)))
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.vpdpbusd.512")
    return builder.call(function, [total, a, w])


def _sums_of_two(builder: ir.IRBuilder, a: ir.Value, w: ir.Value) -> ir.Value:
    """``a[2 k] * w[2 k] + a[2 k + 1] * w[2 k + 1]``, uint8 by int8, as int16 that saturate (pmaddubsw)."""
    bytes_, words = ir.VectorType(I8, 4 * LANES), ir.VectorType(I16, 2 * LANES)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(words, [bytes_] * 2), "llvm.x86.avx2.pmadd.ub.sw"
    )
    return builder.call(function, [builder.bitcast(value, bytes_) for value in (a, w)])


def _sums_of_halves(builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
    """The sum of both int16 of each lane (pmaddwd by ones)."""
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(VECTOR, [words.type] * 2), "llvm.x86.avx2.pmadd.wd"
    )
    return builder.call(function, [words, ir.Constant(words.type, [1] * words.type.count)])


def dot_of_pairs(builder: ir.IRBuilder, a: ir.Value, w: ir.Value) -> ir.Value:
    """``a.low * w.low + a.high * w.high`` per lane: the pattern that LLVM knows as pmaddwd."""
    pairs, wide = ir.VectorType(I16, PAIR * LANES), ir.VectorType(I32, PAIR * LANES)
    products = builder.mul(builder.sext(builder.bitcast(a, pairs), wide), builder.sext(builder.bitcast(w, pairs), wide))
    low, high = (_every_second(builder, products, start) for start in range(PAIR))
    return builder.add(low, high)


def _every_second(builder: ir.IRBuilder, value: ir.Value, start: int) -> ir.Value:
    lanes = ir.Constant(VECTOR, list(range(start, PAIR * LANES, PAIR)))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), lanes)


def _write(context: Any, builder: ir.IRBuilder, tile: Sequence[ir.Value], out: ir.Value) -> ir.Value:
    for index, slot in enumerate(tile):
        store(builder, builder.load(slot), builder.add(out, _int(index * LANES * 4)))
    return context.get_dummy_value()
