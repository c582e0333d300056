"""Programs of the fast simulator: buffers, instructions, and how a graph's nodes are assembled into them."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.simulate.kernels.instructions import INSTRUCTION, InstructionKind
from engine.simulate.kernels.state import PORTIONS
from engine.simulate.kernels.tiles import MIN_SCRATCH

Array = NDArray[Any]
SampleFunction = Callable[[Sequence[Array | None]], tuple[Array, ...]]

MOST_TOGETHER, TOGETHER_BYTES = 8, 1 << 26
"""Most samples that one thread computes side by side, and most bytes of their arenas."""
ALIGNMENT = 64
"""Bytes of a cache line."""


@dataclass(eq=False)
class Buffer:
    """A region of the arena.

    Attributes:
        size: bytes.
        first: step that writes it; -1 for what is there before the first step.
        last: last step that reads it.
        offset: where it lies, once the program is finished.
        initial: contents that every arena starts with, for constant operands.
    """

    size: int
    first: int
    last: int = -1
    offset: int = 0
    initial: Array | None = None


@dataclass(frozen=True)
class Tensor:
    """A dense tensor in a buffer, ``start`` bytes behind its begin; ``signed`` if a value may be negative."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    buffer: Buffer
    start: int = 0
    signed: bool = True

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def offset(self) -> int:
        """Where it lies in the arena of a finished program."""
        return self.buffer.offset + self.start

    def shaped(self, *shape: int) -> Tensor:
        """This tensor's memory with another shape."""
        return replace(self, shape=shape)

    def samples(self) -> list[Tensor]:
        """The parts along the first dimension, which they keep with length 1."""
        size = self.size // self.shape[0] * self.dtype.itemsize
        part = replace(self, shape=(1, *self.shape[1:]))
        return [replace(part, start=self.start + index * size) for index in range(self.shape[0])]

    def view(self, arena: NDArray[np.uint8]) -> Array:
        """The tensor in an arena."""
        start = self.offset
        return arena[start : start + self.size * self.dtype.itemsize].view(self.dtype).reshape(self.shape)


Operand = Tensor | Array | None
"""Input of a node: an activation, a constant, or None where it is omitted."""


RESULTS = ("y", "z")
"""Operands of an instruction that it writes."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of the machine, its operands still symbolic."""

    kind: InstructionKind
    operands: dict[str, Tensor]
    fields: dict[str, int]
    owner: str

    @property
    def bytes(self) -> int:
        """Size of its operands and results."""
        return sum(tensor.size * tensor.dtype.itemsize for tensor in self.operands.values())

    @property
    def read(self) -> list[Tensor]:
        """Its operands."""
        return [tensor for name, tensor in self.operands.items() if name not in RESULTS]

    @property
    def written(self) -> list[Tensor]:
        """Its results."""
        return [tensor for name, tensor in self.operands.items() if name in RESULTS]


@dataclass(frozen=True)
class PythonStep:
    """A node that the machine has no instruction for: its reference on numpy arrays, one sample at a time."""

    function: SampleFunction
    inputs: tuple[Operand, ...]
    outputs: tuple[Tensor, ...]
    owner: str

    @property
    def bytes(self) -> int:
        """Size of its operands and results."""
        tensors = [x for x in (*self.inputs, *self.outputs) if isinstance(x, Tensor)]
        return sum(tensor.size * tensor.dtype.itemsize for tensor in tensors)

    @property
    def read(self) -> list[Tensor]:
        """Its inputs but for constants."""
        return [x for x in self.inputs if isinstance(x, Tensor)]

    @property
    def written(self) -> list[Tensor]:
        """Its outputs."""
        return list(self.outputs)

    def bind(self, arena: NDArray[np.uint8]) -> Callable[[], None]:
        """What computes the node on an arena."""
        given = [x.view(arena) if isinstance(x, Tensor) else x for x in self.inputs]
        views = [tensor.view(arena) for tensor in self.outputs]

        def compute() -> None:
            for view, result in zip(views, self.function(given), strict=False):
                view[...] = result

        return compute


