"""From graph nodes to instructions of the machine, one function per operator.

A function that cannot express a node (an unusual shape or parameter) returns None; the node's reference is then called
from the program, so that no result depends on this list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ops.average_pool import reciprocal
from engine.ops.base import Attributes, QuantizedOperator
from engine.ops.conv import shifted_bias
from engine.ops.fixed_point import SCALE_MAX, wrap_int32
from engine.ops.preprocess import as_convolution
from engine.ops.windows import Geometry, geometry, tap_corners
from engine.simulate.kernels import convolution as conv
from engine.simulate.kernels import elementwise as ew
from engine.simulate.kernels import vector
from engine.simulate.kernels.instructions import Kind
from engine.simulate.kernels.vector import LANES, PIXELS
from engine.simulate.program import Assembler, Operand, Tensor

Array = NDArray[Any]

MAX_SHIFT = 31
"""Shifts of 32-bit lanes; a right shift by more gives the same as one by 31."""
MAX_SCALE = 65535
"""|int16| times this fits 32 bits."""
TABLE_UNIT = 1 << 14
"""Elements per unit of a table look-up."""
SMALL_DEPTHWISE = 8
"""1x1 depthwise convolutions of so few channels are look-up tables: a vector would be mostly empty."""
MIN_UNITS = 8
"""Parts that a convolution is split into, so that threads can share it evenly."""


@dataclass(frozen=True)
class Call:
    """One quantised node to lower.

    Attributes:
        operator: its semantics.
        attributes: its attributes.
        inputs: activations as tensors, constants as arrays, None where one is omitted.
    """

    operator: QuantizedOperator
    attributes: Attributes
    inputs: Sequence[Operand]

    def image(self, index: int = 0) -> Tensor | None:
        """Input ``index`` where it is an NHWC activation of one sample, int8 or int16; else None."""
        x = self.inputs[index]
        is_image = isinstance(x, Tensor) and len(x.shape) == 4 and x.shape[0] == 1 and x.dtype.itemsize <= 2
        return x if is_image and isinstance(x, Tensor) else None

    def constants(self, *indices: int) -> list[Array] | None:
        """Those inputs where all of them are constants; else None."""
        found = [x for index in indices if isinstance(x := self.inputs[index], np.ndarray)]
        return found if len(found) == len(indices) else None


Lowering = Callable[[Call, Assembler], Tensor | None]


def lower_convolution(call: Call, program: Assembler) -> Tensor | None:
    """HzSQuantizedConv."""
    x, constants, attributes = call.image(), call.constants(1, 2, 3), call.attributes
    if x is None or constants is None or np.any(attributes["pads"] < 0):
        return None
    weights, bias, b_scale = constants
    e = call.inputs[-1] if attributes["use_sumin"] else None
    channels, windows = len(weights), geometry(x.shape[1:3], attributes)
    shape = (1, int(windows.out[0]), int(windows.out[1]), channels)
    if isinstance(e, np.ndarray):
        e = program.constant_operand(e)
    if e is not None and (e.shape != shape or e.dtype.itemsize > 2):
        return None
    params = convolution_parameters(bias, b_scale, attributes, channels)
    if params is None or min(shape) < 1:
        return None
    if e is None and _is_small_affine(x, weights, attributes):
        return look_up(x, tables_of_ramp(call, x.shape[3]), program)
    x = pad(x, windows, 0, program)
    y, limits = _convolution_output(shape, attributes, program)
    operands = {"x": x, "y": y} if e is None else {"x": x, "e": e, "y": y}
    common = {**_window_fields(x, y, attributes), **limits}
    common |= {"params": program.address(params), "params_pitch": params.strides[0]}
    if attributes["group"] == channels == x.shape[3] and weights.shape[3] == 1:
        _emit_depthwise(program, operands, common, weights, attributes)
    else:
        _emit_matrix_product(program, operands, common, weights, attributes)
    return y


def lower_preprocess(call: Call, program: Assembler) -> Tensor | None:
    """HzSQuantizedPreprocess, a 1x1 convolution."""
    kernel = np.asarray(call.inputs[1]).shape
    attributes = {**as_convolution(call.attributes), "kernel_shape": np.array(kernel[1:3], np.int64)}
    return lower_convolution(Call(call.operator, attributes, call.inputs), program)


def convolution_parameters(
    bias: Array, b_scale: Array, attributes: Attributes, channels: int
) -> NDArray[np.int32] | None:
    """Rows of the kernel's parameters, padded to whole vectors; None where one does not fit its 32-bit lanes."""
    shifts = {name: _per_channel(attributes[name], channels) for name in ("right_shift", "scale", "out_shift")}
    e_scale = _per_channel(attributes["e_scale"], channels) if attributes["use_sumin"] else np.zeros(channels, np.int64)
    e_shift = _per_channel(attributes["e_shift"], channels) if attributes["use_sumin"] else np.zeros(channels, np.int64)
    if np.any(shifts["right_shift"] < 0) or np.any(shifts["out_shift"] < 0) or np.any(e_shift > MAX_SHIFT):
        return None
    if np.any(np.abs(shifts["scale"]) > SCALE_MAX) or np.any(np.abs(e_scale) > MAX_SCALE):
        return None
    rows = {
        vector.BIAS: wrap_int32(shifted_bias(bias, b_scale)),
        vector.RIGHT_SHIFT: np.minimum(shifts["right_shift"], MAX_SHIFT),
        vector.SCALE: shifts["scale"] & 0xFFFF,
        vector.OUT_SHIFT: np.minimum(shifts["out_shift"], MAX_SHIFT),
        vector.E_SCALE: e_scale,
        vector.E_LEFT: np.maximum(e_shift, 0),
        vector.E_RIGHT: np.minimum(np.maximum(-e_shift, 0), MAX_SHIFT),
    }
    params = np.zeros((len(rows), _whole_vectors(channels) + conv.MAX_VECTORS * LANES), np.int32)
    for row, values in rows.items():
        params[row, :channels] = values
    return params


