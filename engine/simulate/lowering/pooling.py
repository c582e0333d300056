"""Lowering of pooling.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

import numpy as np

from engine.ops.average_pool import reciprocal, window_of
from engine.ops.core.windows import Geometry, geometry
from engine.simulate.kernels import elementwise_rows as ew
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import (
    MAX_SCALE,
    MAX_SHIFT,
    Call,
    NotLowered,
    check_window,
    half_of,
    integer_limits,
    integer_output,
    per_channel,
    tap_fields,
    window_fields,
)
from engine.simulate.lowering.movement import pad
from engine.simulate.program import Assembler, Tensor


def lower_max_pool(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedMaxPool."""
    x = call.image()
    windows = _windows(x, call)
    padded = pad(x, windows, int(np.iinfo(x.dtype).min), program)
    # A window that has no pixel has the border's value.
    reach = np.asarray(call.attributes.get("dilations", 1)) * (np.asarray(call.attributes["kernel_shape"]) - 1)
    signed = x.signed or bool(np.any(windows.pads.reshape(2, 2) > reach))
    y = program.tensor((1, *(int(n) for n in windows.out), x.shape[3]), x.dtype, signed=signed)
    fields = {**window_fields(padded, y, call.attributes), **tap_fields(padded, call.attributes, program)}
    program.emit(InstructionKind.MAX_POOL, {"x": padded, "y": y}, units=y.shape[1], **fields)
    return y


def _windows(x: Tensor, call: Call) -> Geometry:
    """The windows over ``x``.

    Raises:
        NotLowered: there are none.
    """
    check_window(call.attributes)
    windows = geometry(x.shape[1:3], call.attributes)
    if np.any(windows.out < 1):
        raise NotLowered(f"no window fits a map of {x.shape[1]}x{x.shape[2]}")
    return windows


def lower_global_max_pool(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedGlobalMaxPool: one window over the whole map."""
    x = call.image()
    window = {"kernel_shape": x.shape[1:3], "pads": (0, 0, 0, 0), "strides": (1, 1), "ceil_mode": 0}
    attributes = {name: np.asarray(value, np.int64) for name, value in window.items()}
    return lower_max_pool(Call(call.operator, attributes, call.inputs), program)


def lower_average_pool(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedAveragePool."""
    x = call.image()
    if x.dtype != np.int8:
        raise NotLowered(f"a map of {x.dtype}")
    windows = _windows(x, call)
    padded = pad(x, windows, 0, program)
    y = program.tensor((1, *(int(n) for n in windows.out), x.shape[3]), np.int8, signed=x.signed)
    shift, factor = reciprocal(call.attributes)
    fields = {**window_fields(padded, y, call.attributes), **tap_fields(padded, call.attributes, program)}
    fields |= {"value": factor, "shift": shift, **integer_limits(8)}
    program.emit(
        InstructionKind.AVERAGE_POOL, {"x": padded, "y": y}, units=y.shape[1], scratch=x.shape[3] * 4, **fields
    )
    return y


def lower_whole_average_pool(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedGlobalAveragePool: one window over the whole map."""
    window = window_of(call.image().shape, call.attributes)
    return lower_average_pool(Call(call.operator, window, call.inputs), program)


def lower_global_average(call: Call, program: Assembler) -> Tensor:
    """HzSQuantizedGlobalAveragePool of int8."""
    x, a = call.image(), call.attributes
    shifts = np.concatenate([a["accu_right_shift"], a["output_right_shift"]])
    result = np.dtype(np.int32) if a["output_bit"] == 32 else integer_output(a["output_bit"])
    if x.dtype != np.int8:
        raise NotLowered(f"a map of {x.dtype}")
    if np.any(shifts < 0) or np.any(shifts > MAX_SHIFT) or np.any(np.abs(a["output_scale"]) > MAX_SCALE):
        raise NotLowered("a shift or multiplier lies outside what the machine takes")
    channels = x.shape[3]
    rows = {
        ew.OFFSET: half_of(a["accu_right_shift"]),
        ew.ACCU_SHIFT: a["accu_right_shift"],
        ew.SCALE: a["output_scale"],
        ew.HALF: half_of(a["output_right_shift"]),
        ew.OUT_SHIFT: a["output_right_shift"],
    }
    params = np.zeros((8, channels), np.int64)
    for row, values in rows.items():
        params[row] = per_channel(values, channels)
    signed = x.signed or bool(np.any(a["output_scale"] < 0))
    y = program.tensor((1, 1, 1, channels), result, signed=signed)
    fields = {"in_h": x.shape[1], "in_w": x.shape[2], "in_c": channels, **integer_limits(a["output_bit"])}
    address = program.address(params)
    program.emit(
        InstructionKind.GLOBAL_AVERAGE, {"x": x, "y": y}, units=1, scratch=channels * 4, params=address, **fields
    )
    return y
