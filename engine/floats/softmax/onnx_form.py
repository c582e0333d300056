"""A float32 Softmax with the sums and roundings of our simulators, for ONNX Runtime has other ones on every CPU."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.floats.softmax.exponential import SUMS
from engine.ops.core.portable import Emitter

Shape = tuple[int, ...]


def own_softmax(x: ir.Value, shape: Shape, axis: int, emit: Emitter) -> ir.Value:
    """Softmax along one axis, bit for bit as :func:`engine.floats.softmax.definition.softmax_rows` has it.

    Args:
        x: float32.
        shape: that of ``x``, not empty.
        axis: none below 0.
        emit: where to write it.
    """
    perm = [*(k for k in range(len(shape)) if k != axis), axis]
    rows = x if axis == len(shape) - 1 else emit.transpose(x, *perm)
    largest = emit.op("ReduceMax", rows, np.array([-1]), keepdims=1)
    powers = emit.call("Exponential", emit.op("Sub", rows, largest))
    total = _sum(powers, [shape[k] for k in perm], emit)
    # Not a Div: ONNX Runtime would divide by the sum instead of multiplying by its reciprocal.
    result = emit.op("Mul", powers, emit.op("Reciprocal", total))
    return result if rows is x else emit.transpose(result, *(int(k) for k in np.argsort(perm)))


def _sum(rows: ir.Value, shape: list[int], emit: Emitter) -> ir.Value:
    """Sums along the last axis, which stays: four side by side, then that of what no four numbers are left of."""
    steps, left = divmod(shape[-1], SUMS)
    total: ir.Value | None = None
    for index in range(steps * SUMS, steps * SUMS + left):
        part = _part(rows, index, index + 1, emit)
        total = part if total is None else emit.op("Add", total, part)
    if steps:
        whole = _part(rows, 0, steps * SUMS, emit)
        fours = emit.reshape(whole, [*shape[:-1], steps, SUMS])
        # CumSum adds one after the other.
        sums = emit.op("Gather", emit.op("CumSum", fours, np.int64(-2)), np.int64(steps - 1), axis=-2)
        first, second, third, fourth = (_part(sums, k, k + 1, emit) for k in range(SUMS))
        summed = emit.op("Add", emit.op("Add", first, third), emit.op("Add", second, fourth))
        total = summed if total is None else emit.op("Add", summed, total)
    assert total is not None
    return total


def _part(x: ir.Value, start: int, end: int, emit: Emitter) -> ir.Value:
    return emit.op("Slice", x, np.array([start]), np.array([end]), np.array([-1]))
