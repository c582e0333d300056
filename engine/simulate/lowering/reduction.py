"""Lowering of reductions over one axis.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

import numpy as np

from engine.simulate.kernels.elementwise_rows import ACCU_SHIFT, HALF, OUT_SHIFT, SCALE
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.operations import FIRST_MAXIMUM, MAXIMUM, SUM
from engine.simulate.lowering.common import (
    ACTIVATION_TYPES,
    MAX_SCALE,
    MAX_SHIFT,
    Call,
    NotLowered,
    half_of,
    integer_limits,
    integer_output,
)
from engine.simulate.program import Assembler, Tensor


def lower_reduced_sum(call: Call, program: Assembler) -> Tensor:
    """HzSQuantizedReduceMean and HzSQuantizedReduceSum: of every list only element 0 counts."""
    a = call.attributes
    shift, scale, out = (a[name][:1] for name in ("accu_right_shift", "scale", "out_shift"))
    if min(shift[0], out[0]) < 0 or max(shift[0], out[0]) > MAX_SHIFT or abs(scale[0]) > MAX_SCALE:
        raise NotLowered("a shift or multiplier lies outside what the machine takes")
    params = np.zeros(8, np.int64)
    params[[ACCU_SHIFT, SCALE, HALF, OUT_SHIFT]] = shift[0], scale[0], half_of(out)[0], out[0]
    result = np.dtype(np.int32) if a["output_bit"] == 32 else integer_output(a["output_bit"])
    fields = {"params": program.address(params), "largest": SUM, **integer_limits(a["output_bit"])}
    return _reduced(call, result, fields, program)


def lower_reduced_maximum(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedReduceMax."""
    return _reduced(call, call.tensor().dtype, {"largest": MAXIMUM}, program)


def lower_position(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedArgMax along the last axis, in which what is compared lies side by side."""
    x, axis = call.tensor(), int(call.attributes["axis"])
    if axis not in (-1, len(x.shape) - 1):
        raise NotLowered(f"axis {axis} of a tensor of shape {x.shape}")
    y = _reduced(call, np.dtype(np.int8), {"largest": FIRST_MAXIMUM}, program)
    return y if call.attributes["keepdims"] else y.shaped(*x.shape[:-1])


def _reduced(call: Call, result: np.dtype[np.generic], fields: dict[str, int], program: Assembler) -> Tensor:
    x, axis = call.tensor(), int(call.attributes["axis"])
    if x.dtype not in ACTIVATION_TYPES or not -len(x.shape) <= axis < len(x.shape) or not x.size:
        raise NotLowered(f"axis {axis} of a tensor of {x.dtype} and shape {x.shape}")
    axis %= len(x.shape)
    length, inner = x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    if length * -int(np.iinfo(x.dtype).min) > np.iinfo(np.int32).max:
        raise NotLowered(f"a sum of {length} values of {x.dtype} may not fit 32 bits")
    y = program.tensor((*x.shape[:axis], 1, *x.shape[axis + 1 :]), result)
    outer = int(np.prod(x.shape[:axis]))
    program.emit(
        InstructionKind.REDUCE, {"x": x, "y": y}, units=outer, scratch=inner * 4, in_h=length, in_c=inner, **fields
    )
    return y
