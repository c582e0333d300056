"""Operators that move integers, and the bilinear resize that mixes neighbours."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.ops.pad import pad_integer
from engine.ops.roi_resize import sample_positions
from engine.simulate.portable.emitter import Call, Emitter, factor

PAD_MODES = ("constant", "edge")


def upsample(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedResizeUpsample``: rows and columns gathered several times."""
    x = call.input(0)
    vertical, horizontal = (int(scale) for scale in call.attributes["scale"])
    rows, columns = np.arange(x.shape[1]).repeat(vertical), np.arange(x.shape[2]).repeat(horizontal)
    return (_pick(_pick(x.value, rows, 1, emit), columns, 2, emit),)


def roi_resize(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedRoiResize``: four neighbours gathered and mixed with 8-bit fractions."""
    x, attributes = call.input(0), call.attributes
    top, bottom, fy = sample_positions(x.shape[1], 0, attributes)
    left, right, fx = sample_positions(x.shape[2], 1, attributes)
    wide = emit.wide(x)
    upper, lower = (
        _mixed(_pick(row, left, 2, emit), _pick(row, right, 2, emit), fx[:, None], emit)
        for row in (_pick(wide, top, 1, emit), _pick(wide, bottom, 1, emit))
    )
    if attributes["is_interpolate_twice"]:
        upper, lower = (emit.call("ShiftFloor", row, factor(8)) for row in (upper, lower))
        y = emit.call("ShiftFloor", _mixed(upper, lower, fy[:, None, None], emit), factor(8))
    else:
        y = emit.call("ShiftRound", _mixed(upper, lower, fy[:, None, None], emit), factor(16))
    return (emit.cast(y, x.dtype),)


def depth_to_space(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzDepthToSpace``."""
    n, h, w, c = call.input(0).shape
    b, x = int(call.attributes["blocksize"]), call.input(0).value
    if call.attributes["mode"] == "CRD":
        blocks = emit.transpose(emit.reshape(x, [n, h, w, c // (b * b), b, b]), 0, 1, 4, 2, 5, 3)
    else:
        blocks = emit.transpose(emit.reshape(x, [n, h, w, b, b, c // (b * b)]), 0, 1, 3, 2, 4, 5)
    return (emit.reshape(blocks, [n, h * b, w * b, c // (b * b)]),)


def space_to_depth(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzSpaceToDepth``."""
    n, h, w, c = call.input(0).shape
    bh, bw = int(call.attributes["block_height"]), int(call.attributes["block_width"])
    blocks = emit.transpose(emit.reshape(call.input(0).value, [n, h // bh, bh, w // bw, bw, c]), 0, 1, 3, 2, 4, 5)
    return (emit.reshape(blocks, [n, h // bh, w // bw, bh * bw * c]),)


def channel_shuffle(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzChannelShuffle``."""
    shape, group = call.input(0).shape, int(call.attributes["group"])
    grouped = emit.reshape(call.input(0).value, [*shape[:3], group, shape[3] // group])
    return (emit.reshape(emit.transpose(grouped, 0, 1, 2, 4, 3), shape),)


def pad(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzPad``; in float32, for int16 has no kernel.

    Raises:
        UnsupportedError: a mode that the BPU does not have.
    """
    x, mode = call.input(0), str(call.attributes["mode"])
    if mode not in PAD_MODES:
        raise UnsupportedError(f"node {call.node.name}: mode is {mode!r}; allowed: {', '.join(PAD_MODES)}")
    given = [None, *(call.constant(index) for index in range(1, len(call.inputs)))]
    value = np.float32(pad_integer(given, call.attributes)) if mode == "constant" else None
    inputs = [emit.cast(x.value, np.float32), call.attributes["pads"], *([] if value is None else [value])]
    return (emit.cast(emit.op("Pad", *inputs, mode=mode), x.dtype),)


def _pick(x: ir.Value, indices: NDArray[np.int64], axis: int, emit: Emitter) -> ir.Value:
    return emit.op("Gather", x, indices.astype(np.int64), axis=axis)


def _mixed(low: ir.Value, high: ir.Value, fraction: NDArray[np.int64], emit: Emitter) -> ir.Value:
    """``(256 - fraction) * low + fraction * high``."""
    weights = fraction.astype(np.float64)
    return emit.op("Add", emit.op("Mul", low, 256.0 - weights), emit.op("Mul", high, weights))
