"""Lowering of operators that are a function of one int8 value per channel: look-up tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.simulate.kernels.instructions import Kind
from engine.simulate.lowering.common import Call
from engine.simulate.program import Assembler, Tensor

TABLE_UNIT = 1 << 14
"""Elements per unit of a table look-up."""


def lower_table_of_ramp(call: Call, program: Assembler) -> Tensor | None:
    """Any operator that maps every int8 value of a channel to an int8 value: its table, from its own reference."""
    x = call.inputs[0]
    if not isinstance(x, Tensor) or x.dtype != np.int8 or len(x.shape) < 1:
        return None
    rest = [value for value in call.inputs[1:] if isinstance(value, np.ndarray)]
    if len(rest) < len(call.inputs) - 1 or any(value.shape[-1:] != (value.size,) for value in rest):
        return None
    if call.operator.reference([_ramp(x.shape[-1]), *rest], call.attributes)[0].dtype != np.int8:
        return None
    return look_up(x, tables_of_ramp(call, x.shape[-1]), program)


def lower_requantize(call: Call, program: Assembler) -> Tensor | None:
    """HzRequantize of int8 along the last axis."""
    x, axis = call.inputs[0], call.attributes["axis"]
    scales = len(call.attributes["output_scale"])
    if not isinstance(x, Tensor) or len(x.shape) != 4 or (axis not in (3, -1) and scales > 1):
        return None
    return lower_table_of_ramp(call, program)


def tables_of_ramp(call: Call, channels: int) -> NDArray[np.int8]:
    """What the operator makes of every int8 value in every channel: (channels, 256), one row where all are equal."""
    rest = [value if isinstance(value, np.ndarray) else None for value in call.inputs[1:]]
    (results,) = call.operator.reference([_ramp(channels), *rest], call.attributes)
    tables = np.ascontiguousarray(results.reshape(256, channels).T)
    return tables[:1] if np.all(tables == tables[0]) else tables


def _ramp(channels: int) -> NDArray[np.int8]:
    return np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256, 1).repeat(channels, axis=3)


def look_up(x: Tensor, tables: NDArray[np.int8], program: Assembler) -> Tensor:
    """``y[..., c] = tables[c, x[..., c] + 128]``, or the only table for all channels."""
    y = program.tensor(x.shape, np.int8)
    count = max(1, TABLE_UNIT // len(tables)) * len(tables)
    units = -(-x.size // count)
    size = {"in_h": 1, "in_w": 1, "in_c": x.size}
    fields = {"table": program.address(tables), "period": len(tables), "count": count}
    program.emit(Kind.TABLE, {"x": x, "y": y}, units=units, **fields, **size)
    return y
