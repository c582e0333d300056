"""Kernel of LSTM and GRU in float32; :mod:`engine.floats.recurrent` defines what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.floats.multiply_add import multiply_add
from engine.floats.rational import GRU_LIMIT, HALF, ONE, TANH_ABOVE, TANH_BELOW
from engine.jit import compiled, intrinsic
from engine.native.registers import LANES
from engine.simulate.kernels.memory import copy_bytes, float32_at
from engine.simulate.kernels.movement import fill
from engine.simulate.kernels.operations import GRU_OF_PRODUCT, LSTM
from engine.simulate.kernels.tiles import CHAIN_VECTORS, CHAIN_WIDTH
from engine.simulate.kernels.tiles import RECURRENT_VECTORS as VECTORS
from engine.simulate.kernels.tiles import RECURRENT_WIDTH as WIDTH

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_CHAINS = 8
"""Sums of a row's products that run side by side."""
FLOATS = ir.VectorType(F32, LANES)
A0, A1, A2, A3, A4, A5, A6 = TANH_ABOVE
B0, B1, B2, B3 = TANH_BELOW


@intrinsic
def add_products(typing_context: Any, x: Any, count: Any, block: Any, w: Any, out: Any) -> Any:
    """``out[c] += sum_k x[k] * w[k, c]`` for :data:`WIDTH` columns: one multiply-add after the other.

    After ``block`` of them from 0 anew; these sums are added to ``out``. Addresses of float32.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, count, block, w, out = args
        sums = [cgutils.alloca_once(builder, FLOATS) for _ in range(VECTORS)]
        blocks = builder.udiv(builder.add(count, builder.sub(block, _int(1))), block)
        with cgutils.for_range(builder, blocks) as outer:
            done = builder.mul(outer.index, block)
            left = builder.sub(count, done)
            for part in sums:
                builder.store(ir.Constant(FLOATS, None), part)
            with cgutils.for_range(builder, builder.select(builder.icmp_signed("<", left, block), left, block)) as loop:
                index = builder.add(done, loop.index)
                number = builder.load(_pointer(builder, x, builder.mul(index, _int(4)), F32), align=4)
                factor = _spread(builder, number, F32)
                row = builder.mul(index, _int(4 * WIDTH))
                for v, part in enumerate(sums):
                    at = _pointer(builder, w, builder.add(row, _int(4 * LANES * v)), FLOATS)
                    builder.store(multiply_add(builder, [factor, builder.load(at, align=4), builder.load(part)]), part)
            for v, part in enumerate(sums):
                at = _pointer(builder, out, _int(4 * LANES * v), FLOATS)
                builder.store(builder.fadd(builder.load(at, align=4), builder.load(part)), at, align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), codegen


@intrinsic
def add_products_of_row(typing_context: Any, x: Any, count: Any, w: Any, out: Any, first: Any, results: Any) -> Any:
    """``out[c] += sum_k x[k] * w[k, c]`` for :data:`CHAIN_WIDTH` columns from ``first`` on, of ``results`` in all.

    The sum is that of :func:`engine.floats.recurrent._products_of_row`. Addresses of float32.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, count, w, out, first, results = args
        sums = [[cgutils.alloca_once(builder, FLOATS) for _ in range(_CHAINS)] for _ in range(CHAIN_VECTORS)]
        last, whole = builder.sub(count, _int(1)), builder.sub(count, builder.urem(count, _int(_CHAINS)))
        two, one = (builder.sub(results, builder.urem(results, _int(number))) for number in (4, 2))

        def add(index: ir.Value, k: int, is_inside: ir.Value | None) -> None:
            """Products of number ``index`` with neighbouring vectors, where there is one, to chain k."""
            number = builder.load(_pointer(builder, x, builder.mul(index, _int(4)), F32), align=4)
            factor = _spread(builder, number, F32)
            for v, chains in enumerate(sums):
                row = builder.add(builder.mul(index, _int(4 * CHAIN_WIDTH)), _int(4 * LANES * v))
                product = builder.fmul(factor, builder.load(_pointer(builder, w, row, FLOATS), align=4))
                if is_inside is not None:
                    product = builder.select(is_inside, product, ir.Constant(FLOATS, None))
                builder.store(builder.fadd(builder.load(chains[k]), product), chains[k])

        for chain in (chain for chains in sums for chain in chains):
            builder.store(ir.Constant(FLOATS, None), chain)
        with cgutils.for_range(builder, builder.udiv(count, _int(_CHAINS))) as loop:
            start = builder.mul(loop.index, _int(_CHAINS))
            for k in range(_CHAINS):
                add(builder.add(start, _int(k)), k, None)
        with builder.if_then(builder.icmp_signed("<", whole, count)):
            for k in range(_CHAINS - 1):
                index = builder.add(whole, _int(k))
                is_inside = builder.icmp_signed("<=", index, last)
                add(builder.select(is_inside, index, last), k, is_inside)
        for v, chains in enumerate(sums):
            place = _spread(builder, builder.add(first, _int(LANES * v)), I64)
            place = builder.add(place, ir.Constant(ir.VectorType(I64, LANES), list(range(LANES))))
            is_left, is_last = (builder.icmp_signed(">=", place, _spread(builder, start, I64)) for start in (two, one))
            total = _chains_joined(builder, [builder.load(chain) for chain in chains], is_left, is_last)
            at = _pointer(builder, out, _int(4 * LANES * v), FLOATS)
            builder.store(builder.fadd(builder.load(at, align=4), total), at, align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), codegen


