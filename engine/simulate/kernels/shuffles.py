"""Vector kernels that move bytes: blocks of matrices transposed, tables of 256 bytes looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import intrinsic
from engine.native.registers import LANES, REGISTERS

I8, I16, I32, I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
LARGEST = 16
"""Lanes of a register of AVX-512."""
REGISTER_BITS = 128
"""Registers whose halves every CPU interleaves in one instruction."""
WIDE, PIECE = ir.VectorType(I8, 4 * LANES), ir.VectorType(I8, 16)
WIDENED, NARROWED = [k % PIECE.count for k in range(WIDE.count)], list(range(PIECE.count))
HALF_TABLE = ir.FunctionType(WIDE, [WIDE] * 3)
WORDS = ir.VectorType(I16, 32)
HALF_WORDS = ir.FunctionType(WORDS, [WORDS] * 3)


def side(item: ir.IntType) -> int:
    """Rows and columns of a block of elements of that type."""
    return REGISTER_BITS // int(item.width)


def make_transpose(item: ir.IntType) -> Callable[..., None]:
    """Intrinsic ``(x, x_pitch, y, y_pitch)``: ``y[c, r] = x[r, c]`` for a square block; pitches of rows in bytes.

    Each of log2(side) rounds interleaves row i with row i + side / 2.
    """
    size = side(item)
    kind = ir.VectorType(item, size)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, x_pitch, y, y_pitch = args
        for r, value in enumerate(_transposed(builder, x, x_pitch, kind)):
            builder.store(value, _row(builder, y, y_pitch, r, kind), align=1)
        return context.get_dummy_value()

    @intrinsic
    def transpose(typing_context: Any, x: Any, x_pitch: Any, y: Any, y_pitch: Any) -> Any:
        return types.void(*[types.intp] * 4), codegen

    return transpose


@intrinsic
def transpose_registers(
    typing_context: Any, x: Any, x_pitch: Any, y: Any, y_pitch: Any, rows: Any, columns: Any
) -> Any:
    """As :func:`make_transpose` for a block of as many int32 as AVX-512's registers have lanes, in either direction.

    Of ``y`` only ``rows`` rows and ``columns`` columns are written.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if LANES != LARGEST:
            return context.get_dummy_value()
        x, x_pitch, y, y_pitch, rows, columns = args
        kind, bits = ir.VectorType(I32, LANES), ir.VectorType(ir.IntType(1), LANES)
        below = builder.sub(builder.shl(ir.Constant(I64, 1), columns), ir.Constant(I64, 1))
        mask = builder.bitcast(builder.trunc(below, I16), bits)
        store = ir.FunctionType(ir.VoidType(), [kind, kind.as_pointer(), I32, bits])
        function = cgutils.get_or_insert_function(builder.module, store, f"llvm.masked.store.v{LANES}i32.p0v{LANES}i32")
        for r, value in enumerate(_transposed(builder, x, x_pitch, kind)):
            with builder.if_then(builder.icmp_signed(">", rows, ir.Constant(I64, r))):
                builder.call(function, [value, _row(builder, y, y_pitch, r, kind), ir.Constant(I32, 1), mask])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), codegen


