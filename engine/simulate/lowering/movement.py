"""Lowering of data movement and resizing.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from engine.ops.core.windows import Geometry
from engine.ops.pad import MODES, pad_integer
from engine.ops.roi_resize import sample_positions
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import Axis, Call, NotLowered, dense_strides, joined
from engine.simulate.program import Assembler, Tensor

COPIED_BYTES = (1, 2, 4, 8)
"""Element sizes that the machine copies."""
MOST_LINES = 64
"""Copies that a border of own lines may take along an axis."""
PLANE_BYTES, MOST_PARTS = 1 << 14, 16
"""Size from which on a plane is copied in parts, and most of them."""


def lower_resize(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedRoiResize of int8."""
    x, a = call.image(), call.attributes
    height, width = (int(n) for n in a["sizes"])
    if x.dtype != np.int8 or min(height, width) < 1:
        raise NotLowered(f"a map of {x.dtype}, resized to {height}x{width}")
    y = program.tensor((1, height, width, x.shape[3]), np.int8, signed=x.signed)
    rows, columns = (np.stack(sample_positions(x.shape[1 + axis], axis, a), axis=1) for axis in range(2))
    program.emit(
        InstructionKind.BILINEAR,
        {"x": x, "y": y},
        units=height,
        **{"in_w": x.shape[2], "in_c": x.shape[3], "out_h": height, "out_w": width},
        twice=int(a["is_interpolate_twice"]),
        rows_from=program.address(rows),
        columns_from=program.address(columns),
    )
    return y


