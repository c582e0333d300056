"""Four vectors of sums to a register of int8: requantised by the upper halves of products of int16, then packed.

What :func:`~engine.simulate.kernels.vector.make_requantize` does a vector at a time, for
:data:`~engine.simulate.kernels.tiles.PACKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba.core import cgutils

from engine.jit import intrinsic
from engine.native.registers import LANES
from engine.simulate.kernels.tiles import (
    BIAS,
    BLOCK,
    BLOCK_VECTORS,
    IN_ORDER,
    PACKS,
    RIGHT_SHIFT,
    SHIFTS_WORDS,
    STEP_BYTES,
    WORD_SCALE,
    WORD_SHIFT,
)
from engine.simulate.kernels.vector import VECTOR, add_products, addresses, bytes_ahead, larger, load, store

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
BYTES, WORDS = ir.VectorType(I8, BLOCK), ir.VectorType(I16, BLOCK // 2)
REGISTER = LANES * STEP_BYTES
_WORDS = ir.FunctionType(WORDS, [WORDS] * 2)
_NARROW = ir.FunctionType(WORDS, [VECTOR] * 2)
_BYTES = ir.FunctionType(BYTES, [WORDS] * 2)
_NAMES = ("avx512.packssdw.512", "avx512.pmulh.w.512", "avx512.packsswb.512")
if not SHIFTS_WORDS:
    _NAMES = ("avx2.packssdw", "avx2.pmulh.w", "avx2.packsswb")


class _Parameters:
    """What the results of ``vectors`` whole vectors of channels are requantised with: rows ``pitch`` bytes apart."""

    def __init__(self, builder: ir.IRBuilder, vectors: int, params: ir.Value, pitch: ir.Value, low: ir.Value) -> None:
        def row_of(row: int, v: int, kind: ir.Type = VECTOR) -> ir.Value:
            at = builder.add(builder.mul(pitch, _int(row)), _int(v * REGISTER))
            return load(builder, builder.add(params, at), kind)

        self.chosen = [divmod(k, vectors) for k in range(BLOCK_VECTORS)]
        self.biases, self.rights = ([row_of(row, v) for v in range(vectors)] for row in (BIAS, RIGHT_SHIFT))
        self.words = [row_of(row, self.chosen[k][1], WORDS) for k in (0, 2) for row in (WORD_SCALE, WORD_SHIFT)]
        if vectors == 1:
            self.words = [own_twice(builder, each) for each in self.words]
        self.least = splat_bytes(builder, low)

    def store(self, builder: ir.IRBuilder, totals: Sequence[ir.Value], targets: Sequence[ir.Value]) -> None:
        """The int8 of as many rows as fill a register, of which ``totals`` are the sums, bias included."""
        rights = [self.rights[v] for _, v in self.chosen]
        packed = builder.bitcast(requantized_bytes(builder, totals, rights, self.words, self.least), VECTOR)
        order = ir.Constant(ir.VectorType(I32, LANES), list(IN_ORDER))
        found = builder.bitcast(builder.shuffle_vector(packed, packed, order), BYTES)
        size = BLOCK // len(targets)
        for row, target in enumerate(targets):
            part = ir.Constant(ir.VectorType(I32, size), list(range(row * size, (row + 1) * size)))
            store(builder, builder.shuffle_vector(found, found, part), target)


def make_packed_rows(vectors: int) -> Callable[..., None]:
    """Intrinsic ``(acc, acc_step, y, y_step, count, params, pitch, low)``: rows of accumulators to rows of int8.

    What :func:`~engine.simulate.kernels.vector.make_requantize` gives for ``count`` rows of one, two or four whole
    vectors, ``acc_step`` and ``y_step`` bytes apart; as many rows as fill a register are computed together, and
    ``count`` is a multiple of that. Parameters have the rows of words.
    """
    together = BLOCK_VECTORS // vectors

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if not PACKS:
            return context.get_dummy_value()
        acc, acc_step, y, y_step, count, *rest = args
        parameters = _Parameters(builder, vectors, *rest)
        with cgutils.for_range(builder, builder.sdiv(count, _int(together))) as loop:
            first = builder.mul(loop.index, _int(together))
            rows = [builder.add(first, _int(row)) for row in range(together)]
            totals = []
            for row, v in parameters.chosen:
                start = builder.add(acc, builder.mul(rows[row], acc_step))
                total = load(builder, builder.add(start, _int(v * REGISTER)), VECTOR)
                totals.append(builder.add(total, parameters.biases[v]))
            parameters.store(builder, totals, [builder.add(y, builder.mul(row, y_step)) for row in rows])
        return context.get_dummy_value()

    @intrinsic
    def packed_rows(
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

    return packed_rows


def make_packed_tile(rows: int, vectors: int, quads: bool = False, ahead: int = 0) -> Callable[..., None]:
    """Intrinsic ``(a, pitch, pieces, piece_pitch, w, steps, y, y_step, params, params_pitch, low)``: a tile of int8.

    The dot products of :func:`~engine.simulate.kernels.vector.make_dot_tile`, with its ``quads`` and ``ahead``,
    requantised as by :func:`make_packed_rows` before they leave the registers.
    """
    together = BLOCK_VECTORS // vectors

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if not PACKS:
            return context.get_dummy_value()
        *operands, y, y_step, params, pitch, low = args
        tile = [cgutils.alloca_once(builder, VECTOR) for _ in range(rows * vectors)]
        biases = [load(builder, builder.add(params, _int(v * REGISTER)), VECTOR) for v in range(vectors)]
        for k, place in enumerate(tile):
            builder.store(biases[k % vectors], place)
        add_products(builder, tile, vectors, quads, operands, bytes_ahead(builder, operands, vectors, ahead))
        parameters = _Parameters(builder, vectors, params, pitch, low)
        for first in range(0, rows, together):
            totals = [builder.load(tile[(first + row) * vectors + v]) for row, v in parameters.chosen]
            targets = [builder.add(y, builder.mul(y_step, _int(first + row))) for row in range(together)]
            parameters.store(builder, totals, targets)
        return context.get_dummy_value()

    @intrinsic
    def packed_tile(
        typing_context: Any,
        a: Any,
        pitch: Any,
        pieces: Any,
        piece_pitch: Any,
        w: Any,
        steps: Any,
        y: Any,
        y_step: Any,
        params: Any,
        params_pitch: Any,
        low: Any,
    ) -> Any:
        return addresses(11), codegen

    return packed_tile


def own_twice(builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
    """Parameters of two vectors with those of the first in both places."""
    halves = ir.VectorType(I64, BLOCK // 8)
    given = builder.bitcast(words, halves)
    order = ir.Constant(ir.VectorType(I32, halves.count), [k // 2 * 2 for k in range(halves.count)])
    return builder.bitcast(builder.shuffle_vector(given, given, order), WORDS)


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
    shift of all does; so does the upper half of another product, by a power of two.

    Args:
        builder: writes the code.
        totals: the vectors.
        rights: of the same lanes.
        words: the rows ``WORD_SCALE`` and ``WORD_SHIFT`` of the first two vectors, then of the other two.
        low: a register of int8.
    """
    narrow, multiply, to_bytes = (
        cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}")
        for name, kind in zip(_NAMES, (_NARROW, _WORDS, _BYTES), strict=True)
    )
    moved = [builder.ashr(total, right) for total, right in zip(totals, rights, strict=True)]
    halves = []
    for first, (scale, shift) in zip((0, 2), (words[:2], words[2:]), strict=True):
        product = builder.call(multiply, [builder.call(narrow, moved[first : first + 2]), scale])
        halves.append(builder.ashr(product, shift) if SHIFTS_WORDS else builder.call(multiply, [product, shift]))
    return larger(builder, builder.call(to_bytes, halves), low)


def splat_bytes(builder: ir.IRBuilder, low: ir.Value, count: int = BLOCK) -> ir.Value:
    """The lowest byte of ``low`` in all of ``count``."""
    byte = builder.trunc(low, I8)
    first = builder.insert_element(ir.Constant(ir.VectorType(I8, count), ir.Undefined), byte, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, count), [0] * count))


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)
