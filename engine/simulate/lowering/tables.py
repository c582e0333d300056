"""Lowering of operators that are a function of one integer per channel: look-up tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.simulate.kernels.instructions import Kind
from engine.simulate.lowering.common import ACTIVATION_TYPES, Call
from engine.simulate.program import Assembler, Tensor

Array = NDArray[Any]

TABLE_UNIT = 1 << 14
"""Elements per unit of a table look-up."""


def lower_table_of_ramp(call: Call, program: Assembler) -> Tensor | None:
    """An operator that maps every int8 of a channel, or every int16 of any channel, to an integer."""
    x = call.inputs[0]
    if not isinstance(x, Tensor) or x.dtype not in ACTIVATION_TYPES or len(x.shape) < 1:
        return None
    rest = [value for value in call.inputs[1:] if isinstance(value, np.ndarray)]
    if len(rest) < len(call.inputs) - 1 or any(value.shape[-1:] != (value.size,) for value in rest):
        return None
    tables = tables_of_ramp(call, x.dtype, 1 if x.dtype == np.int16 else x.shape[-1])
    return look_up(x, tables, program) if tables.dtype in ACTIVATION_TYPES else None


def lower_requantize(call: Call, program: Assembler) -> Tensor | None:
    """HzRequantize: int8 along the last axis, int16 where all channels share their parameters."""
    x, a = call.inputs[0], call.attributes
    if not isinstance(x, Tensor) or len(x.shape) != 4:
        return None
    lists = {name: a[name] for name in ("output_scale", "output_right_shift")}
    if all(np.all(values == values[0]) for values in lists.values()):
        shared = {**a, **{name: values[:1] for name, values in lists.items()}}
        return lower_table_of_ramp(Call(call.operator, shared, call.inputs), program)
    if x.dtype != np.int8 or a["axis"] not in (3, -1):
        return None
    return lower_table_of_ramp(call, program)


def tables_of_ramp(call: Call, dtype: np.dtype[Any], channels: int) -> Array:
    """What the operator makes of each value of ``dtype`` in every channel: (channels, values); one row if all agree."""
    limits = np.iinfo(dtype)
    ramp = np.arange(limits.min, limits.max + 1, dtype=dtype).reshape(1, 1, -1, 1).repeat(channels, axis=3)
    rest = [value if isinstance(value, np.ndarray) else None for value in call.inputs[1:]]
    (results,) = call.operator.reference([ramp, *rest], call.attributes)
    if results.shape != ramp.shape:
        raise ValueError(f"{call.operator.op_type}: parameters of other channels than the input's {channels}")
    tables = np.ascontiguousarray(results.reshape(-1, channels).T)
    return tables[:1] if np.all(tables == tables[0]) else tables


def look_up(x: Tensor, tables: Array, program: Assembler) -> Tensor:
    """``y[..., c] = tables[c, x[..., c] - least x]``, or the only table for all channels."""
    y = program.tensor(x.shape, tables.dtype)
    count = max(1, TABLE_UNIT // len(tables)) * len(tables)
    fields = {"in_h": 1, "in_w": 1, "in_c": x.size, "period": len(tables), "count": count}
    program.emit(Kind.TABLE, {"x": x, "y": y}, units=-(-x.size // count), table=program.address(tables), **fields)
    return y