def lower_upsample(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedResizeUpsample: one strided copy per repeated row."""
    x = call.image()
    vertical, horizontal = (int(s) for s in call.attributes["scale"])
    if min(vertical, horizontal) < 1:
        raise NotLowered(f"factors {vertical} and {horizontal}")
    _, height, width, channels = x.shape
    y = program.tensor((1, height * vertical, width * horizontal, channels), x.dtype, signed=x.signed)
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


def lower_depth_to_space(call: Call, program: Assembler) -> Tensor:
    """HzDepthToSpace of mode DCR, in which the columns of a block are neighbours; numpy is faster on CRD.

    To a single channel both modes are the same.
    """
    x, block = call.image(), int(call.attributes["blocksize"])
    if block < 1 or x.shape[3] % (block * block):
        raise NotLowered(f"blocks of {block} for {x.shape[3]} channels")
    if call.attributes["mode"] == "CRD" and x.shape[3] > block * block:
        raise NotLowered("mode CRD, on which numpy is faster")
    return blocks_to_pixels(x, block, block, program)


def blocks_to_pixels(x: Tensor, rows: int, columns: int, program: Assembler) -> Tensor:
    """Channels (row, column, channel) of each pixel as a block of pixels."""
    _, height, width, channels = x.shape
    inside = channels // (rows * columns)
    y = program.tensor((1, height * rows, width * columns, inside), x.dtype, signed=x.signed)
    run, pitch = columns * inside, width * columns * inside
    x_strides, y_strides = (width * channels, run, channels, 1), (rows * pitch, pitch, run, 1)
    strided_copy(x, y, (height, rows, width, run), x_strides, y_strides, program)
    return y


def lower_space_to_depth(call: Call, program: Assembler) -> Tensor:
    """HzSpaceToDepth."""
    x, (rows, columns) = call.image(), (int(call.attributes[f"block_{side}"]) for side in ("height", "width"))
    if min(rows, columns) < 1 or x.shape[1] % rows or x.shape[2] % columns:
        raise NotLowered(f"blocks of {rows}x{columns} in a map of {x.shape[1]}x{x.shape[2]}")
    height, width, run = x.shape[1] // rows, x.shape[2] // columns, columns * x.shape[3]
    y = program.tensor((1, height, width, rows * run), x.dtype, signed=x.signed)
    dims, pitch = (height, rows, width, run), width * run
    strided_copy(x, y, dims, (rows * pitch, pitch, run, 1), (width * rows * run, run, rows * run, 1), program)
    return y


def lower_shuffle(call: Call, program: Assembler) -> Tensor:
    """HzChannelShuffle."""
    x, group = call.image(), int(call.attributes["group"])
    if group < 1 or x.shape[3] % group:
        raise NotLowered(f"{group} groups of {x.shape[3]} channels")
    _, height, width, channels = x.shape
    y, size = program.tensor(x.shape, x.dtype, signed=x.signed), channels // group
    row = width * channels
    strided_copy(x, y, (height, width, size, group), (row, channels, 1, size), (row, channels, group, 1), program)
    return y


def lower_pad(call: Call, program: Assembler) -> Tensor:
    """HzPad with the border, or of height, width and channels with a constant."""
    x, widths, mode = call.image(), np.asarray(call.attributes["pads"]), str(call.attributes["mode"])
    if mode not in MODES or len(widths) != 8 or np.any(widths < 0):
        raise NotLowered(f"mode {mode}, or pads that are negative or not eight")
    if mode == "edge":
        return bordered(x, widths[:4].tolist(), widths[4:].tolist(), mode, program)
    value = call.constants(1) if len(call.inputs) > 1 else []
    if widths[0] or widths[4]:
        raise NotLowered("samples are padded")
    filler = pad_integer([None, *value], call.attributes)
    borders = Geometry(np.zeros(2, np.int64), widths[[1, 2, 5, 6]], np.ones(2, np.int64))
    y = pad(x, borders, filler, program)
    # Channels: every pixel is a row of single values.
    _, height, width, channels = y.shape
    sides = Geometry(np.zeros(2, np.int64), np.array([0, widths[3], 0, widths[7]]), np.ones(2, np.int64))
    rows = pad(y.shaped(1, height * width, channels, 1), sides, filler, program)
    return rows.shaped(1, height, width, rows.shape[2])


def pad(x: Tensor, windows: Geometry, value: int, program: Assembler, flip: int = 0) -> Tensor:
    """``x`` with a border, or ``x`` itself where none is needed; with ``flip``, which each byte is combined with."""
    top, left, bottom, right = (int(p) for p in windows.pads)
    if not (top or left or bottom or right or flip):
        return x
    _, height, width, channels = x.shape
    shape = (1, height + top + bottom, width + left + right, channels)
    y = program.tensor(shape, x.dtype, signed=x.signed or value < 0)
    size = {"in_h": height, "in_w": width, "in_c": channels, "out_h": y.shape[1], "out_w": y.shape[2]}
    border = {"top": top, "left": left, "value": value, "flip": flip}
    program.emit(InstructionKind.PAD, {"x": x, "y": y}, units=y.shape[1], **border, **size)
    return y


def bordered(x: Tensor, begins: Sequence[int], ends: Sequence[int], mode: str, program: Assembler) -> Tensor:
    """``x`` with lines of its own around it, one axis after the other.

    Args:
        x: padded.
        begins: lines in front of every axis.
        ends: lines behind every axis.
        mode: ``edge`` repeats the outermost line; ``reflect`` goes back from it.
        program: what the instructions are appended to.

    Raises:
        NotLowered: there are not so many lines to reflect, or each would be an instruction and they are too many.
    """
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if begin or end:
            x = _bordered(x, axis, begin, end, mode, program)
    return x


def _bordered(x: Tensor, axis: int, begin: int, end: int, mode: str, program: Assembler) -> Tensor:
    """:func:`bordered` along one axis: a copy for the inside, one per repeated or reflected line or run of them."""
    length, outer, run = x.shape[axis], math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    if x.dtype.itemsize not in COPIED_BYTES or not x.size:
        raise NotLowered(f"a tensor of {x.dtype} of {x.size} elements")
    if mode == "reflect" and max(begin, end) >= length:
        raise NotLowered(f"{max(begin, end)} lines of {length} are reflected")
    lines = np.pad(np.arange(length), (begin, end), mode="edge" if mode == "edge" else "reflect").tolist()
    runs = list(even_runs(lines))
    if len(runs) > MOST_LINES:
        raise NotLowered(f"{len(runs)} lines are copied one by one")
    y = program.tensor((*x.shape[:axis], len(lines), *x.shape[axis + 1 :]), x.dtype, signed=x.signed)
    for first, count, step in runs:
        strided_copy(
            x,
            y,
            (1, outer, count, run),
            (0, length * run, step * run, 1),
            (0, len(lines) * run, run, 1),
            program,
            x_start=lines[first] * run,
            y_start=first * run,
        )
    return y


def even_runs(lines: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """``lines`` in pieces that repeat a number or count up by one: first position, length and step of each."""
    first = 0
    while first < len(lines):
        step = lines[first + 1] - lines[first] if first + 1 < len(lines) else 1
        count = 1
        while step in (0, 1) and first + count < len(lines) and lines[first + count] == lines[first] + step * count:
            count += 1
        yield first, count, step if count > 1 else 1
        first += count


def transpose(x: Tensor, perm: Sequence[int], program: Assembler) -> Tensor:
    """ONNX Transpose; the same memory where only axes of length 1 move."""
    if sorted(perm) != list(range(len(x.shape))):
        raise NotLowered(f"axes {list(perm)} of a tensor of rank {len(x.shape)}")
    strides, shape = dense_strides(x.shape), tuple(x.shape[axis] for axis in perm)
    return _moved(x, shape, [strides[axis] for axis in perm], 0, program)


def _moved(x: Tensor, shape: Sequence[int], x_strides: Sequence[int], start: int, program: Assembler) -> Tensor:
    """A dense tensor of what ``x`` has at these strides from element ``start`` on; a part of ``x`` where it can be."""
    axes = joined(shape, x_strides, dense_strides(shape))
    if not axes or (len(axes) == 1 and axes[0][1] == 1):
        return replace(x, shape=tuple(shape), start=x.start + start * x.dtype.itemsize)
    if x.dtype.itemsize not in COPIED_BYTES:
        raise NotLowered(f"a tensor of {x.dtype}")
    y = program.tensor(shape, x.dtype, signed=x.signed)
    # An instruction for each position on axes beyond four: the shortest, but those along which x or y goes on.
    by_length = sorted(range(len(axes)), key=lambda k: (1 in axes[k][1:], axes[k][0]))
    outer = [axes[k] for k in sorted(by_length[: max(0, len(axes) - 4)])]
    inner = ([(1, 0, 0)] * 4 + [axis for axis in axes if axis not in outer])[-4:]
    for index in np.ndindex(*(axis[0] for axis in outer)):
        x_start = start + sum(step * axis[1] for step, axis in zip(index, outer, strict=True))
        y_start = sum(step * axis[2] for step, axis in zip(index, outer, strict=True))
        dims, x_steps, y_steps = zip(*inner, strict=True)
        strided_copy(x, y, dims, x_steps, y_steps, program, x_start=x_start, y_start=y_start)
    return y


def concat(tensors: Sequence[Tensor], axis: int, program: Assembler) -> Tensor:
    """ONNX Concat of tensors of one type."""
    first = tensors[0]
    if any(t.dtype != first.dtype or len(t.shape) != len(first.shape) for t in tensors) or not first.shape:
        raise NotLowered("tensors of several types or ranks")
    axis %= len(first.shape)
    others = {(*t.shape[:axis], *t.shape[axis + 1 :]) for t in tensors}
    if len(others) > 1 or first.dtype.itemsize not in COPIED_BYTES:
        raise NotLowered(f"tensors of {first.dtype} whose other dimensions differ")
    shape = list(first.shape)
    shape[axis] = sum(t.shape[axis] for t in tensors)
    y = program.tensor(shape, first.dtype, signed=any(t.signed for t in tensors))
    outer, start = int(np.prod(shape[:axis])), 0
    for tensor in tensors:
        run = int(np.prod(tensor.shape[axis:]))
        strided_copy(
            tensor, y, (1, outer, 1, run), (0, run, 0, 1), (0, int(np.prod(shape[axis:])), 0, 1), program, y_start=start
        )
        start += run
    return y


def extract(x: Tensor, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int], program: Assembler) -> Tensor:
    """ONNX Slice: ``shape`` elements of every axis from ``starts`` on, every ``steps``-th."""
    if min(steps) < 1:
        raise NotLowered("it goes backwards")
    strides = dense_strides(x.shape)
    x_strides = [stride * step for stride, step in zip(strides, steps, strict=True)]
    return _moved(x, shape, x_strides, sum(a * b for a, b in zip(strides, starts, strict=True)), program)


def strided_copy(
    x: Tensor,
    y: Tensor,
    dims: Sequence[int],
    x_strides: Sequence[int],
    y_strides: Sequence[int],
    program: Assembler,
    *,
    x_start: int = 0,
    y_start: int = 0,
) -> None:
    """Copy a 4-D tensor between two layouts; strides and starts are in elements."""
    size = x.dtype.itemsize
    starts = {"start": x_start * size, "value": y_start * size}
    axes = joined(dims, x_strides, y_strides)
    run = _whole_elements(axes, x_start, y_start, size)
    axes = [(n, a // run, b // run) for n, a, b in (axes if run == 1 else axes[:-1])]
    x, y = (replace(t, dtype=np.dtype(f"i{size * run}"), shape=(t.size // run,)) if run > 1 else t for t in (x, y))
    table = np.array(_units_and_plane(axes, size * run), np.int64).T
    units = int(table[0, 0] * table[0, 1])
    address = program.address(np.ascontiguousarray(table))
    program.emit(InstructionKind.COPY, {"x": x, "y": y}, units=units, dims=address, **starts)


def _whole_elements(axes: Sequence[Axis], x_start: int, y_start: int, size: int) -> int:
    """Neighbours that a turned plane may move as one larger element; 1 where there are none."""
    run = axes[-1][0] if len(axes) > 2 and axes[-1][1:] == (1, 1) else 1
    others = [step for axis in axes[:-1] for step in axis[1:]] + [x_start, y_start]
    whole = run * size in COPIED_BYTES[:-1] and all(step % run == 0 for step in others)
    return run if whole and all(any(axis[k] == run for axis in axes[:-1]) for k in (1, 2)) else 1


def _units_and_plane(axes: Sequence[Axis], size: int) -> list[Axis]:
    """Four axes, the two inner ones a plane: that which goes on in y last, before it that which goes on in x.

    Where both are one, the longest of the others. A large plane is cut along its longer axis, so that threads can
    share it.
    """
    if not axes:
        return [_ONE] * 3 + [(1, 1, 1)]
    last = min(range(len(axes)), key=lambda k: (abs(axes[k][2] - 1), -k))
    others = [axis for k, axis in enumerate(axes) if k != last]
    if not others:
        return [_ONE] * 3 + [axes[last]]
    rows = max(others, key=lambda axis: (axis[1] == 1, axis[0]))
    others.remove(rows)
    plane = [rows, axes[last]]
    if not others and rows[0] * axes[last][0] * size > PLANE_BYTES:
        longer = int(plane[1][0] > plane[0][0])
        length, *strides = plane[longer]
        parts = max(n for n in range(1, MOST_PARTS + 1) if length % n == 0)
        plane[longer] = (length // parts, *strides)
        others = [(parts, *(stride * (length // parts) for stride in strides))]
    return [*[_ONE] * (2 - len(others)), *others, *plane]


_ONE: Axis = (1, 0, 0)
