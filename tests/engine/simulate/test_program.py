"""Programs: where buffers lie, which share memory, and what is encoded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.tiles import MIN_SCRATCH
from engine.simulate.program import (
    ALIGNMENT,
    Assembler,
    Buffer,
    Instruction,
    Lifetimes,
    PythonStep,
    aligned_zeros,
)
from tests.engine.simulate.machine import arena_of


def copy(program: Assembler, x: object, size: int, **more: int) -> object:
    y = program.tensor((size,), np.int8)
    program.emit(InstructionKind.COPY, {"x": x, "y": y}, units=1, **more)  # type: ignore[dict-item]  # tensors
    return y


def test_buffers_that_do_not_live_together_share_memory() -> None:
    """x, y and z in a row: z may lie where x was, not where y is."""
    program = Assembler()
    x = program.input((100,), np.int8)
    y = copy(program, x, 100)
    z = copy(program, y, 100)
    program.keep(z)  # type: ignore[arg-type]
    finished = program.finish()
    offsets = [tensor.offset for tensor in (x, y, z)]  # type: ignore[attr-defined]
    assert offsets == [0, 128, 0]
    assert finished.arena_bytes == 128 + 100 + ALIGNMENT


def test_what_is_kept_or_constant_lives_until_the_end() -> None:
    program = Assembler()
    x = program.input((100,), np.int8)
    program.keep(x)
    constant = program.constant_operand(np.arange(100, dtype=np.int8))
    z = copy(program, copy(program, x, 100), 100)
    program.keep(z)  # type: ignore[arg-type]
    finished = program.finish()
    assert len({tensor.offset for tensor in (x, constant, z)}) == 3  # type: ignore[attr-defined]
    np.testing.assert_array_equal(constant.view(arena_of(finished)), np.arange(100))


def test_steps_that_are_dropped_free_their_buffers() -> None:
    """x, y, z in a row, then x, z: y is gone, and z lives from the first step on."""
    program = Assembler()
    x = program.input((100,), np.int8)
    y = copy(program, x, 100)
    z = copy(program, y, 100)
    program.keep(z)  # type: ignore[arg-type]
    assert program.is_kept(z)  # type: ignore[arg-type]
    first = program.steps[0]
    assert isinstance(first, Instruction)
    assert first.read == [x]
    assert first.written == [y]
    program.replace_steps([replace(first, operands={"x": x, "y": z})])  # type: ignore[dict-item]
    finished = program.finish()
    assert [x.offset, z.offset] == [0, 128]  # type: ignore[attr-defined]
    assert finished.arena_bytes == 128 + 100 + ALIGNMENT
    assert len(finished.steps) == 1


def test_the_largest_buffer_comes_first_and_gaps_are_filled() -> None:
    program = Assembler()
    small, large, other = (program.input((size,), np.int8) for size in (10, 1000, 20))
    for tensor in (small, large, other):
        program.keep(tensor)
    program.finish()
    assert (large.offset, other.offset, small.offset) == (0, 1024, 1088)


def test_instructions_between_python_steps_are_tables() -> None:
    program = Assembler(owner="first")
    x = program.input((4,), np.int16)
    y = copy(program, x, 4, start=3)
    program.owner = "second"
    z = program.tensor((4,), np.int16)
    program.call(lambda given: (given[0] * 2,), [x], [z])
    copy(program, z, 8)
    copy(program, y, 4)
    finished = program.finish()
    assert [type(part) is PythonStep for part in finished.parts] == [False, True, False]
    assert [len(part) for part in finished.parts if not isinstance(part, PythonStep)] == [1, 2]
    assert [step.owner for step in finished.steps] == ["first", "second", "second", "second"]
    row = finished.parts[0][0]  # type: ignore[index]  # a table
    assert (row["kind"], row["units"], row["start"], row["x_bytes"], row["y_bytes"]) == (
        InstructionKind.COPY,
        1,
        3,
        2,
        1,
    )
    assert (row["x"], row["y"]) == (x.offset, y.offset)  # type: ignore[attr-defined]
    assert [step.bytes for step in finished.steps] == [12, 16, 16, 8]
    arena = arena_of(finished)
    x.view(arena)[...] = [1, 2, 3, 4]
    finished.parts[1].bind(arena)()  # type: ignore[union-attr]  # a Python step
    assert z.view(arena).tolist() == [2, 4, 6, 8]


def test_scratch_and_overrun_are_the_most_that_any_instruction_needs() -> None:
    program = Assembler()
    x = program.input((4,), np.int8)
    for scratch, overrun in ((5, 0), (70, 9), (6, 30)):
        copy(program, x, 4, scratch=scratch, overrun=overrun)
    finished = program.finish()
    assert finished.scratch_bytes == MIN_SCRATCH + 70
    ends = max(step.operands["y"].offset + 4 for step in finished.steps)  # type: ignore[union-attr]
    assert finished.arena_bytes == ends + 30 + ALIGNMENT


def test_samples_are_parts_of_their_tensor() -> None:
    x = Assembler().input((3, 2, 5), np.int16)
    assert [(part.shape, part.start) for part in x.samples()] == [((1, 2, 5), 0), ((1, 2, 5), 20), ((1, 2, 5), 40)]
    assert x.shaped(30).buffer is x.buffer


@pytest.mark.parametrize("size", [1, 100])
def test_memory_begins_at_a_cache_line(size: int) -> None:
    memory = aligned_zeros(size)
    assert (len(memory), memory.ctypes.data % ALIGNMENT) == (size, 0)
    assert not memory.any()


def test_constants_are_copied_and_kept() -> None:
    program = Assembler()
    array = np.arange(3)
    address = program.address(array)
    array[:] = 9
    (kept,) = program.finish().constants
    assert (kept.tolist(), kept.ctypes.data) == ([0, 1, 2], address)


def test_equal_constants_are_kept_once_until_they_are_taken_back() -> None:
    program = Assembler()
    first = program.address(np.arange(3))
    state = program.state()
    assert program.address(np.array([0, 1, 2])) == first != program.address(np.arange(4))
    program.restore(state)
    again = program.address(np.arange(5))
    assert [len(kept) for kept in program.finish().constants] == [3, 5]
    assert program.address(np.arange(4)) not in (first, again)


def test_what_was_used_in_between_lives_as_long_as_before() -> None:
    """Taken back in reverse order: the first use counts again."""
    program = Assembler()
    x = program.input((10,), np.int8)
    copy(program, x, 10)
    before = program.state()
    copy(program, x, 10)
    copy(program, x, 10)
    assert x.buffer.last == 2
    program.restore(before)
    assert x.buffer.last == 0


@pytest.mark.parametrize("seed", range(20))
def test_only_buffers_that_live_at_the_same_time_are_told(seed: int) -> None:
    """Against the definition: two lives meet where neither ends before the other begins."""
    rng = np.random.default_rng(seed)
    firsts, lengths = rng.integers(-1, 30, 40), rng.choice([-3, 0, 1, 5, 1 << 60], 40)
    buffers = [Buffer(8, int(first), int(first + length)) for first, length in zip(firsts, lengths, strict=True)]
    known = Lifetimes(31)
    for index, buffer in enumerate(buffers):
        end = max(buffer.first, buffer.last)
        expected = [b for b in buffers[:index] if b.first <= end and buffer.first <= max(b.first, b.last)]
        assert sorted(map(id, known.during(buffer))) == sorted(map(id, expected))
        known.add(buffer)