def _transposed(builder: ir.IRBuilder, x: ir.Value, pitch: ir.Value, kind: ir.VectorType) -> list[ir.Value]:
    """The columns of a square block of rows of ``kind``."""
    size = kind.count
    orders = [[half * size // 2 + k // 2 + (k % 2) * size for k in range(size)] for half in range(2)]
    masks = [ir.Constant(ir.VectorType(I32, size), order) for order in orders]
    rows = [builder.load(_row(builder, x, pitch, r, kind), align=1) for r in range(size)]
    for _round in range(size.bit_length() - 1):
        pairs = [(rows[r], rows[r + size // 2]) for r in range(size // 2)]
        rows = [builder.shuffle_vector(a, b, mask) for a, b in pairs for mask in masks]
    return rows


def _row(builder: ir.IRBuilder, base: ir.Value, pitch: ir.Value, index: int, kind: ir.Type) -> ir.Value:
    address = builder.add(base, builder.mul(pitch, ir.Constant(I64, index)))
    return builder.inttoptr(address, kind.as_pointer())


def make_move(size: int) -> Callable[..., None]:
    """Intrinsic ``(x, y)``: copies ``size`` bytes, any alignment."""
    kind = ir.IntType(8 * size)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        source, target = (builder.inttoptr(address, kind.as_pointer()) for address in args)
        builder.store(builder.load(source, align=1), target, align=1)
        return context.get_dummy_value()

    @intrinsic
    def move(typing_context: Any, x: Any, y: Any) -> Any:
        return types.void(*[types.intp] * 2), codegen

    return move


def make_largest(item: ir.IntType, count: int) -> Callable[..., None]:
    """Intrinsic ``(x, offsets, taps, y)``: ``y = max(x + offsets[0], …)`` of ``count`` signed integers each.

    ``offsets`` is the address of ``taps`` int64, bytes.
    """
    kind = ir.VectorType(item, count)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, offsets, taps, y = args
        largest = cgutils.alloca_once_value(builder, ir.Constant(kind, [-(1 << (item.width - 1))] * count))
        with cgutils.for_range(builder, taps) as loop:
            at = builder.add(offsets, builder.mul(loop.index, ir.Constant(I64, 8)))
            start = builder.add(x, builder.load(builder.inttoptr(at, I64.as_pointer())))
            value, before = builder.load(builder.inttoptr(start, kind.as_pointer()), align=1), builder.load(largest)
            builder.store(builder.select(builder.icmp_signed(">", value, before), value, before), largest)
        builder.store(builder.load(largest), builder.inttoptr(y, kind.as_pointer()), align=1)
        return context.get_dummy_value()

    @intrinsic
    def find_largest(typing_context: Any, x: Any, offsets: Any, taps: Any, y: Any) -> Any:
        return types.void(*[types.intp] * 4), codegen

    return find_largest


def make_interleave(item: ir.IntType, count: int) -> Callable[..., None]:
    """Intrinsic ``(x, pitch, y)``: ``y[count * k + r] = x[r, k]`` for rows of :func:`side`, ``pitch`` bytes apart."""
    size = side(item)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, pitch, y = args
        kind = ir.VectorType(item, size)
        rows = [builder.load(_row(builder, x, pitch, r, kind), align=1) for r in range(count)]
        order = [k // count + k % count * size for k in range(count * size)]
        result = builder.shuffle_vector(*_halves(builder, rows), _order(order))
        builder.store(result, builder.inttoptr(y, result.type.as_pointer()), align=1)
        return context.get_dummy_value()

    @intrinsic
    def interleave(typing_context: Any, x: Any, pitch: Any, y: Any) -> Any:
        return types.void(*[types.intp] * 3), codegen

    return interleave


def make_separate(item: ir.IntType, count: int) -> Callable[..., None]:
    """Intrinsic ``(x, y, pitch)``: ``y[r, k] = x[count * k + r]`` for rows of :func:`side`, ``pitch`` bytes apart."""
    size = side(item)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, y, pitch = args
        kind = ir.VectorType(item, count * size)
        mixed = builder.load(builder.inttoptr(x, kind.as_pointer()), align=1)
        for r in range(count):
            row = builder.shuffle_vector(mixed, mixed, _order([count * k + r for k in range(size)]))
            builder.store(row, _row(builder, y, pitch, r, row.type), align=1)
        return context.get_dummy_value()

    @intrinsic
    def separate(typing_context: Any, x: Any, y: Any, pitch: Any) -> Any:
        return types.void(*[types.intp] * 3), codegen

    return separate


def _halves(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Rows one behind the other, in two vectors of one length."""
    size = rows[0].type.count
    both = _order(list(range(2 * size)))
    pairs = [builder.shuffle_vector(rows[k], rows[min(k + 1, len(rows) - 1)], both) for k in range(0, len(rows), 2)]
    return (pairs[0], pairs[1]) if len(pairs) > 1 else (rows[0], rows[1])


def _order(indices: Sequence[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, len(indices)), list(indices))


def _bytes_of_table(builder: ir.IRBuilder, quarters: Sequence[ir.Value], value: ir.Value) -> ir.Value:
    """Entries of a table of 256 bytes: seven bits choose among 128, the sign says from which half of the table."""
    permute = cgutils.get_or_insert_function(builder.module, HALF_TABLE, "llvm.x86.avx512.vpermi2var.qi.512")
    low, high = (builder.call(permute, [quarters[k], value, quarters[k + 1]]) for k in (0, 2))
    return builder.select(builder.icmp_signed("<", value, ir.Constant(WIDE, None)), low, high)


def _words_of_table(builder: ir.IRBuilder, quarters: Sequence[ir.Value], value: ir.Value) -> ir.Value:
    """The same where instructions permute 16 bits: those that hold the entry are found, then shifted.

    Even and odd bytes have a vector each.
    """
    permute = cgutils.get_or_insert_function(builder.module, HALF_WORDS, "llvm.x86.avx512.vpermi2var.hi.512")
    parts = [builder.bitcast(quarter, WORDS) for quarter in quarters]

    def all_lanes(number: int) -> ir.Constant:
        return ir.Constant(WORDS, [number] * WORDS.count)

    def entries(index: ir.Value) -> ir.Value:
        word = builder.lshr(index, all_lanes(1))
        low, high = (builder.call(permute, [parts[k], word, parts[k + 1]]) for k in (0, 2))
        both = builder.select(builder.icmp_unsigned("<", index, all_lanes(128)), low, high)
        return builder.lshr(both, builder.shl(builder.and_(index, all_lanes(1)), all_lanes(3)))

    indices = builder.bitcast(builder.xor(value, ir.Constant(WIDE, [-128] * WIDE.count)), WORDS)
    even = builder.and_(entries(builder.and_(indices, all_lanes(255))), all_lanes(255))
    odd = builder.shl(entries(builder.lshr(indices, all_lanes(8))), all_lanes(8))
    return builder.bitcast(builder.or_(even, odd), WIDE)


def _sixteenths_of_table(builder: ir.IRBuilder, sixteenths: Sequence[ir.Value], value: ir.Value) -> ir.Value:
    """The same where instructions pick bytes from 16 (AVX2): the four upper bits choose among what all of them hold.

    A blend looks at the sign, where a shift brings one bit after the other; what it takes from the bytes beside is
    below.
    """
    kind = ir.FunctionType(WIDE, [WIDE] * 2)
    pick = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pshuf.b")
    kind = ir.FunctionType(WIDE, [WIDE] * 3)
    blend = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pblendvb")
    words = ir.VectorType(I16, WIDE.count // 2)
    place = builder.and_(value, ir.Constant(WIDE, [PIECE.count - 1] * WIDE.count))
    signs = [value]
    for shift in (1, 2, 3):
        moved = builder.shl(builder.bitcast(value, words), ir.Constant(words, [shift] * words.count))
        signs.append(builder.bitcast(moved, WIDE))

    def found(first: int, bit: int) -> ir.Value:
        if bit == len(signs):
            return builder.call(pick, [sixteenths[first], place])
        low, high = found(first, bit + 1), found(first + (8 >> bit), bit + 1)
        # Negative numbers come first in the table.
        return builder.call(blend, [low, high, signs[bit]] if bit else [high, low, signs[bit]])

    return found(0, 0)


@intrinsic
def look_up_bytes(typing_context: Any, x: Any, table: Any, y: Any, size: Any) -> Any:
    """``y[i] = table[x[i] + 128]`` for int8 ``x``; how many elements, all or none.

    With vectors of 32 or 64 bytes alone. A rest is looked up in pieces of 16, of which the last may overlap the one
    before: an element that is read right after it was written must not lie in a larger piece than was written.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, table, y, size = args
        if WIDE == PIECE:
            return ir.Constant(I64, 0)
        step, piece = ir.Constant(I64, WIDE.count), ir.Constant(I64, PIECE.count)
        look: Callable[[ir.IRBuilder, Sequence[ir.Value], ir.Value], ir.Value]
        if LANES == LARGEST:
            parts = [builder.load(_row(builder, table, step, k, WIDE), align=1) for k in range(4)]
            look = _bytes_of_table if REGISTERS.permutes else _words_of_table
        else:
            order = ir.Constant(ir.VectorType(I32, WIDE.count), WIDENED)
            rows = [builder.load(_row(builder, table, piece, k, PIECE), align=1) for k in range(16)]
            parts = [builder.shuffle_vector(row, row, order) for row in rows]
            look = _sixteenths_of_table

        def found(value: ir.Value) -> ir.Value:
            return look(builder, parts, value)

        runs = builder.udiv(size, step)
        with cgutils.for_range(builder, runs) as loop:
            start = builder.mul(loop.index, step)
            value = builder.load(builder.inttoptr(builder.add(x, start), WIDE.as_pointer()), align=1)
            builder.store(found(value), builder.inttoptr(builder.add(y, start), WIDE.as_pointer()), align=1)
        done = builder.mul(runs, step)
        is_enough = builder.icmp_signed(">=", size, piece)
        last = builder.sub(size, piece)
        rest = builder.add(builder.sub(size, done), ir.Constant(I64, PIECE.count - 1))
        pieces = builder.select(is_enough, builder.udiv(rest, piece), ir.Constant(I64, 0))
        with cgutils.for_range(builder, pieces) as loop:
            start = builder.add(done, builder.mul(loop.index, piece))
            start = builder.select(builder.icmp_signed("<", start, last), start, last)
            value = builder.load(builder.inttoptr(builder.add(x, start), PIECE.as_pointer()), align=1)
            wide = builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(I32, WIDE.count), WIDENED))
            narrow = builder.shuffle_vector(found(wide), wide, ir.Constant(ir.VectorType(I32, PIECE.count), NARROWED))
            builder.store(narrow, builder.inttoptr(builder.add(y, start), PIECE.as_pointer()), align=1)
        return builder.select(is_enough, size, ir.Constant(I64, 0))

    return types.intp(*[types.intp] * 4), codegen
