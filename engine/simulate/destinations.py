"""Results stored where they are read: in padded images, in joins, as floats by channels, where the caller wants them.

What a lowering writes is a step per node and one more for each border, join and change of layout. Here steps that only
move what one convolution gave are taken out, and the convolution stores its results as they would have: it has two
places for results of int8, and one for floats. An image of floats is quantised to where it is read in the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.tiles import MIN_SCRATCH, SCALE
from engine.simulate.lowering.common import Axis, dense_strides, joined
from engine.simulate.program import Assembler, Buffer, Instruction, PythonStep, Tensor

STORED = {"y": ("y_pitch", "y_line", "flip"), "z": ("z_pitch", "z_line", "z_flip")}
"""Operands that results of a convolution are stored in, and their fields."""


_IMAGE_RANK = 4
REACHED_FROM = 1 << 15
"""Bytes from which it takes longer to copy an input or output than to tell a program where it lies."""


@dataclass(frozen=True)
class Destination:
    """Where the pixels of an image belong, bytes.

    Attributes:
        target: what holds them, from the first one on.
        pitch: from a pixel to the next.
        line: from a line to the next.
        flip: what they are combined with by exclusive or.
    """

    target: Tensor
    pitch: int
    line: int
    flip: int = 0


def store_where_read(program: Assembler) -> None:
    """Let convolutions of ``program`` store their results where they are read, and drop the steps that did."""
    found = _Steps(program)
    for index in range(len(found.steps)):
        _as_floats(found, index)
        _as_image(found, index)
    changed = True
    while changed:  # a join can be padded as it is written once all of its parts are stored in it
        changed = False
        for index in range(len(found.steps)):
            changed |= _moved(found, index)
    program.replace_steps([step for step in found.steps if step is not None])


def reach_outside(program: Assembler, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Let steps quantise inputs, and store outputs, outside the arena, where whoever runs the program has them.

    Args:
        program: its last changes but for :meth:`~engine.simulate.program.Assembler.finish` made.
        inputs, outputs: by name.

    Returns:
        By name the int64 tensors of one element that hold the addresses of such inputs and outputs, which have no place
        in the arena else.
    """
    found, addresses = _Steps(program), {}
    ends = [tensor.buffer for tensor in (*inputs.values(), *outputs.values())]
    for name, tensor in (*inputs.items(), *outputs.items()):
        numbers = found.readers[tensor.buffer] | found.writers[tensor.buffer]
        users = [(number, _user(found, number, tensor)) for number in sorted(numbers)]
        if tensor.buffer.size < REACHED_FROM or ends.count(tensor.buffer) > 1:
            continue
        if not users or not all(operand for _, operand in users):
            continue
        is_written = bool(found.writers[tensor.buffer])
        if is_written is not (len(users) == 1 and name in outputs):
            continue
        addresses[name] = program.input((1,), np.int64)
        program.keep(addresses[name])
        for number, operand in users:
            step = found.steps[number]
            if isinstance(step, Instruction):
                reached = replace(step.operands[operand], buffer=addresses[name].buffer)
                fields = step.fields | {"indirect": 1}
                found.change(number, replace(step, operands=step.operands | {operand: reached}, fields=fields))
    program.replace_steps([step for step in found.steps if step is not None])
    program.drop([tensor for name, tensor in (*inputs.items(), *outputs.items()) if name in addresses])
    return addresses


def _user(found: _Steps, index: int, tensor: Tensor) -> str:
    """The operand as which step ``index`` can reach ``tensor`` by its address; empty where it cannot."""
    reader = found.instruction(index, InstructionKind.QUANTIZE)
    writer = found.instruction(index, InstructionKind.CONVOLUTION, InstructionKind.DEQUANTIZE)
    step = reader or writer
    operand = "x" if reader else "y"
    if step is None or [name for name, each in step.operands.items() if each.buffer is tensor.buffer] != [operand]:
        return ""
    return operand if step.operands[operand].start == 0 and _is_whole(tensor) else ""