def _chains_joined(builder: ir.IRBuilder, chains: Sequence[ir.Value], is_left: ir.Value, is_last: ir.Value) -> ir.Value:
    """The sums of chains, in one order for four results together, in others for what is left and for the last one."""
    halves = [chains[:4], chains[4:]]
    even, odd = ([builder.fadd(half[k], half[k + 2]) for half in halves] for k in range(2))
    pairs = [builder.fadd(builder.fadd(*half[:2]), builder.fadd(*half[2:])) for half in halves]
    of_two = builder.fadd(builder.fadd(*even), builder.fadd(*odd))
    total = builder.select(is_left, of_two, builder.fadd(*[_sum(builder, half) for half in halves]))
    return builder.select(is_last, builder.fadd(*pairs), total)


def _sum(builder: ir.IRBuilder, vectors: Sequence[ir.Value]) -> ir.Value:
    """One after the other."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = builder.fadd(total, vector)
    return total


def _spread(builder: ir.IRBuilder, number: ir.Value, kind: ir.Type) -> ir.Value:
    """A vector of one number."""
    one = builder.insert_element(ir.Constant(ir.VectorType(kind, LANES), ir.Undefined), number, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def _pointer(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.inttoptr(builder.add(base, offset), kind.as_pointer())


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


@compiled
def clipped(x: Any, limit: Any) -> Any:
    """At most ``limit`` in magnitude; NaN stays."""
    x = -limit if x < -limit else x
    return limit if x > limit else x


@compiled
def above_of_tanh(x: Any) -> Any:
    """What :func:`tanh` divides, of a clipped number."""
    s = x * x
    return ((((((A0 * s + A1) * s + A2) * s + A3) * s + A4) * s + A5) * s + A6) * x


@compiled
def below_of_tanh(x: Any) -> Any:
    """By what :func:`tanh` divides, of a clipped number."""
    s = x * x
    return ((B0 * s + B1) * s + B2) * s + B3


@compiled
def tanh(x: Any) -> Any:
    """:func:`engine.floats.rational.tanh_of_cells`."""
    x = clipped(x, GRU_LIMIT)
    return above_of_tanh(x) / below_of_tanh(x)


@compiled
def logistic(x: Any) -> Any:
    """:func:`engine.floats.rational.logistic_of_cells`."""
    return HALF * (ONE + tanh(HALF * x))


@compiled
def recurrent(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Steps of an LSTM or GRU behind its products with the input: units are directions times rows.

    x (in_h steps, in_w rows, groups directions, panels gates, out_c), y Y (in_h, groups, in_w, out_c) and behind it
    the last cells (groups, in_w, out_c), float32. ``left`` is 1 where the first direction goes backwards, as the second
    does. ``weights`` of a direction, ``group_weights`` bytes: panels (out_c, :data:`WIDTH`, or :data:`CHAIN_WIDTH` for
    one row) for ``wide`` columns, all gates of an LSTM or two of a GRU, then for ``splits`` columns, a GRU's third.
    ``params``, rows of ``params_pitch`` bytes per direction: biases of all gates, then that of a GRU's product;
    ``table`` states and cells that it starts with (groups, in_w, 2, out_c).
    """
    h, gates, ways = f.out_c, f.panels, f.groups
    sums, extra = float32_at(scratch, f.wide), float32_at(scratch + f.wide * 4, f.splits)
    at = scratch + (f.wide + f.splits) * 4
    state, cell, reset = float32_at(at, h), float32_at(at + 4 * h, h), float32_at(at + 8 * h, h)
    fill(scratch, f.wide + f.splits, 4, 0)  # no number that is left out may be slow to add to
    for unit in range(begin, end):
        way, row = unit // f.in_w, unit % f.in_w
        weights, bias = f.weights + way * f.group_weights, float32_at(f.params + way * f.params_pitch, (gates + 1) * h)
        copy_bytes(f.table + (way * f.in_w + row) * 8 * h, at, 8 * h)
        for index in range(f.in_h):
            step = f.in_h - 1 - index if way + f.left > 0 else index
            x = arena + f.x + (((step * f.in_w + row) * ways + way) * gates * h) * 4
            if f.operation == LSTM:
                copy_bytes(x, scratch, gates * h * 4)
                multiply(at, h, f.in_w, f.count, weights, 4 * h, scratch)
                lstm_gates(sums, bias, state, cell)
            else:
                copy_bytes(x, scratch, 2 * h * 4)
                multiply(at, h, f.in_w, f.count, weights, 2 * h, scratch)
                third, products = weights + h * f.wide * 4, float32_at(x + 2 * h * 4, h)
                gru_gates(sums, bias, state, reset, f.operation == GRU_OF_PRODUCT)
                if f.operation == GRU_OF_PRODUCT:
                    copy_bytes(f.params + way * f.params_pitch + gates * h * 4, scratch + f.wide * 4, h * 4)
                    multiply(at, h, f.in_w, f.count, third, h, scratch + f.wide * 4)
                    gru_of_product(sums, extra, products, bias[2 * h :], reset, state)
                else:
                    copy_bytes(x + 2 * h * 4, scratch + f.wide * 4, h * 4)
                    multiply(at + 8 * h, h, f.in_w, f.count, third, h, scratch + f.wide * 4)
                    gru_of_state(sums, extra, bias[2 * h :], state)
            copy_bytes(at, arena + f.y + ((step * ways + way) * f.in_w + row) * h * 4, h * 4)
        copy_bytes(at + 4 * h, arena + f.y + (f.in_h * ways * f.in_w + unit) * h * 4, h * 4)


