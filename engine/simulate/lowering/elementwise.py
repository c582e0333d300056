"""Lowering of element-wise operators and of conversions between integers and floats."""

from __future__ import annotations

from collections.abc import Sequence
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
    dense_strides,
    integer_limits,
    per_channel,
)
from engine.simulate.program import Assembler, Tensor

CONVERSION_UNIT = 1 << 14
"""Elements per unit of a conversion with one scale."""


def lower_elementwise(call: Call, program: Assembler) -> Tensor | None:
    """HzSElementwiseAdd, HzSElementwiseSub and HzSElementwiseMul, operands of up to four dimensions."""
    operands = [program.constant_operand(v) if isinstance(v, np.ndarray) else v for v in call.inputs]
    x, e = operands[:2]
    if x is None or e is None or max(len(x.shape), len(e.shape)) > 4:
        return None
    result = np.dtype(f"int{call.attributes['output_bit']}")
    if any(kind not in ACTIVATION_TYPES for kind in (x.dtype, e.dtype, result)):
        return None
    params = elementwise_parameters(call, np.broadcast_shapes(x.shape, e.shape)[-1])
    return None if params is None else emit_elementwise(call, x, e, params, program)


def emit_elementwise(call: Call, x: Tensor, e: Tensor, params: NDArray[np.int64], program: Assembler) -> Tensor:
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
        multiply=int(call.operator.op_type == "HzSElementwiseMul"),
        **integer_limits(call.attributes["output_bit"]),
    )
    return y


def elementwise_parameters(call: Call, channels: int) -> NDArray[np.int64] | None:
    """Rows of the kernel's parameters; None where a shift is negative or a value may leave 64 bits."""
    a = call.attributes
    zero = np.zeros(1, np.int64)
    sign = -1 if call.operator.op_type == "HzSElementwiseSub" else 1
    out_shift, scale, accu_shift = a["output_right_shift"], a["output_scale"], a["accu_right_shift"]
    offset, half = zero, zero
    if a.get("add_rounding_bias", 0):
        offset = np.rint(np.exp2(out_shift + accu_shift) / (2.0 * scale)).astype(np.int64)
    elif a["rounding_method"] != "FLOOR":
        half = np.where(out_shift > 0, np.int64(1) << np.clip(out_shift - 1, 0, 62), 0)
    rows = {
        ew.X_SHIFT: a.get("x_shift", zero),
        ew.E_SCALE: sign * a.get("e_scale", zero),
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
        return None
    return np.stack([per_channel(rows[k], channels) for k in range(len(rows))])


def _broadcast_strides(tensor: Tensor, full: Sequence[int]) -> tuple[int, ...]:
    shape = (1,) * (len(full) - len(tensor.shape)) + tensor.shape
    return tuple(0 if dim == 1 else stride for dim, stride in zip(shape, dense_strides(shape), strict=True))


def lower_quantize(call: Call, program: Assembler) -> Tensor | None:
    """HzQuantize."""
    result = np.dtype(f"int{call.attributes['bits']}")
    return _convert(call, program, Kind.QUANTIZE, np.dtype(np.float32), result) if result in ACTIVATION_TYPES else None


def lower_dequantize(call: Call, program: Assembler) -> Tensor | None:
    """HzDequantize."""
    return _convert(call, program, Kind.DEQUANTIZE, None, np.float32)


def _convert(call: Call, program: Assembler, kind: Kind, x_type: np.dtype[Any] | None, y_type: Any) -> Tensor | None:
    x, scale, axis = call.inputs[0], call.inputs[1], int(call.attributes["axis"])
    if not isinstance(x, Tensor) or not isinstance(scale, np.ndarray) or not -len(x.shape) <= axis < len(x.shape):
        return None
    if x.dtype != x_type if x_type is not None else x.dtype not in (np.int8, np.int16, np.int32):
        return None
    scales = np.asarray(scale, np.float32).ravel()
    y = program.tensor(x.shape, y_type)
    if len(scales) == 1:
        count = min(max(x.size, 1), CONVERSION_UNIT)
        count = count if x.size % count == 0 else x.size
    elif len(scales) == x.shape[axis]:
        count = int(np.prod(x.shape[axis:])) // x.shape[axis]
    else:
        return None
    limits = {} if kind is Kind.DEQUANTIZE else integer_limits(call.attributes["bits"])
    fields = {"params": program.address(scales), "period": len(scales), "count": count, **limits}
    program.emit(kind, {"x": x, "y": y}, units=x.size // count, **fields)
    return y