class _Steps:
    """The steps of a program, and who reads and writes each buffer."""

    def __init__(self, program: Assembler) -> None:
        self.program, self.constants = program, program.constants()
        self.steps: list[Instruction | PythonStep | None] = list(program.steps)
        self.readers: dict[Buffer, set[int]] = defaultdict(set)
        self.writers: dict[Buffer, set[int]] = defaultdict(set)
        for index in range(len(self.steps)):
            self._enter(index)

    def instruction(self, index: int, *kinds: InstructionKind) -> Instruction | None:
        """Step ``index`` if it is an instruction of one of these kinds."""
        step = self.steps[index]
        return step if isinstance(step, Instruction) and step.kind in kinds else None

    def change(self, index: int, step: Instruction | None) -> None:
        """Replace step ``index``, or drop it."""
        before = self.steps[index]
        if before is not None:
            for tensor in before.read:
                self.readers[tensor.buffer].discard(index)
            for tensor in before.written:
                self.writers[tensor.buffer].discard(index)
        self.steps[index] = step
        self._enter(index)

    def only_reader(self, tensor: Tensor) -> int | None:
        """The one step that reads what ``tensor`` lies in, which does not outlive it."""
        readers = self.readers[tensor.buffer]
        return next(iter(readers)) if len(readers) == 1 and not self.program.is_kept(tensor) else None

    def source(self, tensor: Tensor) -> tuple[int, Instruction] | None:
        """The convolution that alone gives ``tensor``, all of it and in order, and its number."""
        writers = self.writers[tensor.buffer]
        if len(writers) != 1 or not _is_whole(tensor):
            return None
        (index,) = writers
        step = self.instruction(index, InstructionKind.CONVOLUTION)
        is_source = step is not None and step.operands["y"].buffer is tensor.buffer and _is_dense(step)
        return (index, step) if step is not None and is_source else None

    def _enter(self, index: int) -> None:
        step = self.steps[index]
        if step is None:
            return
        for tensor in step.read:
            self.readers[tensor.buffer].add(index)
        for tensor in step.written:
            self.writers[tensor.buffer].add(index)


def _moved(found: _Steps, index: int) -> bool:
    """Drop step ``index``, a border or copy, if convolutions can store what it moves where it belongs; whether so."""
    mover = found.instruction(index, InstructionKind.PAD, InstructionKind.COPY)
    if mover is None or "x" not in mover.operands:
        return False
    x = mover.operands["x"]
    source = found.source(x)
    if source is None:
        return _parts_moved(found, index, mover)
    number, convolution = source
    destination = _destination_of(found.constants, mover, _image(convolution))
    if destination is None or not convolution.fields["finishes"] or not _is_free(found, destination.target, index):
        return False
    if found.only_reader(x) == index:
        name = "y"
    elif "z" not in convolution.operands:
        name = "z"
    else:
        return False
    found.change(number, _stored(convolution, name, destination))
    found.change(index, _border_alone(mover))
    return True


def _parts_moved(found: _Steps, index: int, mover: Instruction) -> bool:
    """The same where several convolutions store parts of what the step moves, and nothing else reads it."""
    x = mover.operands["x"]
    writers = sorted(found.writers[x.buffer])
    steps = [found.instruction(number, InstructionKind.CONVOLUTION) for number in writers]
    if mover.kind is not InstructionKind.PAD or not _is_whole(x) or found.only_reader(x) != index or not steps:
        return False
    height, width, channels = (mover.fields[name] for name in ("in_h", "in_w", "in_c"))
    destination = _destination_of(found.constants, mover, (height, width, channels))
    if destination is None or not _is_free(found, destination.target, index):
        return False
    changed = []
    for step in steps:
        if step is None:
            return False
        for name in STORED.keys() & step.operands.keys():
            part, own = step.operands[name], _destination(step, name)
            if part.buffer is not x.buffer:
                continue
            if (own.pitch, own.line) != (channels, width * channels):
                return False
            row, rest = divmod(part.start, own.line)
            start = destination.target.start + row * destination.line + rest
            flip = own.flip ^ destination.flip
            target = replace(destination.target, start=start)
            step = _stored(step, name, replace(destination, target=target, flip=flip))
        changed.append(step)
    for number, step in zip(writers, changed, strict=True):
        found.change(number, step)
    found.change(index, _border_alone(mover))
    return True


def _is_free(found: _Steps, target: Tensor, index: int) -> bool:
    """Whether other steps than ``index`` only write other parts of what ``target`` lies in, as joins and borders do."""
    others = [found.steps[number] for number in found.writers[target.buffer] - {index}]
    parts = (InstructionKind.COPY, InstructionKind.CONVOLUTION)
    return all(isinstance(step, Instruction) and (step.kind in parts or "hollow" in step.fields) for step in others)


