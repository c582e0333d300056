"""Lowering of element-wise operators and of conversions between integers and floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.simulate.kernels import elementwise as ew
from engine.simulate.kernels.instructions import Kind
from engine.simulate.lowering.common import (
    ACTIVATION_TYPES,
    MAX_SCALE,
    MAX_SHIFT,
    Call,
    NotLowered,
    dense_strides,
    integer_limits,
    integer_output,
    per_channel,
)
from engine.simulate.program import Assembler, Tensor

CONVERSION_UNIT = 1 << 14
"""Elements per unit of a conversion with one scale."""


def lower_sum(call: Call, program: Assembler) -> Tensor:
    """HzSElementwiseAdd, operands of up to four dimensions."""
    return _lower_elementwise(call, program)


def lower_difference(call: Call, program: Assembler) -> Tensor:
    """HzSElementwiseSub: the sum with a second operand of the other sign."""
    return _lower_elementwise(call, program, e_sign=-1)


def lower_product(call: Call, program: Assembler) -> Tensor:
    """HzSElementwiseMul, operands of up to four dimensions."""
    return _lower_elementwise(call, program, multiply=True)


def _lower_elementwise(call: Call, program: Assembler, *, e_sign: int = 1, multiply: bool = False) -> Tensor:
    operands = [program.constant_operand(v) if isinstance(v, np.ndarray) else v for v in call.inputs]
    x, e = operands[:2]
    if x is None or e is None or max(len(x.shape), len(e.shape)) > 4:
        raise NotLowered("its operands are not two tensors of up to four dimensions")
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
    """The instruction on two tensors of up to four dimensions, int8 or int16; ``x`` may be int32."""
    shape = np.broadcast_shapes(x.shape, e.shape)
    full = (1,) * (4 - len(shape)) + shape
    y = program.tensor(shape, f"int{call.attributes['output_bit']}")
    dims = np.array([full, _broadcast_strides(x, full), _broadcast_strides(e, full)], np.int64)
    program.emit(
        Kind.ELEMENTWISE,
        {"x": x, "e": e, "y": y},
        units=full[0] * full[1],
        scratch=full[3] * 8,
        dims=program.address(dims),
        params=program.address(params),
        multiply=int(multiply),
        **integer_limits(call.attributes["output_bit"]),
    )
    return y


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


def _broadcast_strides(tensor: Tensor, full: Sequence[int]) -> tuple[int, ...]:
    shape = (1,) * (len(full) - len(tensor.shape)) + tensor.shape
    return tuple(0 if dim == 1 else stride for dim, stride in zip(shape, dense_strides(shape), strict=True))


def lower_quantize(call: Call, program: Assembler) -> Tensor:
    """HzQuantize."""
    x, result = call.tensor(), integer_output(call.attributes["bits"])
    if x.dtype != np.float32:
        raise NotLowered(f"its input is {x.dtype}")
    return _convert(call, x, program, Kind.QUANTIZE, result, integer_limits(call.attributes["bits"]))


def lower_dequantize(call: Call, program: Assembler) -> Tensor:
    """HzDequantize."""
    x = call.tensor()
    if x.dtype not in (np.int8, np.int16, np.int32):
        raise NotLowered(f"its input is {x.dtype}")
    return _convert(call, x, program, Kind.DEQUANTIZE, np.dtype(np.float32), {})


def _convert(
    call: Call, x: Tensor, program: Assembler, kind: Kind, y_type: np.dtype[Any], limits: Mapping[str, int]
) -> Tensor:
    (scale,), axis = call.constants(1), int(call.attributes["axis"])
    if not -len(x.shape) <= axis < len(x.shape):
        raise NotLowered(f"axis {axis} of a tensor of rank {len(x.shape)}")
    scales = np.asarray(scale, np.float32).ravel()
    if len(scales) == 1:
        count = min(max(x.size, 1), CONVERSION_UNIT)
        count = count if x.size % count == 0 else x.size
    elif len(scales) == x.shape[axis]:
        count = int(np.prod(x.shape[axis:])) // x.shape[axis]
    else:
        raise NotLowered(f"{len(scales)} scales for {x.shape[axis]} channels")
    y = program.tensor(x.shape, y_type)
    fields = {"params": program.address(scales), "period": len(scales), "count": count, **limits}
    program.emit(kind, {"x": x, "y": y}, units=x.size // count, **fields)
    return y
