"""Lowering of operators that are a function of one integer per channel: look-up tables.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ops.mul import Mul
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import ACTIVATION_TYPES, Call, NotLowered, per_channel
from engine.simulate.lowering.elementwise import lower_product
from engine.simulate.program import Assembler, Tensor
from engine.simulate.reference import MISFITS

Array = NDArray[Any]

TABLE_UNIT = 1 << 14
"""Elements per unit of a table look-up."""
MOST_FACTORS = 1 << 16
"""Factors that a change of scale may have to be computed as a product."""


def lower_table_of_ramp(call: Call, program: Assembler) -> Tensor:
    """An operator that maps every int8 of a channel, or every int16 of any channel, to an integer."""
    x = call.tensor()
    if x.dtype not in ACTIVATION_TYPES or not x.shape:
        raise NotLowered(f"its input is {x.dtype} of rank {len(x.shape)}")
    rest = [value for value in call.inputs[1:] if isinstance(value, np.ndarray)]
    if len(rest) < len(call.inputs) - 1 or any(value.shape[-1:] != (value.size,) for value in rest):
        raise NotLowered("a parameter is no vector of constants")
    tables = tables_of_ramp(call, x.dtype, 1 if x.dtype == np.int16 else x.shape[-1])
    return look_up(x, tables, program)


def lower_requantize(call: Call, program: Assembler) -> Tensor:
    """HzRequantize: a table per channel, or the product with 1 where a table is not of the last axis or of int8."""
    x, a = call.tensor(), call.attributes
    if x.dtype not in ACTIVATION_TYPES or not -len(x.shape) <= a["axis"] < len(x.shape):
        raise NotLowered(f"axis {a['axis']} of a tensor of {x.dtype} and rank {len(x.shape)}")
    axis = int(a["axis"]) % len(x.shape)
    lists = {name: a[name] for name in ("output_scale", "output_right_shift")}
    shared = all(np.all(values == values[0]) for values in lists.values())
    if shared:
        lists = {name: values[:1] for name, values in lists.items()}
    if shared or (x.dtype == np.int8 and axis == len(x.shape) - 1):
        return lower_table_of_ramp(Call(call.operator, {**a, **lists, "axis": -1}, call.inputs), program)
    inside = math.prod(x.shape[axis + 1 :])
    values = {name: np.repeat(per_channel(values, x.shape[axis]), inside) for name, values in lists.items()}
    if x.shape[axis] * inside > MOST_FACTORS:
        raise NotLowered(f"{x.shape[axis] * inside} factors that differ")
    stage = {"accu_right_shift": np.zeros(1, np.int64), "output_bit": a["bits"], "rounding_method": "ROUND"}
    rows = x.shaped(math.prod(x.shape[:axis]), x.shape[axis] * inside)
    return lower_product(Call(Mul(), {**values, **stage}, [rows, np.ones(1, np.int8)]), program).shaped(*x.shape)


def tables_of_ramp(call: Call, dtype: np.dtype[Any], channels: int) -> Array:
    """What the operator makes of each value of ``dtype`` in every channel: (channels, values); one row if all agree.

    Raises:
        NotLowered: its definition cannot compute every value, or gives something else than int8 or int16 for each.
    """
    limits = np.iinfo(dtype)
    ramp = np.arange(limits.min, limits.max + 1, dtype=dtype).reshape(1, 1, -1, 1).repeat(channels, axis=3)
    rest = [value if isinstance(value, np.ndarray) else None for value in call.inputs[1:]]
    try:
        (results,) = call.operator.reference([ramp, *rest], call.attributes)
    except MISFITS as error:
        raise NotLowered(f"its definition cannot compute every {dtype} of {channels} channels: {error}") from error
    if results.shape != ramp.shape or results.dtype not in ACTIVATION_TYPES:
        raise NotLowered(f"its definition gives {results.dtype} of shape {results.shape} for shape {ramp.shape}")
    tables = np.ascontiguousarray(results.reshape(-1, channels).T)
    return tables[:1] if np.all(tables == tables[0]) else tables


def look_up(x: Tensor, tables: Array, program: Assembler) -> Tensor:
    """``y[..., c] = tables[c, x[..., c] - least x]``, or the only table for all channels."""
    y = program.tensor(x.shape, tables.dtype, signed=bool(tables.min() < 0))
    count = max(1, TABLE_UNIT // len(tables)) * len(tables)
    fields = {"in_h": 1, "in_w": 1, "in_c": x.size, "period": len(tables), "count": count}
    program.emit(
        InstructionKind.TABLE, {"x": x, "y": y}, units=-(-x.size // count), table=program.address(tables), **fields
    )
    return y