def _destination(convolution: Instruction, name: str) -> Destination:
    """Where the results are stored as ``name``."""
    pitch, line, flip = (convolution.fields.get(field, 0) for field in STORED[name])
    return Destination(convolution.operands[name], pitch, line, flip)


def _stored(convolution: Instruction, name: str, destination: Destination) -> Instruction:
    """``convolution`` with its results stored as ``name`` at ``destination``."""
    values = dict(zip(STORED[name], (destination.pitch, destination.line, destination.flip), strict=True))
    target = replace(convolution.operands["y"], buffer=destination.target.buffer, start=destination.target.start)
    return replace(convolution, operands=convolution.operands | {name: target}, fields=convolution.fields | values)


def _border_alone(mover: Instruction) -> Instruction | None:
    """What is left of a step that no longer moves anything: the border of a padded image."""
    if mover.kind is InstructionKind.COPY:
        return None
    y = mover.operands["y"]
    inside = mover.fields["in_h"] * mover.fields["in_w"] * mover.fields["in_c"]
    return None if inside == y.size else replace(mover, operands={"y": y}, fields=mover.fields | {"hollow": 1})


def _is_whole(tensor: Tensor) -> bool:
    return tensor.start == 0 and tensor.size * tensor.dtype.itemsize == tensor.buffer.size


def _is_dense(convolution: Instruction) -> bool:
    """Whether the results fill their buffer, pixel after pixel, as they are."""
    _, width, channels = _image(convolution)
    y = convolution.operands["y"]
    pitch = channels * y.dtype.itemsize
    is_in_order = _destination(convolution, "y") == Destination(y, pitch, width * pitch)
    return is_in_order and _is_whole(y) and "floats" not in convolution.fields


def _image(convolution: Instruction) -> tuple[int, int, int]:
    """Height, width and channels of the image of the results."""
    fields = convolution.fields
    rows, columns = fields["block_rows"], fields["block_columns"]
    return fields["out_h"] * rows, fields["out_w"] * columns, fields["out_c"] // (rows * columns)


def _destination_of(
    constants: Mapping[int, NDArray[Any]], mover: Instruction, image: tuple[int, int, int]
) -> Destination | None:
    """Where ``mover`` puts the pixels of an int8 ``image``, which it reads all of; None where they leave each other."""
    height, width, channels = image
    y, fields = mover.operands["y"], mover.fields
    if mover.kind is InstructionKind.PAD:
        if y.dtype != np.int8 or fields["in_h"] != height or fields["in_w"] * fields["in_c"] != width * channels:
            return None
        line = fields["out_w"] * fields["in_c"]
        first = fields["top"] * line + fields["left"] * fields["in_c"]
        return Destination(replace(y, start=y.start + first), channels, line, fields.get("flip", 0))
    axes = _axes(constants, mover) or [(1, 1, 1)]
    sizes, x_steps, steps = zip(*axes, strict=True)
    is_in_order = x_steps == dense_strides(sizes) and steps[-1] == 1
    if fields["start"] or mover.operands["x"].start or not is_in_order:
        return None
    places = {
        (height * width * channels,): (channels, width * channels),
        (height * width, channels): (steps[0], width * steps[0]),
        (height, width * channels): (channels, steps[0]),
        (height, width, channels): (steps[len(steps) - 2], steps[0]),
    }
    if sizes not in places:
        return None
    pitch, line = places[sizes]
    return Destination(replace(y, start=y.start + fields["value"]), pitch, line)


def _axes(constants: Mapping[int, NDArray[Any]], copy: Instruction) -> list[Axis]:
    """The axes of a copy, bytes, outermost of the result first; neighbours are joined where they go on evenly."""
    item = copy.operands["x"].dtype.itemsize
    shape, x_strides, y_strides = constants[copy.fields["dims"]].tolist()
    found = [(n, a * item, b * item) for n, a, b in zip(shape, x_strides, y_strides, strict=True) if n > 1]
    found = [*sorted(found, key=lambda axis: -axis[2]), (item, 1, 1)]
    return joined(*zip(*found, strict=True))