def _convolution_output(
    shape: Sequence[int], attributes: Attributes, program: Assembler
) -> tuple[Tensor, dict[str, int]]:
    bits = 32 if attributes["high_precision_output"] else int(attributes["output_bit"])
    y = program.tensor(shape, f"int{bits}")
    low = 0 if attributes["activation"] == "relu" else -(1 << (bits - 1))
    return y, {"low": low, "high": (1 << (bits - 1)) - 1}


def _window_fields(x: Tensor, y: Tensor, attributes: Attributes) -> dict[str, int]:
    return {
        **dict(zip(("in_h", "in_w", "in_c"), x.shape[1:], strict=True)),
        **dict(zip(("out_h", "out_w", "out_c"), y.shape[1:], strict=True)),
        **{"stride_h": int(attributes["strides"][0]), "stride_w": int(attributes["strides"][1])},
    }


def _tap_fields(x: Tensor, attributes: Attributes, program: Assembler) -> dict[str, int]:
    corners = np.array(tap_corners(attributes), np.int64)
    offsets = (corners[:, 0] * x.shape[2] + corners[:, 1]) * x.shape[3] * x.dtype.itemsize
    return {"taps": len(offsets), "tap_offsets": program.address(offsets)}


def _emit_depthwise(
    program: Assembler, operands: dict[str, Tensor], common: dict[str, int], weights: Array, attributes: Attributes
) -> None:
    x = operands["x"]
    channels = len(weights)
    packed = np.zeros((weights.shape[1] * weights.shape[2], common["params_pitch"] // 4), np.int32)
    packed[:, :channels] = weights.reshape(channels, -1).T.astype(np.int32) & 0xFFFF
    _, height, width, _ = weights.shape
    own = x.dtype == np.int8 and attributes["dilations"][1] == 1
    own = own and (width, common["stride_w"]) in conv.ROW_WINDOWS
    program.emit(
        Kind.DEPTHWISE,
        operands,
        units=common["out_h"],
        overrun=(PIXELS * common["stride_w"] * channels + LANES) * x.dtype.itemsize,
        weights=program.address(packed),
        rows=height if own else 0,
        **_tap_fields(x, attributes, program),
        **common,
    )


def _emit_matrix_product(
    program: Assembler, operands: dict[str, Tensor], common: dict[str, int], weights: Array, attributes: Attributes
) -> None:
    x, groups = operands["x"], int(attributes["group"])
    kernel = weights.shape[1] * weights.shape[2] * weights.shape[3]
    pairs = -(-kernel // 2)
    panels, packed = pack_weights(weights.reshape(groups, len(weights) // groups, kernel))
    pieces = _piece_fields(x, weights, attributes, program)
    pixels = common["out_h"] * common["out_w"]
    tile_rows = pixels if pixels <= conv.LARGEST_TILE_ROWS else conv.TILE_ROWS
    tiles = math.ceil(pixels / tile_rows)
    splits = min(len(panels), math.ceil(MIN_UNITS / tiles))
    program.emit(
        Kind.CONVOLUTION,
        operands,
        units=tiles * splits,
        scratch=(tile_rows + max(conv.ROWS)) * pairs * 4 + conv.GATHER_OVERRUN,
        pairs=pairs,
        groups=groups,
        group_weights=packed.strides[0],
        tile_rows=tile_rows,
        splits=splits,
        panels=len(panels),
        panel_table=program.address(panels),
        weights=program.address(packed),
        **pieces,
        **common,
        overrun=conv.GATHER_OVERRUN,
    )


def _piece_fields(x: Tensor, weights: Array, attributes: Attributes, program: Assembler) -> dict[str, int]:
    """The window as contiguous pieces of memory: whole rows of it where nothing lies between its columns."""
    _, kernel_h, kernel_w, channels = weights.shape
    if attributes["group"] == 1 and (attributes["dilations"][1] == 1 or kernel_w == 1):
        rows = np.arange(kernel_h, dtype=np.int64) * attributes["dilations"][0]
        offsets = rows * x.shape[2] * x.shape[3] * x.dtype.itemsize
        return {"taps": kernel_h, "tap_offsets": program.address(offsets), "tap_length": kernel_w * channels}
    return {**_tap_fields(x, attributes, program), "tap_length": channels}


def pack_weights(weights: Array) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """Weights (groups, channels, kernel) as the tile kernels read them.

    Returns:
        The panels of a group as rows (vectors, first channel, byte offset), int64, and the packed weights
        (groups, int16 elements): per panel (pairs, columns, 2), zeros where nothing is.
    """
    groups, channels, kernel = weights.shape
    vectors = -(-channels // LANES)
    panel_count = -(-vectors // conv.MAX_VECTORS)
    widths = [vectors // panel_count + (k < vectors % panel_count) for k in range(panel_count)]
    pairs = -(-kernel // 2)
    padded = np.zeros((groups, vectors * LANES, pairs * 2), np.int16)
    padded[:, :channels, :kernel] = weights
    table, pieces, first, offset = [], [], 0, 0
    for width in widths:
        columns = width * LANES
        block = padded[:, first : first + columns].reshape(groups, columns, pairs, 2).transpose(0, 2, 1, 3)
        pieces.append(block.reshape(groups, -1))
        table.append((width, first, offset))
        first += columns
        offset += pairs * columns * 4
    return np.array(table, np.int64), np.ascontiguousarray(np.concatenate(pieces, axis=1))


def pad(x: Tensor, windows: Geometry, value: int, program: Assembler) -> Tensor:
    """``x`` with a border, or ``x`` itself where none is needed."""
    top, left, bottom, right = (int(p) for p in windows.pads)
    if not (top or left or bottom or right):
        return x
    _, height, width, channels = x.shape
    y = program.tensor((1, height + top + bottom, width + left + right, channels), x.dtype)
    size = {"in_h": height, "in_w": width, "in_c": channels, "out_h": y.shape[1], "out_w": y.shape[2]}
    program.emit(Kind.PAD, {"x": x, "y": y}, units=y.shape[1], top=top, left=left, value=value, **size)
    return y


def _is_small_affine(x: Tensor, weights: Array, attributes: Attributes) -> bool:
    """Whether a convolution is a function of one int8 value per channel, of few channels."""
    return bool(
        attributes["group"] == x.shape[3] == len(weights) <= SMALL_DEPTHWISE
        and weights.shape[1:] == (1, 1, 1)
        and x.dtype == np.int8
        and attributes["output_bit"] == 8
        and not attributes["high_precision_output"]
        and not np.any(attributes["pads"])
        and np.all(attributes["strides"] == 1)
    )


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


def lower_requantize(call: Call, program: Assembler) -> Tensor | None:
    """HzRequantize of int8 along the last axis."""
    x, axis = call.inputs[0], call.attributes["axis"]
    scales = len(call.attributes["output_scale"])
    if not isinstance(x, Tensor) or len(x.shape) != 4 or (axis not in (3, -1) and scales > 1):
        return None
    return lower_table_of_ramp(call, program)


def lower_elementwise(call: Call, program: Assembler) -> Tensor | None:
    """HzSElementwiseAdd, HzSElementwiseSub and HzSElementwiseMul, operands of up to four dimensions."""
    operands = [program.constant_operand(v) if isinstance(v, np.ndarray) else v for v in call.inputs]
    x, e = operands[:2]
    if x is None or e is None or max(len(x.shape), len(e.shape)) > 4 or max(x.dtype.itemsize, e.dtype.itemsize) > 2:
        return None
    shape = np.broadcast_shapes(x.shape, e.shape)
    full = (1,) * (4 - len(shape)) + shape
    params = elementwise_parameters(call, full[3])
    if params is None:
        return None
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
        **_limits(call.attributes["output_bit"]),
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
    return np.stack([_per_channel(rows[k], channels) for k in range(len(rows))])


def lower_max_pool(call: Call, program: Assembler) -> Tensor | None:
    """HzQuantizedMaxPool."""
    x = call.image()
    if x is None or np.any(call.attributes["pads"] < 0):
        return None
    windows = geometry(x.shape[1:3], call.attributes)
    if np.any(windows.out < 1):
        return None
    padded = pad(x, windows, int(np.iinfo(x.dtype).min), program)
    y = program.tensor((1, *(int(n) for n in windows.out), x.shape[3]), x.dtype)
    fields = {**_window_fields(padded, y, call.attributes), **_tap_fields(padded, call.attributes, program)}
    program.emit(Kind.MAX_POOL, {"x": padded, "y": y}, units=y.shape[1], **fields)
    return y


def lower_average_pool(call: Call, program: Assembler) -> Tensor | None:
    """HzQuantizedAveragePool."""
    x = call.image()
    if x is None or x.dtype != np.int8 or np.any(call.attributes["pads"] < 0):
        return None
    windows = geometry(x.shape[1:3], call.attributes)
    if np.any(windows.out < 1):
        return None
    padded = pad(x, windows, 0, program)
    y = program.tensor((1, *(int(n) for n in windows.out), x.shape[3]), np.int8)
    shift, factor = reciprocal(call.attributes)
    fields = {**_window_fields(padded, y, call.attributes), **_tap_fields(padded, call.attributes, program)}
    fields |= {"value": factor, "shift": shift, **_limits(8)}
    program.emit(Kind.AVERAGE_POOL, {"x": padded, "y": y}, units=y.shape[1], scratch=x.shape[3] * 4, **fields)
    return y


def lower_global_average(call: Call, program: Assembler) -> Tensor | None:
    """HzSQuantizedGlobalAveragePool of int8."""
    x, a = call.image(), call.attributes
    shifts = np.concatenate([a["accu_right_shift"], a["output_right_shift"]])
    if x is None or x.dtype != np.int8 or np.any(shifts < 0) or np.any(shifts > MAX_SHIFT):
        return None
    if np.any(np.abs(a["output_scale"]) > MAX_SCALE):
        return None
    channels = x.shape[3]
    rows = {
        ew.OFFSET: _half(a["accu_right_shift"]),
        ew.ACCU_SHIFT: a["accu_right_shift"],
        ew.SCALE: a["output_scale"],
        ew.HALF: _half(a["output_right_shift"]),
        ew.OUT_SHIFT: a["output_right_shift"],
    }
    params = np.zeros((8, channels), np.int64)
    for row, values in rows.items():
        params[row] = _per_channel(values, channels)
    y = program.tensor((1, 1, 1, channels), f"int{a['output_bit']}")
    fields = {"in_h": x.shape[1], "in_w": x.shape[2], "in_c": channels, **_limits(a["output_bit"])}
    address = program.address(params)
    program.emit(Kind.GLOBAL_AVERAGE, {"x": x, "y": y}, units=1, scratch=channels * 4, params=address, **fields)
    return y


def lower_upsample(call: Call, program: Assembler) -> Tensor | None:
    """HzQuantizedResizeUpsample: one strided copy per repeated row."""
    x = call.image()
    if x is None:
        return None
    vertical, horizontal = (int(s) for s in call.attributes["scale"])
    _, height, width, channels = x.shape
    y = program.tensor((1, height * vertical, width * horizontal, channels), x.dtype)
    pitch = width * horizontal * channels
    dims = (height, width, horizontal, channels)
    for row in range(vertical):
        strided_copy(
            x,
            y,
            dims,
            (width * channels, channels, 0, 1),
            (vertical * pitch, horizontal * channels, channels, 1),
            program,
            y_start=row * pitch,
        )
    return y


def strided_copy(
    x: Tensor,
    y: Tensor,
    dims: Sequence[int],
    x_strides: Sequence[int],
    y_strides: Sequence[int],
    program: Assembler,
    y_start: int = 0,
) -> None:
    """Copy a 4-D tensor between two layouts; strides and the start in y are in elements."""
    table = np.array([dims, x_strides, y_strides], np.int64)
    program.emit(
        Kind.COPY,
        {"x": x, "y": y},
        units=int(dims[0] * dims[1]),
        dims=program.address(table),
        value=y_start * y.dtype.itemsize,
    )


def transpose(x: Tensor, perm: Sequence[int], program: Assembler) -> Tensor | None:
    """ONNX Transpose of up to four dimensions."""
    if len(x.shape) > 4:
        return None
    strides = _strides(x.shape)
    shape = tuple(x.shape[axis] for axis in perm)
    y = program.tensor(shape, x.dtype)
    missing = 4 - len(shape)
    dims = (1,) * missing + shape
    x_strides = (0,) * missing + tuple(strides[axis] for axis in perm)
    strided_copy(x, y, dims, x_strides, _strides(dims), program)
    return y


def concat(tensors: Sequence[Tensor], axis: int, program: Assembler) -> Tensor | None:
    """ONNX Concat of tensors of one type."""
    first = tensors[0]
    axis %= len(first.shape)
    if any(t.dtype != first.dtype for t in tensors):
        return None
    shape = list(first.shape)
    shape[axis] = sum(t.shape[axis] for t in tensors)
    y = program.tensor(shape, first.dtype)
    outer, start = int(np.prod(shape[:axis])), 0
    for tensor in tensors:
        run = int(np.prod(tensor.shape[axis:]))
        strided_copy(
            tensor, y, (1, outer, 1, run), (0, run, 0, 1), (0, int(np.prod(shape[axis:])), 0, 1), program, y_start=start
        )
        start += run
    return y


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


def _broadcast_strides(tensor: Tensor, full: Sequence[int]) -> tuple[int, ...]:
    shape = (1,) * (len(full) - len(tensor.shape)) + tensor.shape
    return tuple(0 if dim == 1 else stride for dim, stride in zip(shape, _strides(shape), strict=True))


def _per_channel(values: Array, channels: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.asarray(values, np.int64), (channels,))


def _whole_vectors(channels: int) -> int:
    return -(-channels // LANES) * LANES


def _half(shift: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)


def _limits(bits: int) -> dict[str, int]:
    return {"low": -(1 << (int(bits) - 1)), "high": (1 << (int(bits) - 1)) - 1}


LOWERINGS: Mapping[str, Lowering] = MappingProxyType(
    {
        "HzSQuantizedConv": lower_convolution,
        "HzSQuantizedPreprocess": lower_preprocess,
        "HzSElementwiseAdd": lower_elementwise,
        "HzSElementwiseSub": lower_elementwise,
        "HzSElementwiseMul": lower_elementwise,
        "HzQuantizedMaxPool": lower_max_pool,
        "HzQuantizedAveragePool": lower_average_pool,
        "HzSQuantizedGlobalAveragePool": lower_global_average,
        "HzQuantizedResizeUpsample": lower_upsample,
        "HzLut": lower_table_of_ramp,
        "HzSPRelu": lower_table_of_ramp,
        "HzPRelu": lower_table_of_ramp,
        "HzLeakyRelu": lower_table_of_ramp,
        "HzRequantize": lower_requantize,
    }
)
"""Quantised operators that have instructions, by type."""
