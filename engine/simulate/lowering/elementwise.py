"""Lowering of element-wise operators and of conversions between integers and floats.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ops.dequantize import has_zero_point
from engine.simulate.kernels import elementwise_rows as ew
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import (
    ACTIVATION_TYPES,
    MAX_SCALE,
    MAX_SHIFT,
    Axis,
    Call,
    NotLowered,
    broadcast_strides,
    dense_strides,
    integer_limits,
    integer_output,
    joined,
    per_channel,
)
from engine.simulate.program import Assembler, Tensor

BLOCK = 1024
"""Elements of an element-wise operator that are computed together."""
CONVERSION_UNIT = 1 << 14
"""Elements per unit of a conversion with one scale."""


def lower_sum(call: Call, program: Assembler) -> Tensor:
    """HzSElementwiseAdd."""
    return _lower_elementwise(call, program)


def lower_difference(call: Call, program: Assembler) -> Tensor:
    """HzSElementwiseSub: the sum with a second operand of the other sign."""
    return _lower_elementwise(call, program, e_sign=-1)


def lower_product(call: Call, program: Assembler) -> Tensor:
    """HzSElementwiseMul."""
    return _lower_elementwise(call, program, multiply=True)


def _lower_elementwise(call: Call, program: Assembler, *, e_sign: int = 1, multiply: bool = False) -> Tensor:
    operands = [program.constant_operand(v) if isinstance(v, np.ndarray) else v for v in call.inputs]
    x, e = operands[:2]
    if x is None or e is None:
        raise NotLowered("an operand is missing")
    integer_output(call.attributes["output_bit"])
    if any(kind not in ACTIVATION_TYPES for kind in (x.dtype, e.dtype)):
        raise NotLowered(f"its operands are {x.dtype} and {e.dtype}")
    params = elementwise_parameters(call, _broadcast(x.shape, e.shape)[-1], e_sign)
    return emit_elementwise(call, x, e, params, program, multiply=multiply)


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError as error:
        raise NotLowered(f"shapes {a} and {b} do not broadcast") from error


def emit_elementwise(
    call: Call, x: Tensor, e: Tensor, params: NDArray[np.int64], program: Assembler, *, multiply: bool = False
) -> Tensor:
    """The instructions on two tensors, int8 or int16; ``x`` may be int32.

    Axes along which both operands and the parameters go on evenly are joined; what is left is cut into blocks.
    """
    shape = np.broadcast_shapes(x.shape, e.shape)
    y = program.tensor(shape, f"int{call.attributes['output_bit']}")
    params = params[:, :1] if np.all(params == params[:, :1]) else params
    per_element = (0,) * (len(shape) - 1) + (int(params.shape[1] > 1),)
    axes = joined(
        shape, broadcast_strides(x.shape, shape), broadcast_strides(e.shape, shape), dense_strides(shape), per_element
    )
    wide = _leaves_32_bits(x, e, params, multiply=multiply)
    common = {"multiply": int(multiply), "wide": int(wide), **integer_limits(call.attributes["output_bit"])}
    for dims, starts in _blocks(axes):
        size = int(dims[0, 2] * dims[0, 3])
        own = params if params.shape[1] == 1 else np.tile(params, size // params.shape[1])
        operands = {
            name: replace(tensor, start=tensor.start + start * tensor.dtype.itemsize)
            for (name, tensor), start in zip({"x": x, "e": e, "y": y}.items(), starts, strict=True)
        }
        program.emit(
            InstructionKind.ELEMENTWISE,
            operands,
            units=int(dims[0, 0] * dims[0, 1]),
            scratch=size * 8,
            dims=program.address(dims),
            params=program.address(np.ascontiguousarray(own, np.int64 if wide else np.int32)),
            period=own.shape[1],
            **common,
        )
    return y


_ONE: Axis = (1, 0, 0, 0, 0)


def _blocks(axes: Sequence[Axis]) -> Iterator[tuple[NDArray[np.int64], tuple[int, ...]]]:
    """Tables of four dimensions, and the first elements of x, e and y that belong to them.

    A table has the shape, the strides of x, of e and of y. Its two inner dimensions are a block of up to about
    :data:`BLOCK` elements: a part of the last axis, or some rows of it, fewer where then none are left over.
    """
    *outer, rows, last = [_ONE] * max(0, 2 - len(axes)) + list(axes)
    if last[0] > BLOCK and not last[4]:
        outer, cut, inner, most = [*outer, rows], last, _ONE, BLOCK
    else:
        cut, inner, most = rows, last, max(1, BLOCK // last[0])
        most = next((n for n in range(most, most // 4, -1) if cut[0] % n == 0), most)
    *repeated, unit = [_ONE, *outer]
    whole = cut[0] // most
    parts = [(whole, most, 0), (1, cut[0] - whole * most, whole * most)]
    for count, length, first in parts:
        if not count * length:
            continue
        along = [count, *(stride * length for stride in cut[1:])]
        block = [(length, *cut[1:]), inner] if inner is not _ONE else [_ONE, (length, *cut[1:])]
        table = np.array([unit[:4], along[:4], *(axis[:4] for axis in block)], np.int64).T
        for index in np.ndindex(*(axis[0] for axis in repeated)):
            offset = np.array(cut[1:4]) * first
            for step, axis in zip(index, repeated, strict=True):
                offset = offset + np.array(axis[1:4]) * step
            yield np.ascontiguousarray(table), tuple(int(start) for start in offset)


def _leaves_32_bits(x: Tensor, e: Tensor, params: NDArray[np.int64], *, multiply: bool) -> bool:
    """Whether an intermediate value may not fit an int32."""
    x_most, e_most = (-int(np.iinfo(tensor.dtype).min) for tensor in (x, e))
    if multiply:
        value = x_most * e_most + np.abs(params[ew.OFFSET])
    else:
        value = (x_most << params[ew.X_SHIFT]) + ((e_most * np.abs(params[ew.E_SCALE])) << params[ew.E_SHIFT])
    scaled = -ew.LOW_16 * np.abs(params[ew.SCALE]) + params[ew.HALF]
    return bool(max(value.max(), scaled.max()) > np.iinfo(np.int32).max)


def elementwise_parameters(call: Call, channels: int, e_sign: int = 1) -> NDArray[np.int64]:
    """Rows of the kernel's parameters.

    Raises:
        NotLowered: a shift is negative, a value may leave 64 bits, or there are neither one nor ``channels`` of them.
    """
    a = call.attributes
    zero = np.zeros(1, np.int64)
    out_shift, scale, accu_shift = a["output_right_shift"], a["output_scale"], a["accu_right_shift"]
    offset, half = zero, zero
    if a.get("add_rounding_bias", 0):
        offset = np.rint(np.exp2(out_shift + accu_shift) / (2.0 * scale)).astype(np.int64)
    elif a["rounding_method"] != "FLOOR":
        half = np.where(out_shift > 0, np.int64(1) << np.clip(out_shift - 1, 0, 62), 0)
    rows = {
        ew.X_SHIFT: a.get("x_shift", zero),
        ew.E_SCALE: e_sign * a.get("e_scale", zero),
        ew.E_SHIFT: a.get("e_shift", zero),
        ew.OFFSET: offset,
        ew.ACCU_SHIFT: accu_shift,
        ew.SCALE: scale,
        ew.HALF: half,
        ew.OUT_SHIFT: out_shift,
    }
    shifts = np.concatenate([np.ravel(rows[k]) for k in (ew.X_SHIFT, ew.E_SHIFT, ew.ACCU_SHIFT, ew.OUT_SHIFT)])
    scales = np.concatenate([np.ravel(rows[k]) for k in (ew.E_SCALE, ew.SCALE)])
    if np.any(shifts < 0) or np.any(shifts > MAX_SHIFT) or np.any(np.abs(scales) > MAX_SCALE):
        raise NotLowered("a shift or multiplier lies outside what the machine takes")
    return np.stack([per_channel(rows[k], channels) for k in range(len(rows))])


def lower_quantize(call: Call, program: Assembler) -> Tensor:
    """HzQuantize without zero points."""
    if has_zero_point(call.inputs):
        raise NotLowered("it has zero points")
    x, result = call.tensor(), integer_output(call.attributes["bits"])
    if x.dtype != np.float32:
        raise NotLowered(f"its input is {x.dtype}")
    return _convert(call, x, program, InstructionKind.QUANTIZE, result, integer_limits(call.attributes["bits"]))


def lower_dequantize(call: Call, program: Assembler) -> Tensor:
    """HzDequantize without zero points."""
    if has_zero_point(call.inputs):
        raise NotLowered("it has zero points")
    x = call.tensor()
    if x.dtype not in (np.int8, np.int16, np.int32):
        raise NotLowered(f"its input is {x.dtype}")
    return _convert(call, x, program, InstructionKind.DEQUANTIZE, np.dtype(np.float32), {})


def _convert(
    call: Call, x: Tensor, program: Assembler, kind: InstructionKind, y_type: np.dtype[Any], limits: Mapping[str, int]
) -> Tensor:
    (scale,), axis = call.constants(1), int(call.attributes["axis"])
    if not -len(x.shape) <= axis < len(x.shape):
        raise NotLowered(f"axis {axis} of a tensor of rank {len(x.shape)}")
    scales = np.asarray(scale, np.float32).ravel()
    along = 0
    if len(scales) == 1:
        count = next(n for n in range(min(max(x.size, 1), CONVERSION_UNIT), 0, -1) if x.size % n == 0)
        count = count if count > CONVERSION_UNIT // 64 else max(x.size, 1)
    elif len(scales) == x.shape[axis]:
        count = int(np.prod(x.shape[axis:])) // x.shape[axis]
        along = int(count == 1)
        count = len(scales) if along else count
    else:
        raise NotLowered(f"{len(scales)} scales for {x.shape[axis]} channels")
    y = program.tensor(x.shape, y_type)
    fields = {"params": program.address(scales), "period": len(scales), "count": count, "along": along, **limits}
    program.emit(kind, {"x": x, "y": y}, units=x.size // count, **fields)
    return y
