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
from engine.simulate.kernels.packing import BYTES, WORDS, own_twice, requantized_bytes, splat_bytes
from engine.simulate.kernels.tiles import (
    BIAS,
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
from engine.simulate.kernels.vector import VECTOR, add_products, load, load_wide, masked_store

I1, I8, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
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
                words = [own_twice(builder, each) for each in words]
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


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)