@compiled
def multiply(x: int, count: int, rows: int, block: int, weights: int, results: int, out: int) -> None:
    """Add the products of ``count`` numbers, one of ``rows``, with panels of weights to ``results`` numbers."""
    for first in range(0, results, CHAIN_WIDTH if rows == 1 else WIDTH):
        if rows == 1:
            add_products_of_row(x, count, weights + first * count * 4, out + first * 4, first, results)
        else:
            add_products(x, count, block, weights + first * count * 4, out + first * 4)


@compiled
def lstm_gates(sums: Any, bias: Any, state: Any, cell: Any) -> None:
    """The next state and cell."""
    h = len(state)
    enter, leave, keep, new = sums[:h], sums[h : 2 * h], sums[2 * h : 3 * h], sums[3 * h :]
    b, c, d, e = bias[:h], bias[h : 2 * h], bias[2 * h : 3 * h], bias[3 * h :]
    for j in range(h):
        value = logistic(keep[j] + d[j]) * cell[j] + logistic(enter[j] + b[j]) * tanh(new[j] + e[j])
        cell[j] = value
        value = clipped(value, GRU_LIMIT)
        state[j] = (logistic(leave[j] + c[j]) * above_of_tanh(value)) / below_of_tanh(value)


@compiled
def gru_gates(sums: Any, bias: Any, state: Any, reset: Any, of_product: bool) -> None:
    """The update gate in place of its sums; the reset gate, or its product with the state."""
    h = len(state)
    second, b, c = sums[h : 2 * h], bias[:h], bias[h : 2 * h]
    for j in range(h):
        sums[j] = logistic(sums[j] + b[j])
        reset[j] = logistic(second[j] + c[j])
    if not of_product:
        for j in range(h):
            reset[j] = reset[j] * state[j]


@compiled
def gru_of_product(update: Any, product: Any, inputs: Any, bias: Any, reset: Any, state: Any) -> None:
    """The next state, where the reset gate multiplies the product with the state."""
    for j in range(len(state)):
        new = tanh((reset[j] * product[j] + inputs[j]) + bias[j])
        state[j] = (ONE - update[j]) * new + update[j] * state[j]


@compiled
def gru_of_state(update: Any, sums: Any, bias: Any, state: Any) -> None:
    """The next state, where the reset gate has multiplied the state."""
    for j in range(len(state)):
        new = tanh(sums[j] + bias[j])
        state[j] = (ONE - update[j]) * new + update[j] * state[j]
