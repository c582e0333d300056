"""Lowering of standard operators that stay on the CPU, in floats: Softmax, arithmetic, convolutions, Resize.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.convolution import RowWindow, products_at_once, window_of
from engine.floats.pool import Steps, windows_of
from engine.floats.resize import plan_of
from engine.ir import attribute
from engine.ops.core.windows import Geometry
from engine.ops.softmax import normalised_axes
from engine.simulate.kernels import operations, tiles
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered, broadcast_strides, dense_strides, joined
from engine.simulate.lowering.movement import bordered, extract, pad, transpose
from engine.simulate.program import Assembler, Operand, Tensor

Array = NDArray[Any]
FloatLowering = Callable[[ir.Node, int, Sequence[Operand], Assembler], Tensor]
"""Appends the instructions of a node of an opset; its result. It raises NotLowered where the machine has none."""

CAST_UNIT = 1 << 12
"""Elements per unit of a change of type."""
_PADS_ARE_INPUTS = 11
"""The opset since which the widths of a Pad and what it pads with are inputs."""
SMALL_INPUT = 1 << 15
"""Bytes of a padded input, up to which a convolution puts it into working memory itself, once for each thread."""
SMALLEST, _ZERO = (int(np.float32(value).view(np.int32)) for value in (-np.inf, 0))
"""Bits of what no result of a convolution is less than, and of what the result of a Relu is not less than."""
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
        strides = (broadcast_strides(x.shape, shape), broadcast_strides(e.shape, shape))
        return _combined(x, e, shape, strides, operation, program)

    return lower


def _combined(
    x: Tensor, e: Tensor, shape: Sequence[int], strides: Sequence[Sequence[int]], operation: int, program: Assembler
) -> Tensor:
    """A tensor of ``shape`` from two whose ``strides``, in elements, lead through them."""
    y = program.tensor(shape, x.dtype)
    axes = joined(shape, *strides, dense_strides(shape))
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


def lower_cast(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """Cast between the types of :data:`CASTS`."""
    x = given[0]
    result = onnx.helper.tensor_dtype_to_np_dtype(attribute(node, "to"))
    if not isinstance(x, Tensor) or (x.dtype.name, result.name) not in CASTS or not x.size:
        raise NotLowered(f"a change to {result}")
    y = program.tensor(x.shape, result)
    program.emit(InstructionKind.CAST, {"x": x, "y": y}, units=-(-x.size // CAST_UNIT), count=CAST_UNIT, in_c=x.size)
    return y


def lower_relu(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """Relu: 0 where a number is less; the convolution right in front computes it, where nothing else reads that."""
    x, source = given[0], node.inputs[0]
    if not isinstance(x, Tensor):
        raise NotLowered("its input is a constant")
    # Behind an Identity the tensor is the convolution's as well, which others may read.
    is_direct = source is not None and (producer := source.producer()) is not None and producer.op_type == "Conv"
    is_only_reader = source is not None and not source.is_graph_output() and len(source.uses()) == 1
    if is_direct and is_only_reader and program.amend(InstructionKind.FLOAT_CONVOLUTION, x, low=_ZERO):
        return x
    return _arithmetic(operations.RAISE)(node, opset, [x, np.zeros(1, x.dtype)], program)


def lower_pad(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """Pad with zeros or with lines of the tensor's own; of any type."""
    x, widths, value, axes = [*given, None, None, None][:4]
    mode = str(attribute(node, "mode", "constant"))
    sides = widths if len(given) > 1 else attribute(node, "pads")
    if not isinstance(x, Tensor) or isinstance(sides, Tensor) or sides is None or axes is not None:
        raise NotLowered("its input is a constant, its pads are computed, or they are of some axes")
    begins, ends = np.asarray(sides, np.int64).reshape(2, len(x.shape)).tolist()
    if min([*begins, *ends], default=0) < 0 or mode not in ("constant", "edge", "reflect"):
        raise NotLowered(f"mode {mode}, or negative pads")
    if mode != "constant":
        return bordered(x, begins, ends, mode, program)
    filler = attribute(node, "value", 0.0) if opset < _PADS_ARE_INPUTS or value is None else value
    if isinstance(filler, Tensor) or np.asarray(filler).tobytes().strip(b"\0") or x.dtype.itemsize not in (1, 2, 4):
        raise NotLowered(f"it pads {x.dtype} with another number than 0, or 8 bytes")
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        outer, length, run = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
        lines = Geometry(np.zeros(2, np.int64), np.array([0, begin, 0, end]), np.ones(2, np.int64))
        padded = pad(x.shaped(1, outer, length, run), lines, 0, program)
        x = padded.shaped(*x.shape[:axis], length + begin + end, *x.shape[axis + 1 :])
    return x


