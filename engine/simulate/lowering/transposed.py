"""Lowering of transposed convolutions.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ops.conv import Conv
from engine.ops.conv_transpose import as_sum_of_convolution, transposed_bias_and_sum
from engine.ops.core.base import Attributes
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import Call, NotLowered, check_window, per_channel
from engine.simulate.lowering.convolution import lower_convolution
from engine.simulate.lowering.movement import strided_copy
from engine.simulate.program import Assembler, Operand, Tensor

Array = NDArray[Any]


def lower_transposed_convolution(call: Call, program: Assembler) -> Tensor:
    """HzSQuantizedConvTranspose.

    A convolution of the input with zeros between its pixels, weights turned around; a block of pixels from every pixel
    where the windows do not overlap.
    """
    x, a = call.image(), call.attributes
    end = len(call.inputs) - int(a["use_sumin"])
    added, (weights, *rest) = list(call.inputs[end:]), call.constants(*range(1, end))
    check_window(a)
    group = int(a["group"])
    if weights.ndim != 4 or len(weights) != x.shape[3] or group < 1 or len(weights) % group:
        raise NotLowered(f"weights {weights.shape} do not belong to the input's {x.shape[3]} channels")
    bias, _ = transposed_bias_and_sum([None, weights, *rest], {**a, "use_sumin": 0})
    if group == 1 and not added and _stands_apart(weights, a):
        return _blocks_of_pixels(x, weights, bias, a, program)
    kernel, strides = np.array(weights.shape[1:3], np.int64), a["strides"]
    reach = a["dilations"] * (kernel - 1)
    size = (np.array(x.shape[1:3]) - 1) * strides + reach + 1 + a["output_padding"] - a["pads"][:2] - a["pads"][2:]
    first = reach - a["pads"][:2]
    last = first + (np.array(x.shape[1:3]) - 1) * strides
    height, width = (int(n) for n in size + reach)
    if np.any(first < 0) or np.any(size < 1) or last[0] >= height or last[1] >= width:
        raise NotLowered("its pads cut off more than the kernel reaches, or all of the result")
    _, rows, columns, channels = x.shape
    spread = program.tensor((1, height, width, channels), x.dtype, signed=x.signed)
    blank = {"in_h": 0, "in_w": 0, "in_c": channels, "out_h": height, "out_w": width}
    program.emit(InstructionKind.PAD, {"x": x, "y": spread}, units=height, value=0, **blank)
    pitch = width * channels
    dims, x_strides = (1, rows, columns, channels), (0, columns * channels, channels, 1)
    y_strides = (0, int(strides[0]) * pitch, int(strides[1]) * channels, 1)
    start = int(first[0]) * pitch + int(first[1]) * channels
    strided_copy(x, spread, dims, x_strides, y_strides, program, y_start=start)
    attributes = {**_as_convolution(a), "kernel_shape": kernel, "dilations": a["dilations"], **as_sum_of_convolution(a)}
    inputs: list[Operand | None] = [spread, turned_weights(weights, group), *bias, *added]
    return lower_convolution(Call(Conv(), attributes, inputs), program)


def turned_weights(weights: Array, groups: int) -> Array:
    """Weights (I, kh, kw, O / g) of a transposed convolution as those (O, kh, kw, I / g) of the equal convolution."""
    inside, kernel_h, kernel_w, outside = weights.shape
    grouped = weights.reshape(groups, inside // groups, kernel_h, kernel_w, outside)[:, :, ::-1, ::-1]
    return grouped.transpose(0, 4, 2, 3, 1).reshape(groups * outside, kernel_h, kernel_w, inside // groups)


def _as_convolution(a: Attributes) -> dict[str, Any]:
    """The attributes of the equal convolution of stride 1."""
    return {
        **{name: attribute.default for name, attribute in Conv.attributes.items()},
        **{"strides": np.ones(2, np.int64), "pads": np.zeros(4, np.int64), "group": a["group"]},
        **{"activation": a["activation"], "use_bias": a["use_bias"]},
        **{"right_shift": a["accu_right_shift"], "scale": a["y_quant_scale"], "out_shift": a["y_right_shift"]},
    }


def _stands_apart(weights: Array, a: Attributes) -> bool:
    """Whether every pixel of the result comes from one pixel of the input, and nothing is cut off or added."""
    apart = np.array_equal(a["strides"], weights.shape[1:3]) and np.all(a["dilations"] == 1)
    return bool(apart and not np.any(a["pads"]) and not np.any(a["output_padding"]))


def _blocks_of_pixels(x: Tensor, weights: Array, bias: Sequence[Array], a: Attributes, program: Assembler) -> Tensor:
    """A 1x1 convolution to the channels of all pixels of a block, which are then put in their places."""
    inside, rows, columns, outside = weights.shape
    count, ones = rows * columns, np.ones(2, np.int64)
    lists = ("right_shift", "scale", "out_shift")
    attributes = {**_as_convolution(a), "kernel_shape": ones, "dilations": ones}
    attributes |= {name: np.tile(per_channel(attributes[name], outside), count) for name in lists}
    blocks = weights.transpose(1, 2, 3, 0).reshape(count * outside, 1, 1, inside)
    constants = [np.tile(per_channel(array, outside), count) for array in bias]
    return lower_convolution(Call(Conv(), attributes, [x, blocks, *constants]), program, (rows, columns))
