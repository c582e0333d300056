"""Lowering of standard operators that stay on the CPU, in floats: Softmax, arithmetic, changes of type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx
import onnx_ir as ir

from engine.ir import attribute
from engine.simulate.kernels import operations
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered, broadcast_strides, dense_strides, joined
from engine.simulate.lowering.movement import transpose
from engine.simulate.program import Assembler, Operand, Tensor
from engine.simulate.softmax import normalised_axes

FloatLowering = Callable[[ir.Node, int, Sequence[Operand], Assembler], Tensor]
"""Appends the instructions of a node of an opset; its result. It raises NotLowered where the machine has none."""

CAST_UNIT = 1 << 12
"""Elements per unit of a change of type."""
CASTS = frozenset({("float32", "float64"), ("float64", "float32"), ("int8", "int64")})
"""Changes of type that the machine makes."""


def lower_softmax(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """Softmax of float32; axes that are not the last are moved there and back."""
    x = given[0]
    if not isinstance(x, Tensor) or x.dtype != np.float32 or not x.shape or not x.size:
        raise NotLowered("its input is no tensor of float32")
    axes = normalised_axes(node, len(x.shape), opset)
    order = [axis for axis in range(len(x.shape)) if axis not in axes] + list(axes)
    rows = transpose(x, order, program)
    count = math.prod(x.shape[axis] for axis in axes)
    y = program.tensor(rows.shape, np.float32)
    program.emit(InstructionKind.SOFTMAX, {"x": rows, "y": y}, units=x.size // count, count=count)
    return transpose(y, [order.index(axis) for axis in range(len(order))], program)


def _arithmetic(operation: int) -> FloatLowering:
    """The lowering of a sum, difference, product or quotient of two float32 or float64."""

    def lower(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
        x, e = (program.constant_operand(v) if isinstance(v, np.ndarray) else v for v in given)
        if x is None or e is None or x.dtype != e.dtype or x.dtype not in (np.float32, np.float64):
            raise NotLowered("its operands are not two of float32, or of float64")
        shape = np.broadcast_shapes(x.shape, e.shape)
        y = program.tensor(shape, x.dtype)
        axes = joined(shape, broadcast_strides(x.shape, shape), broadcast_strides(e.shape, shape), dense_strides(shape))
        if len(axes) > 4 or not y.size:
            raise NotLowered(f"operands of shapes {x.shape} and {e.shape}")
        table = np.array(([(1, 0, 0, 1)] * 4 + axes)[-4:], np.int64).T
        program.emit(
            InstructionKind.ARITHMETIC,
            {"x": x, "e": e, "y": y},
            units=int(table[0, 0] * table[0, 1]),
            dims=program.address(np.ascontiguousarray(table)),
            operation=operation,
        )
        return y

    return lower


def lower_cast(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """Cast between the types of :data:`CASTS`."""
    x = given[0]
    result = onnx.helper.tensor_dtype_to_np_dtype(attribute(node, "to"))
    if not isinstance(x, Tensor) or (x.dtype.name, result.name) not in CASTS or not x.size:
        raise NotLowered(f"a change to {result}")
    y = program.tensor(x.shape, result)
    program.emit(InstructionKind.CAST, {"x": x, "y": y}, units=-(-x.size // CAST_UNIT), count=CAST_UNIT, in_c=x.size)
    return y


FLOAT_LOWERINGS: Mapping[str, FloatLowering] = MappingProxyType(
    {
        "Softmax": lower_softmax,
        "Add": _arithmetic(operations.ADD),
        "Sub": _arithmetic(operations.SUBTRACT),
        "Mul": _arithmetic(operations.MULTIPLY),
        "Div": _arithmetic(operations.DIVIDE),
        "Cast": lower_cast,
    }
)
"""By type of a standard node."""
