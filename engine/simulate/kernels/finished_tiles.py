"""Tiles of dot products whose results leave the registers as bytes: requantised, packed and stored where they belong.

With AVX512-VNNI alone. What :mod:`~engine.simulate.kernels.vector` does in two passes over accumulators in memory is
one here, for int8 results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import intrinsic
from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.tiles import (
    BIAS,
    BLOCK,
    BLOCK_VECTORS,
    E_LEFT,
    E_RIGHT,
    E_SCALE,
    RIGHT_SHIFT,
    WORD_SCALE,
    WORD_SHIFT,
)
from engine.simulate.kernels.vector import VECTOR, add_products, larger, load, load_wide

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
BYTES, WORDS = ir.VectorType(I8, BLOCK), ir.VectorType(I16, BLOCK // 2)
_WORDS = ir.FunctionType(WORDS, [WORDS] * 2)
_NARROW = ir.FunctionType(WORDS, [VECTOR] * 2)
_BYTES = ir.FunctionType(BYTES, [WORDS] * 2)
IN_ORDER = tuple(BLOCK_VECTORS * lane + vector for vector in range(BLOCK_VECTORS) for lane in range(BLOCK_VECTORS))
"""Where packs leave the four bytes that belong at each place: a vector's lanes lie a fourth of a register apart."""


def make_finished_tile(rows: int, vectors: int, residual: bool = False) -> Callable[..., None]:
    """Intrinsic of 15 addresses and sizes, of which the first six are those of a dot tile.

    ``(a, pitch, pieces, piece_pitch, w, steps, following, next_step, params, params_pitch, low, e, y, step, mask)``

    The dot products of :func:`~engine.simulate.kernels.vector.make_dot_tile` with ``quads``, requantised to int8 as by
    :func:`~engine.simulate.kernels.vector.make_requantize`; with ``residual`` after ``e`` is added. Rows of int8 ``e``
    and ``y`` lie ``step`` bytes apart; the bytes of a row of ``y`` that ``mask`` has a bit for are written. Of ``e``
    whole vectors are read. In each step ``next_step`` bytes more of the weights at ``following``, which come next, are
    brought into the second cache.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if not REGISTERS.quads:
            return context.get_dummy_value()
        *operands, following, next_step, params, pitch, low, e, y, step, mask = args

        def parameters(row: int, v: int, kind: ir.Type = VECTOR) -> ir.Value:
            return load(builder, builder.add(params, builder.add(builder.mul(pitch, _int(row)), _int(v * 64))), kind)

        biases = [parameters(BIAS, v) for v in range(vectors)]
        tile = [cgutils.alloca_once_value(builder, biases[index % vectors]) for index in range(rows * vectors)]
        add_products(builder, tile, vectors, True, operands, (following, next_step))
        starts = [builder.mul(step, _int(row)) for row in range(rows)]
        if residual:
            for v in range(vectors):
                factor, left, right = (parameters(row, v) for row in (E_SCALE, E_LEFT, E_RIGHT))
                for row in range(rows):
                    given = load_wide(builder, builder.add(builder.add(e, starts[row]), _int(v * LANES)), I8)
                    moved = builder.ashr(builder.shl(builder.mul(given, factor), left), right)
                    total = tile[row * vectors + v]
                    builder.store(builder.add(builder.load(total), moved), total)
        chosen = [min(v, vectors - 1) for v in range(BLOCK_VECTORS)]
        rights = [parameters(RIGHT_SHIFT, v) for v in chosen]
        words = [parameters(row, v, WORDS) for v in chosen[::2] for row in (WORD_SCALE, WORD_SHIFT)]
        least = splat_bytes(builder, low)
        used = LANES * (vectors if vectors < 3 else BLOCK_VECTORS)
        wanted = builder.bitcast(builder.trunc(mask, ir.IntType(used)), ir.VectorType(I1, used))
        for row in range(rows):
            totals = [builder.load(tile[row * vectors + v]) for v in chosen]
            fours = builder.bitcast(requantized_bytes(builder, totals, rights, words, least), VECTOR)
            order = ir.Constant(ir.VectorType(I32, used // 4), list(IN_ORDER[: used // 4]))
            value = builder.shuffle_vector(fours, fours, order)
            _masked_store(builder, value, builder.add(y, starts[row]), wanted)
        return context.get_dummy_value()

    @intrinsic
    def finished_tile(
        typing_context: Any,
        a: Any,
        pitch: Any,
        pieces: Any,
        piece_pitch: Any,
        w: Any,
        steps: Any,
        following: Any,
        next_step: Any,
        params: Any,
        params_pitch: Any,
        low: Any,
        e: Any,
        y: Any,
        step: Any,
        mask: Any,
    ) -> Any:
        return types.void(*[types.intp] * 15), codegen

    return finished_tile


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


def _masked_store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, mask: ir.Value) -> None:
    """The bytes of ``value`` that ``mask`` has, any alignment: no more than they may lie in one line of the cache."""
    kind = ir.VectorType(I8, mask.type.count)
    store = ir.FunctionType(ir.VoidType(), [kind, kind.as_pointer(), I32, mask.type])
    name = f"llvm.masked.store.v{kind.count}i8.p0v{kind.count}i8"
    function = cgutils.get_or_insert_function(builder.module, store, name)
    target = builder.inttoptr(address, kind.as_pointer())
    builder.call(function, [builder.bitcast(value, kind), target, ir.Constant(I32, 1), mask])


def splat_bytes(builder: ir.IRBuilder, low: ir.Value) -> ir.Value:
    """The lowest byte of ``low`` in all 64."""
    byte = builder.trunc(low, I8)
    first = builder.insert_element(ir.Constant(BYTES, ir.Undefined), byte, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, BLOCK), [0] * BLOCK))


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)