def _as_floats(found: _Steps, index: int) -> None:
    """Let a convolution of int32 store its results as floats if that is all that is wanted of them.

    They are dequantised next, before or after channels come first.
    """
    convolution = found.instruction(index, InstructionKind.CONVOLUTION)
    if convolution is None or convolution.operands["y"].dtype != np.int32 or not _is_dense(convolution):
        return
    height, width, channels = _image(convolution)
    turn = [(channels, 4, 4 * height * width), (height * width, 4 * channels, 4), (4, 1, 1)]
    scales: NDArray[Any] | None = None
    y, dropped, is_turned = convolution.operands["y"], [], False
    while (reader := found.only_reader(y)) is not None:
        step = found.instruction(reader, InstructionKind.COPY, InstructionKind.DEQUANTIZE)
        if step is None or not _is_whole(step.operands["x"]):
            break
        if step.kind is InstructionKind.DEQUANTIZE:
            scales = _scales(found.constants, step, channels, height * width if is_turned else 1)
            if scales is None:
                return
        elif is_turned or step.fields["start"] or step.fields["value"] or _axes(found.constants, step) != turn:
            break
        else:
            is_turned = True
        y = step.operands["y"]
        dropped.append(reader)
    if scales is None:
        return
    params = found.constants[convolution.fields["params"]].copy()
    params[SCALE, :channels] = scales.view(np.int32)
    fields = {"params": found.program.address(params), "floats": 1}
    if is_turned:
        fields |= {"planes": height * width, "y_pitch": 4, "y_line": 4 * width}
    operands = convolution.operands | {"y": replace(y, dtype=np.dtype(np.float32))}
    found.change(index, replace(convolution, operands=operands, fields=convolution.fields | fields))
    for number in dropped:
        found.change(number, None)


def _as_image(found: _Steps, index: int) -> None:
    """Let a step quantise an image of floats with channels first to one with channels last, within its border.

    Both are what the step's only reader, and that one's, would do.
    """
    step = found.instruction(index, InstructionKind.QUANTIZE)
    if step is None or step.operands["y"].dtype != np.int8 or step.fields["period"] > 1 or step.fields["along"]:
        return
    y = step.operands["y"]
    if not _is_whole(y) or len(y.shape) != _IMAGE_RANK or y.shape[0] != 1:
        return
    _, channels, height, width = y.shape
    turn = [axis for axis in ((height * width, 1, channels), (channels, height * width, 1)) if axis[0] > 1]
    target, line, flip = y, width * channels, 0
    dropped: dict[int, Instruction | None] = {}
    copy = _reader(found, y, InstructionKind.COPY)
    if copy is not None and channels > 1:
        number, mover = copy
        if mover.fields["start"] or mover.fields["value"] or _axes(found.constants, mover) != turn:
            return
        target, dropped[number] = mover.operands["y"], None
    elif channels > 1:
        return
    border = _reader(found, target, InstructionKind.PAD)
    place = None if border is None else _destination_of(found.constants, border[1], (height, width, channels))
    if border is not None and place is not None and _is_free(found, place.target, border[0]):
        target, line, flip = place.target, place.line, place.flip
        dropped[border[0]] = _border_alone(border[1])
    if not dropped or width * channels > MIN_SCRATCH:
        return
    image = {"in_h": height, "in_w": width, "in_c": channels, "planes": height * width, "units": height}
    fields = step.fields | image | {"y_line": line, "flip": flip}
    operands = step.operands | {"y": replace(y, buffer=target.buffer, start=target.start)}
    found.change(index, replace(step, operands=operands, fields=fields))
    for number, left in dropped.items():
        found.change(number, left)


def _reader(found: _Steps, tensor: Tensor, kind: InstructionKind) -> tuple[int, Instruction] | None:
    """The step that alone reads ``tensor``, all of it, and its number, if it is of ``kind``."""
    number = found.only_reader(tensor)
    step = None if number is None else found.instruction(number, kind)
    return (number, step) if number is not None and step is not None and _is_whole(step.operands["x"]) else None


def _scales(constants: Mapping[int, NDArray[Any]], step: Instruction, channels: int, run: int) -> NDArray[Any] | None:
    """A scale for each channel, of which ``run`` elements lie together; None where elements differ in another way."""
    count, period = step.fields["count"], step.fields["period"]
    scales = constants[step.fields["params"]]
    if period == 1 and not step.fields["along"]:
        return np.repeat(scales, channels)
    expected = (channels, channels, 1) if run == 1 else (run, channels, 0)
    return scales if (count, period, step.fields["along"]) == expected else None
