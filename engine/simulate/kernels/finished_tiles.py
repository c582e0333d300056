"""Tiles of dot products whose results leave the registers as bytes: requantised, packed and stored where they belong.

With AVX512-VNNI alone. What :mod:`~engine.simulate.kernels.vector` does in two passes over accumulators in memory is
one here, for int8 results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import intrinsic
from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.instructions import FIELDS
from engine.simulate.kernels.tiles import (
    BIAS,
    BLOCK,
    BLOCK_VECTORS,
    E_LEFT,
    E_RIGHT,
    E_SCALE,
    IN_ORDER,
    MATRICES,
    PACKED_ORDER,
    RIGHT_SHIFT,
    WORD_SCALE,
    WORD_SHIFT,
)
from engine.simulate.kernels.vector import VECTOR, add_products, larger, load, load_wide, masked_store

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
BYTES, WORDS = ir.VectorType(I8, BLOCK), ir.VectorType(I16, BLOCK // 2)
_WORDS = ir.FunctionType(WORDS, [WORDS] * 2)
_NARROW = ir.FunctionType(WORDS, [VECTOR] * 2)
_BYTES = ir.FunctionType(BYTES, [WORDS] * 2)
_PERMUTE = ir.FunctionType(VECTOR, [VECTOR] * 2)


def make_finished_tile(rows: int, vectors: int, residual: bool = False) -> Callable[..., None]:
    """Intrinsic ``(f, a, pitch, w, following, next_step, params, mask, e, y, z, line, width, column, trash)``.

    The dot products of :func:`~engine.simulate.kernels.vector.make_dot_tile` with ``quads``, requantised to int8 as by
    :func:`~engine.simulate.kernels.vector.make_requantize`; with ``residual`` after ``e`` is added. Of the instruction
    ``f`` it reads all that is the same for all tiles; the rest are addresses and sizes. Where matrices are multiplied,
    the sums (rows, vectors, lanes) lie at ``a`` already, and nothing is read of ``w`` and ``following``.

    The results are those of neighbouring positions, from ``column`` of a line on; of each ``line`` of positions
    ``width`` are pixels, and what others give goes to ``trash``. A tile may reach into the next line, not beyond it.
    The bytes of a pixel that ``mask`` has a bit for are written to ``y`` and, unless it is 0, to ``z``, where those of
    the first pixel belong. Of ``e`` whole vectors are read. In each step ``next_step`` bytes more of the weights at
    ``following``, which come next, are brought into the second cache.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if not REGISTERS.quads:
            return context.get_dummy_value()
        record, a, a_pitch, w, following, next_step, params, mask, e, y, z, line, width, column, trash = args

        def field(name: str) -> ir.Value:
            at = builder.add(builder.ptrtoint(record, I64), _int(8 * FIELDS.index(name)))
            return load(builder, at, I64)

        pitch, turn, back = field("params_pitch"), builder.sub(width, column), builder.sub(line, column)
        operands = (a, a_pitch, field("pieces"), field("piece_pitch"), w, field("steps"))

        def parameters(row: int, v: int, kind: ir.Type = VECTOR) -> ir.Value:
            return load(builder, builder.add(params, builder.add(builder.mul(pitch, _int(row)), _int(v * 64))), kind)

        biases = [parameters(BIAS, v) for v in range(vectors)]
        tile = [cgutils.alloca_once_value(builder, biases[index % vectors]) for index in range(rows * vectors)]
        if MATRICES:
            for index, total in enumerate(tile):
                found = load(builder, builder.add(a, _int(index * LANES * 4)), VECTOR)
                builder.store(builder.add(found, biases[index % vectors]), total)
        else:
            add_products(builder, tile, vectors, True, operands, (following, next_step))
        used = LANES * (vectors if vectors < 3 else BLOCK_VECTORS)
        wanted = builder.bitcast(builder.trunc(mask, ir.IntType(used)), ir.VectorType(I1, used))

        def add_residual(ends: Ends | None) -> None:
            step = field("out_c")
            starts = _rows(builder, rows, (e, step, builder.mul(builder.sub(width, line), step)), ends)
            for v in range(vectors):
                factor, left, right = (parameters(row, v) for row in (E_SCALE, E_LEFT, E_RIGHT))
                for row in range(rows):
                    given = load_wide(builder, builder.add(starts[row], _int(v * LANES)), I8)
                    moved = builder.ashr(builder.shl(builder.mul(given, factor), left), right)
                    total = tile[row * vectors + v]
                    builder.store(builder.add(builder.load(total), moved), total)

        def results() -> list[ir.Value]:
            """The bytes of each row; rows of one or two vectors are packed together, as many as a register holds."""
            together = max(1, BLOCK_VECTORS // vectors)
            chosen = [(k // vectors, k % vectors) for k in range(together * vectors)]
            chosen += chosen[-1:] * (BLOCK_VECTORS - len(chosen))
            rights = [parameters(RIGHT_SHIFT, v) for _, v in chosen]
            words = [parameters(row, chosen[k][1], WORDS) for k in (0, 2) for row in (WORD_SCALE, WORD_SHIFT)]
            if vectors == 1:
                words = [_own_twice(builder, each) for each in words]
            least, found = splat_bytes(builder, field("low")), []
            permute = cgutils.get_or_insert_function(builder.module, _PERMUTE, "llvm.x86.avx512.permvar.si.512")
            for first in range(0, rows, together):
                totals = [builder.load(tile[min(first + row, rows - 1) * vectors + v]) for row, v in chosen]
                fours = builder.bitcast(requantized_bytes(builder, totals, rights, words, least), VECTOR)
                if together == 1:
                    fours = builder.call(permute, [fours, parameters(PACKED_ORDER, 0)])
                    found.append(builder.bitcast(fours, BYTES))
                    continue
                for row in range(min(together, rows - first)):
                    order = IN_ORDER[row * used // 4 : (row + 1) * used // 4]
                    picked = builder.shuffle_vector(
                        fours, fours, ir.Constant(ir.VectorType(I32, len(order)), list(order))
                    )
                    found.append(builder.bitcast(picked, ir.VectorType(I8, used)))
            return found

        def store(values: Sequence[ir.Value], start: ir.Value, name: str, flip: str, ends: Ends | None) -> None:
            step = builder.mul(field("block_columns"), field(f"{name}_pitch"))
            jump = builder.sub(builder.mul(field("block_rows"), field(f"{name}_line")), builder.mul(line, step))
            flips = None if ends is None else splat_bytes(builder, field(flip), used)
            for value, target in zip(values, _rows(builder, rows, (start, step, jump), ends), strict=True):
                masked_store(builder, value if flips is None else builder.xor(value, flips), target, wanted)

        within = builder.icmp_signed(">=", turn, _int(rows))
        plain = builder.icmp_unsigned("==", builder.or_(z, field("flip")), _int(0))
        with builder.if_else(builder.and_(within, plain)) as (simple, other):
            for branch, ends in ((simple, None), (other, Ends(turn, back, trash))):
                with branch:
                    if residual:
                        add_residual(ends)
                    found = results()
                    store(found, y, "y", "flip", ends)
                    if ends is not None:
                        with builder.if_then(builder.icmp_unsigned("!=", z, _int(0))):
                            store(found, z, "z", "z_flip", ends)
        return context.get_dummy_value()

    @intrinsic
    def finished_tile(
        typing_context: Any,
        f: Any,
        a: Any,
        pitch: Any,
        w: Any,
        following: Any,
        next_step: Any,
        params: Any,
        mask: Any,
        e: Any,
        y: Any,
        z: Any,
        line: Any,
        width: Any,
        column: Any,
        trash: Any,
    ) -> Any:
        return types.void(f, *[types.intp] * 14), codegen

    return finished_tile


def _own_twice(builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
    """Parameters of two vectors with those of the first in both places."""
    halves = ir.VectorType(I64, BLOCK // 8)
    given = builder.bitcast(words, halves)
    order = ir.Constant(ir.VectorType(I32, halves.count), [k // 2 * 2 for k in range(halves.count)])
    return builder.bitcast(builder.shuffle_vector(given, given, order), WORDS)


class Ends(NamedTuple):
    """Rows of a tile from ``turn`` on are no pixels and go to ``trash``; those from ``back`` on are the next line's."""

    turn: ir.Value
    back: ir.Value
    trash: ir.Value


def _rows(builder: ir.IRBuilder, rows: int, place: Sequence[ir.Value], ends: Ends | None) -> list[ir.Value]:
    """Where each of ``rows`` rows begins: from ``start`` on ``step`` bytes apart, and a jump more on the next line."""
    start, step, jump = place
    addresses = [builder.add(start, builder.mul(step, _int(row))) for row in range(rows)]
    if ends is None:
        return addresses
    found = []
    for row, address in enumerate(addresses):
        is_behind = builder.icmp_signed("<=", ends.back, _int(row))
        is_pixel = builder.or_(builder.icmp_signed(">", ends.turn, _int(row)), is_behind)
        moved = builder.add(address, builder.select(is_behind, jump, _int(0)))
        found.append(builder.select(is_pixel, moved, ends.trash))
    return found


def requantized_bytes(
    builder: ir.IRBuilder,
    totals: Sequence[ir.Value],
    rights: Sequence[ir.Value],
    words: Sequence[ir.Value],
    low: ir.Value,
) -> ir.Value:
    """``sat8(max((sat16(total >> right) * scale) >> out_shift, low))`` of four vectors of int32.

    The bytes are in the order that packs leave: :data:`IN_ORDER` brings back that of the lanes. A product's upper half
    is shifted by what is left of a shift of :data:`~engine.simulate.kernels.tiles.WORD` and more, which floors as one
    shift of all does.

    Args:
        builder: writes the code.
        totals: the vectors.
        rights: of the same lanes.
        words: the rows ``WORD_SCALE`` and ``WORD_SHIFT`` of the first two vectors, then of the other two.
        low: 64 int8.
    """
    narrow, multiply, to_bytes = (
        cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.avx512.{name}.512")
        for name, kind in (("packssdw", _NARROW), ("pmulh.w", _WORDS), ("packsswb", _BYTES))
    )
    moved = [builder.ashr(total, right) for total, right in zip(totals, rights, strict=True)]
    halves = []
    for first, (scale, shift) in zip((0, 2), (words[:2], words[2:]), strict=True):
        product = builder.call(multiply, [builder.call(narrow, moved[first : first + 2]), scale])
        halves.append(builder.ashr(product, shift))
    return larger(builder, builder.call(to_bytes, halves), low)


def splat_bytes(builder: ir.IRBuilder, low: ir.Value, count: int = BLOCK) -> ir.Value:
    """The lowest byte of ``low`` in all of ``count``."""
    byte = builder.trunc(low, I8)
    first = builder.insert_element(ir.Constant(ir.VectorType(I8, count), ir.Undefined), byte, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, count), [0] * count))


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)