@dataclass(frozen=True)
class Program:
    """A finished program.

    Attributes:
        parts: tables of instructions and Python steps, in order.
        steps: what the parts were made from, one for each instruction and Python step.
        arena_bytes: size of the arena that it runs on.
        scratch_bytes: working memory that every thread needs.
        initial: constant operands and where they lie in the arena.
        constants: arrays whose addresses the instructions hold.
    """

    parts: tuple[NDArray[Any] | PythonStep, ...]
    steps: tuple[Instruction | PythonStep, ...]
    arena_bytes: int
    scratch_bytes: int
    initial: tuple[tuple[Tensor, Array], ...]
    constants: tuple[Array, ...]

    def new_arenas(self, count: int) -> NDArray[np.uint8]:
        """Arenas, constant operands filled in, one behind the other: (count, bytes).

        Each begins at a multiple of :data:`ALIGNMENT`.
        """
        pitch = _aligned(self.arena_bytes)
        arenas = aligned_zeros(count * pitch).reshape(count, pitch)
        for tensor, array in self.initial:
            for arena in arenas:
                tensor.view(arena)[...] = array
        return arenas

    @property
    def samples_together(self) -> int:
        """Samples that one thread had better compute side by side: several where instructions share what they read."""
        if not any(isinstance(step, Instruction) and step.fields.get("together") for step in self.steps):
            return 1
        return max(1, min(MOST_TOGETHER, TOGETHER_BYTES // self.arena_bytes))


def aligned_zeros(size: int) -> NDArray[np.uint8]:
    """``size`` zero bytes that start at a multiple of :data:`ALIGNMENT`: vectors must not straddle cache lines."""
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


@dataclass(frozen=True)
class State:
    """How far a program has come; see :meth:`Assembler.state`."""

    counts: tuple[int, ...]
    scratch: int
    overrun: int


@dataclass
class Assembler:
    """Collects buffers and steps in execution order; :meth:`finish` lays the buffers out.

    Attributes:
        owner: type of the node whose steps are being appended.
    """

    owner: str = ""
    _steps: list[Instruction | PythonStep] = field(default_factory=list)
    _buffers: list[Buffer] = field(default_factory=list)
    _constants: list[Array] = field(default_factory=list)
    _digests: list[bytes] = field(default_factory=list)
    """SHA-256 of each constant."""
    _known: dict[bytes, int] = field(default_factory=dict)
    """Where a constant of that digest is, if it has not been taken back."""
    _initial: list[tuple[Tensor, Array]] = field(default_factory=list)
    _uses: list[tuple[Buffer, int]] = field(default_factory=list)
    """Buffers in the order in which steps use them, with the last use until then."""
    _scratch: int = MIN_SCRATCH
    _overrun: int = ALIGNMENT

    def tensor(self, shape: Sequence[int], dtype: Any, *, signed: bool = True) -> Tensor:
        """A new tensor, which the next step writes; ``signed`` if a value may be negative."""
        kind = np.dtype(dtype)
        buffer = Buffer(int(np.prod(shape)) * kind.itemsize, first=len(self._steps))
        self._buffers.append(buffer)
        return Tensor(tuple(int(dim) for dim in shape), kind, buffer, signed=signed)

    def input(self, shape: Sequence[int], dtype: Any) -> Tensor:
        """A tensor that is filled before the program starts."""
        tensor = self.tensor(shape, dtype)
        tensor.buffer.first = -1
        return tensor

    def constant_operand(self, array: Array) -> Tensor:
        """A constant in the arena, where instructions read activations."""
        tensor = self.input(array.shape, array.dtype)
        tensor.buffer.last = _FOREVER
        self._initial.append((tensor, array))
        return tensor

    def keep(self, tensor: Tensor) -> None:
        """Leave ``tensor`` in the arena until the program ends."""
        tensor.buffer.last = _FOREVER

    def is_kept(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` must be there when the program ends."""
        return tensor.buffer.last == _FOREVER

    @property
    def steps(self) -> Sequence[Instruction | PythonStep]:
        """The steps until now."""
        return self._steps

    def replace_steps(self, steps: Sequence[Instruction | PythonStep]) -> None:
        """Take ``steps`` instead of those until now; buffers that none of them uses are given up."""
        first: dict[Buffer, int] = {}
        last: dict[Buffer, int] = {}
        for index, step in enumerate(steps):
            for tensor in (*step.read, *step.written):
                first.setdefault(tensor.buffer, index)
                last[tensor.buffer] = index
        self._steps = list(steps)
        self._buffers = [b for b in self._buffers if b in first or b.first < 0 or b.last == _FOREVER]
        for buffer in self._buffers:
            buffer.first = buffer.first if buffer.first < 0 else first.get(buffer, buffer.first)
            buffer.last = buffer.last if buffer.last == _FOREVER else last.get(buffer, -1)

    def drop(self, inputs: Sequence[Tensor]) -> None:
        """Give up the buffers of ``inputs``, which no step reads any more."""
        dropped = {tensor.buffer for tensor in inputs}
        self._buffers = [buffer for buffer in self._buffers if buffer not in dropped]

    def constants(self) -> dict[int, Array]:
        """The constant arrays until now, by :meth:`address`."""
        return {int(array.ctypes.data): array for array in self._constants}

    def address(self, array: Array) -> int:
        """Address of a constant array, which the program keeps alive; the same for all that have the same bytes."""
        dense = np.ascontiguousarray(array)
        digest = hashlib.sha256(dense.data).digest()
        index = self._known.get(digest, len(self._digests))
        if index >= len(self._digests) or self._digests[index] != digest:
            kept = aligned_zeros(dense.nbytes).view(dense.dtype).reshape(dense.shape)
            kept[...] = dense
            index = self._known[digest] = len(self._constants)
            self._constants.append(kept)
            self._digests.append(digest)
        return int(self._constants[index].ctypes.data)

    def emit(
        self,
        kind: InstructionKind,
        operands: dict[str, Tensor],
        *,
        units: int,
        scratch: int = 0,
        overrun: int = 0,
        **fields: int,
    ) -> None:
        """Append an instruction.

        Args:
            kind: what it does.
            operands: tensors ``x``, ``e``, ``y``; their offsets and element sizes become fields.
            units: independent parts.
            scratch: working memory beyond :data:`MIN_SCRATCH`, bytes.
            overrun: bytes that it may read, not use, behind an operand.
            fields: the other fields of the instruction.
        """
        self._use(operands.values())
        self._scratch = max(self._scratch, MIN_SCRATCH + scratch)
        self._overrun = max(self._overrun, overrun + ALIGNMENT)
        self._steps.append(Instruction(kind, operands, {**fields, "units": units}, self.owner))

    def amend(self, kind: InstructionKind, result: Tensor, **fields: int) -> bool:
        """Change fields of the last step if it is an instruction of that kind and gives ``result``; whether it is."""
        last = self._steps[-1] if self._steps else None
        if not isinstance(last, Instruction) or last.kind is not kind or last.operands["y"] != result:
            return False
        self._steps[-1] = replace(last, fields=last.fields | fields)
        return True

    def call(
        self, function: SampleFunction, inputs: Sequence[Tensor | Array | None], outputs: Sequence[Tensor]
    ) -> None:
        """Append a Python step."""
        self._use([x for x in inputs if isinstance(x, Tensor)])
        self._use(outputs)
        self._steps.append(PythonStep(function, tuple(inputs), tuple(outputs), self.owner))

    def state(self) -> State:
        """How far the program has come, for :meth:`restore`."""
        return State(tuple(map(len, self._lists())), self._scratch, self._overrun)

    def restore(self, state: State) -> None:
        """Take back all that was added since ``state``."""
        for buffer, last in reversed(self._uses[state.counts[-1] :]):
            buffer.last = last
        for items, count in zip(self._lists(), state.counts, strict=True):
            del items[count:]
        self._scratch, self._overrun = state.scratch, state.overrun

    def _lists(self) -> tuple[list[Any], ...]:
        """All that grows while the program is written."""
        return (self._steps, self._buffers, self._constants, self._digests, self._initial, self._uses)

    def finish(self) -> Program:
        """Lay out the buffers and encode the instructions."""
        end = _place(self._buffers)
        parts: list[NDArray[Any] | PythonStep] = []
        run: list[Instruction] = []
        for step in [*self._steps, None]:
            if isinstance(step, Instruction):
                run.append(step)
                continue
            if run:
                parts.append(_encode(run))
                run = []
            if step is not None:
                parts.append(step)
        return Program(
            tuple(parts),
            tuple(self._steps),
            end + self._overrun,
            self._scratch,
            tuple(self._initial),
            tuple(self._constants),
        )

    def _use(self, tensors: Any) -> None:
        for tensor in tensors:
            self._uses.append((tensor.buffer, tensor.buffer.last))
            tensor.buffer.last = max(tensor.buffer.last, len(self._steps))


_FOREVER = 1 << 60


def _encode(instructions: Sequence[Instruction]) -> NDArray[Any]:
    table = np.zeros(len(instructions), INSTRUCTION)
    for row, instruction in zip(table, instructions, strict=True):
        row["kind"] = int(instruction.kind)
        row["portions"] = PORTIONS
        for name, tensor in instruction.operands.items():
            row[name] = tensor.offset
            row[f"{name}_bytes"] = tensor.dtype.itemsize
        for name, value in instruction.fields.items():
            row[name] = value
    return table


def _place(buffers: Sequence[Buffer]) -> int:
    """Give every buffer the lowest offset where no buffer that lives at the same time lies; the end of the arena."""
    placed = Lifetimes(max((b.first for b in buffers), default=0) + 2)
    for buffer in sorted(buffers, key=lambda b: -b.size):
        offset = 0
        for other in sorted(placed.during(buffer), key=lambda b: b.offset):
            if offset + buffer.size <= other.offset:
                break
            offset = max(offset, _aligned(other.offset + other.size))
        buffer.offset = offset
        placed.add(buffer)
    return max((b.offset + b.size for b in buffers), default=0)


class Lifetimes:
    """Buffers by the time that they live: which of them live at the same time as another, without a look at the rest.

    Those that live when it begins are found in a tree over the steps, whose nodes hold the buffers that live during all
    of their steps but not during all of their parent's; the others begin while it lives.

    Args:
        steps: more than any buffer's first step, and one.
    """

    def __init__(self, steps: int) -> None:
        self._leaves = 1 << steps.bit_length()
        self._nodes: dict[int, list[Buffer]] = defaultdict(list)
        self._begins: list[tuple[int, int]] = []
        self._buffers: list[Buffer] = []

    def add(self, buffer: Buffer) -> None:
        """One buffer more."""
        insort(self._begins, (buffer.first, len(self._buffers)))
        self._buffers.append(buffer)
        low = self._leaves + buffer.first + 1
        high = min(self._leaves + _end(buffer) + 2, 2 * self._leaves)
        while low < high:
            if low & 1:
                self._nodes[low].append(buffer)
                low += 1
            if high & 1:
                high -= 1
                self._nodes[high].append(buffer)
            low, high = low >> 1, high >> 1

    def during(self, buffer: Buffer) -> list[Buffer]:
        """The buffers that live at the same time as ``buffer``."""
        found: list[Buffer] = []
        node = self._leaves + buffer.first + 1
        while node:
            found += self._nodes.get(node, ())
            node >>= 1
        begin = bisect_left(self._begins, (buffer.first + 1, 0))
        end = bisect_left(self._begins, (_end(buffer) + 1, 0))
        return found + [self._buffers[index] for _, index in self._begins[begin:end]]


def _end(buffer: Buffer) -> int:
    """The last step of its life."""
    return max(buffer.first, buffer.last)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
