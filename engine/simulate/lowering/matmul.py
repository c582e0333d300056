"""Lowering of products of two activations.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.native.registers import LANES, REGISTERS
from engine.ops.core.fixed_point import SCALE_MAX
from engine.simulate.kernels import tiles
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.tiles import GATHER_OVERRUN, MAX_VECTORS, MOST_AT_ONCE, PAIR
from engine.simulate.lowering.common import (
    ACTIVATION_TYPES,
    MAX_SHIFT,
    Call,
    NotLowered,
    broadcast_strides,
    half_of,
    integer_limits,
    integer_output,
    per_channel,
)
from engine.simulate.program import Assembler, Tensor

TILE_ROWS = 48
"""Rows of a unit: whole register tiles."""


def lower_matmul(call: Call, program: Assembler) -> Tensor:
    """HzSQuantizedMatmul of stacks of matrices."""
    a, b = (program.constant_operand(x) if isinstance(x, np.ndarray) else x for x in call.inputs)
    if a is None or b is None or a.dtype not in ACTIVATION_TYPES or b.dtype not in ACTIVATION_TYPES:
        raise NotLowered("its operands are not two tensors of int8 or int16")
    shape = _shape_of_product(a.shape, b.shape)
    if min(len(a.shape), len(b.shape)) < 2 or not np.prod(shape) or not a.shape[-1]:
        raise NotLowered(f"shapes {a.shape} and {b.shape} are no matrices, or empty")
    rows, columns, inside = shape[-2], shape[-1], a.shape[-1]
    quads = REGISTERS.quads and a.dtype == b.dtype == np.int8
    params = _parameters(call, columns)
    bits = 32 if _is_wide(call) else call.attributes["output_bit"]
    y = program.tensor(shape, np.int32 if bits == 32 else integer_output(bits))
    offsets = _offsets(a, b, shape[:-2])
    steps, splits = tiles.steps_of(inside, quads) if quads else -(-inside // PAIR), -(-rows // TILE_ROWS)
    operand_bytes = (TILE_ROWS + MOST_AT_ONCE) * steps * 4 + GATHER_OVERRUN
    program.emit(
        InstructionKind.MATRIX_PRODUCT,
        {"x": a, "e": b, "y": y},
        units=len(offsets) * splits,
        scratch=operand_bytes + params.nbytes + steps * 4 * (params.shape[1] + 1),
        overrun=GATHER_OVERRUN + MOST_AT_ONCE * inside * a.dtype.itemsize,
        **{"out_h": rows, "out_c": columns, "in_c": inside, "pieces": 1, "steps": steps, "quads": int(quads)},
        **{"groups": len(offsets), "group_weights": operand_bytes, "tile_rows": TILE_ROWS, "splits": splits},
        panels=-(-columns // (MAX_VECTORS * LANES)),
        tap_offsets=program.address(offsets),
        params=program.address(params),
        **integer_limits(bits),
    )
    return y


def _is_wide(call: Call) -> bool:
    return bool(call.attributes["output_bit"] == 32 or call.attributes["high_precision_output"])


def _shape_of_product(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(np.matmul(np.empty(a, np.bool_), np.empty(b, np.bool_)).shape)
    except ValueError as error:
        raise NotLowered(f"shapes {a} and {b} have no product") from error


def _offsets(a: Tensor, b: Tensor, stack: Sequence[int]) -> NDArray[np.int64]:
    """Byte offsets of a's and b's matrix for every matrix of the result."""
    if not stack:
        return np.zeros((1, 2), np.int64)
    positions = np.indices(stack, np.int64).reshape(len(stack), -1)
    found = []
    for operand in (a, b):
        strides = broadcast_strides((*operand.shape[:-2], 1, 1), (*stack, 1, 1))[:-2]
        matrix = operand.shape[-2] * operand.shape[-1] * operand.dtype.itemsize
        found.append(np.array(strides, np.int64) @ positions * matrix)
    return np.stack(found, axis=1)


def _parameters(call: Call, columns: int) -> NDArray[np.int32]:
    """Rows of the kernel's parameters, a value for every column of whole panels.

    Raises:
        NotLowered: one does not fit its 32-bit lanes.
    """
    width = MAX_VECTORS * LANES
    params = np.zeros((tiles.PARAMETER_ROWS, -(-columns // width) * width), np.int32)
    if _is_wide(call):
        return params
    right, scale, out = (per_channel(call.attributes[name], columns) for name in ("right_shift", "scale", "out_shift"))
    if min(right.min(), out.min()) < 0 or out.max() >= MAX_SHIFT or np.abs(scale).max() > SCALE_MAX:
        raise NotLowered("a shift or multiplier lies outside what the machine takes")
    floors = call.attributes["rounding_method"] == "FLOOR"
    params[tiles.RIGHT_SHIFT, :columns] = np.minimum(right, MAX_SHIFT)
    params[tiles.SCALE, :columns] = scale & 0xFFFF
    params[tiles.OUT_SHIFT, :columns] = out
    params[tiles.HALF, :columns] = 0 if floors else half_of(out)
    return params