def lower_conv(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """Conv of float32 over one axis; with a stride, windows in between are computed too and left out."""
    x, weights, bias = [*given, None][:3]
    if isinstance(bias, Tensor) or not isinstance(weights, np.ndarray):
        raise NotLowered("its weights are computed")
    if not isinstance(x, Tensor) or x.shape[:1] != (1,):
        raise NotLowered("its input is no sample by itself")
    window = window_of(node, [x, weights, bias])
    if window is None:
        raise NotLowered("it is no convolution of float32 over one axis")
    products = math.prod(weights.shape[1:])
    at_once = products_at_once(products, window.positions(x.shape[2], weights.shape[2]))
    return convolve(x, weights, bias, window, at_once, program)


def convolve(
    x: Tensor, weights: Array, bias: Array | None, window: RowWindow, at_once: int, program: Assembler
) -> Tensor:
    """:func:`engine.floats.convolution.convolved` of one sample, ``at_once`` products of a sum by themselves."""
    outputs, inside, taps = weights.shape
    count = window.positions(x.shape[2], taps)
    steps = (count - 1) * window.stride + 1
    wide = x.shape[2] + window.before + window.behind
    padded, zeros, memory = x, {}, x.shape[1] * wide * 4
    if wide > x.shape[2] and memory <= SMALL_INPUT:
        zeros = {"in_c": x.shape[1], "in_w": x.shape[2], "left": window.before, "wide": wide}
    elif wide > x.shape[2]:
        padded = program.tensor((1, x.shape[1], wide), np.float32)
        size = {"in_h": x.shape[1], "in_w": x.shape[2], "in_c": 1, "out_h": x.shape[1], "out_w": wide}
        program.emit(InstructionKind.PAD, {"x": x, "y": padded}, units=x.shape[1], left=window.before, value=0, **size)
    shares = outputs // window.groups
    height = tiles.FLOAT_ROWS if shares >= tiles.FLOAT_ROWS else tiles.FEW_FLOAT_ROWS
    panels = -(-shares // height)
    # -0 leaves any number as it is, 0 does not.
    added = np.full(outputs, -0.0, np.float32) if bias is None else np.asarray(bias)
    packed = [
        np.pad(rows.reshape(window.groups, shares, -1), ((0, 0), (0, max(height - shares, 0)), (0, 0)))[:, first]
        for rows in (weights, added)
        for first in [np.minimum(np.arange(panels) * height, max(shares - height, 0))[:, None] + np.arange(height)]
    ]
    offsets = np.add.outer(np.arange(inside) * wide, np.arange(taps) * window.dilation).ravel() * 4
    y = program.tensor((1, outputs, steps), np.float32)
    program.emit(
        InstructionKind.FLOAT_CONVOLUTION,
        {"x": padded, "y": y},
        units=window.groups * panels,
        scratch=memory + tiles.FLOAT_WIDTH * 4 if zeros else 0,
        overrun=tiles.FLOAT_WIDTH * 4,
        **zeros,
        **{"out_c": outputs, "out_w": steps, "groups": window.groups, "panels": panels, "taps": inside * taps},
        tile_rows=height,
        count=at_once,
        group_weights=inside * wide * 4,
        low=SMALLEST,
        tap_offsets=program.address(offsets.astype(np.int64)),
        weights=program.address(packed[0].swapaxes(2, 3)),
        params=program.address(packed[1]),
    )
    return extract(y, (0, 0, 0), (1, outputs, count), (1, 1, window.stride), program)


def lower_resize(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """Resize of float32 to the nearest neighbours, or bilinear."""
    x = given[0]
    plan = plan_of(node, given, opset) if isinstance(x, Tensor) else None
    if not isinstance(x, Tensor) or plan is None:
        raise NotLowered("it is no nearest or bilinear resize of float32 over the last two of four axes")
    rows, columns = plan.rows.sources.shape[1], plan.columns.sources.shape[1]
    y = program.tensor((*x.shape[:2], rows, columns), np.float32)
    program.emit(
        InstructionKind.RESIZE,
        {"x": x, "y": y},
        units=rows,
        scratch=4 * columns * 4 if plan.linear else 0,
        **{"in_h": x.shape[2], "in_w": x.shape[3], "in_c": x.shape[0] * x.shape[1], "out_h": rows, "out_w": columns},
        rows_from=program.address(plan.rows.sources),
        columns_from=program.address(plan.columns.sources),
        weights=program.address(plan.rows.weights) if plan.linear else 0,
        params=program.address(plan.columns.weights) if plan.linear else 0,
    )
    return y


def lower_max_pool(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """MaxPool of float32 without padding: one larger of two after the other, along the rows, then along the columns."""
    x = given[0]
    windows = windows_of(node, x) if isinstance(x, Tensor) else None
    if not isinstance(x, Tensor) or windows is None:
        raise NotLowered("it is no pool of float32 maps without padding")
    maps, (height, width) = x.shape[0] * x.shape[1], x.shape[2:]
    found = _pooled(x, (maps, height, width), windows[0], program)
    found = _pooled(found, (maps * found.shape[1], width, 1), windows[1], program)
    return found.shaped(
        *x.shape[:2], *(steps.count(size) for steps, size in zip(windows, (height, width), strict=True))
    )


def _pooled(x: Tensor, shape: tuple[int, int, int], steps: Steps, program: Assembler) -> Tensor:
    """The largest numbers along the second of three axes."""
    outer, length, run = shape
    result = (outer, steps.count(length), run)
    strides = (length * run, steps.stride * run, 1)
    if steps.taps == 1:
        return extract(x.shaped(*shape), (0, 0, 0), result, (1, steps.stride, 1), program)
    lines = [replace(x, start=x.start + tap * steps.dilation * run * 4) for tap in range(steps.taps)]
    found = _combined(lines[1], lines[0], result, (strides, strides), operations.RAISE, program)
    for line in lines[2:]:
        found = _combined(line, found, result, (strides, dense_strides(result)), operations.RAISE, program)
    return found


def lower_depth_to_space(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """DepthToSpace of any type, NCHW."""
    x, block = given[0], int(attribute(node, "blocksize", 0))
    if not isinstance(x, Tensor) or len(x.shape) != 4 or block < 1 or x.shape[1] % block**2:
        raise NotLowered(f"its input is no map, or of channels that are no blocks of {block}")
    count, channels, height, width = x.shape
    inside = channels // block**2
    if attribute(node, "mode", "DCR") == "CRD":
        y = transpose(x.shaped(count, inside, block, block, height, width), (0, 1, 4, 2, 5, 3), program)
    else:
        y = transpose(x.shaped(count, block, block, inside, height, width), (0, 3, 4, 1, 5, 2), program)
    return y.shaped(count, inside, height * block, width * block)


def lower_space_to_depth(node: ir.Node, opset: int, given: Sequence[Operand], program: Assembler) -> Tensor:
    """SpaceToDepth of any type, NCHW."""
    x, block = given[0], int(attribute(node, "blocksize", 0))
    if not isinstance(x, Tensor) or len(x.shape) != 4 or block < 1 or any(side % block for side in x.shape[2:]):
        raise NotLowered(f"its input is no map, or its sides are no blocks of {block}")
    count, channels, height, width = x.shape[0], x.shape[1], x.shape[2] // block, x.shape[3] // block
    y = transpose(x.shaped(count, channels, height, block, width, block), (0, 3, 5, 1, 2, 4), program)
    return y.shaped(count, channels * block**2, height, width)


FLOAT_LOWERINGS: Mapping[str, FloatLowering] = MappingProxyType(
    {
        "Softmax": lower_softmax,
        "Add": _arithmetic(operations.ADD),
        "Sub": _arithmetic(operations.SUBTRACT),
        "Mul": _arithmetic(operations.MULTIPLY),
        "Div": _arithmetic(operations.DIVIDE),
        "Cast": lower_cast,
        "Relu": lower_relu,
        "Conv": lower_conv,
        "MaxPool": lower_max_pool,
        "Pad": lower_pad,
        "Resize": lower_resize,
        "DepthToSpace": lower_depth_to_space,
        "SpaceToDepth": lower_space_to_depth,
    }
)
"""By type of a standard node."""
