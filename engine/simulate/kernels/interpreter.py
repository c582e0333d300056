"""The loop of the machine: instructions in order, their units shared out among threads; and what helpers wait in."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numba import carray, types

from engine.jit import compiled
from engine.simulate.kernels.instructions import INSTRUCTION
from engine.simulate.kernels.memory import copy_bytes, int64_at
from engine.simulate.kernels.scalar import atomic_load, atomic_store, call_kernel, exchange_if, void_pointer
from engine.simulate.kernels.state import (
    ADDRESS,
    ARGUMENT_COUNT,
    ARGUMENTS,
    AWAY,
    BUSY,
    CLOCK,
    COPIED,
    CURSORS,
    DONE,
    HEADER,
    HOLD,
    LINE,
    LOOKS,
    LOWER,
    PATIENCE,
    POSTED,
    PRESENT,
    RESULT,
    ROW,
    SEAT_WORDS,
    SPINS,
    WAITING,
    WORD,
)

if os.name == "posix":
    give_way: Callable[[], int] = types.ExternalFunction("sched_yield", types.int32())
    time_of_day: Callable[[int, int], int] = types.ExternalFunction("gettimeofday", types.int32(types.intp, types.intp))

    @compiled
    def microseconds(at: int) -> int:
        """Of the clock, which may be set; ``at`` is the address of two int64 for its seconds and microseconds."""
        time_of_day(at, 0)
        parts = int64_at(at, 2)
        return int(parts[0]) * 1_000_000 + int(parts[1] & LOWER)  # where they are 32 bits, others follow
else:

    @compiled
    def give_way() -> int:
        """Nothing: a waiting thread spins on."""
        return 0

    @compiled
    def microseconds(at: int) -> int:
        """A clock that goes on by one whenever it is read."""
        parts = int64_at(at, 1)
        parts[0] += 1
        return int(parts[0])


@compiled
def interpret(records: int, count: int, arena: int, scratch: int, state: int, thread: int, threads: int) -> bool:
    """Run all instructions of a program as thread ``thread`` of ``threads``; only the first sees all of them.

    Another one that has found no units for :data:`SPINS` looks returns False: it may come again. True: all is done.

    Args:
        records: address of ``INSTRUCTION`` records, their kernels' addresses filled in.
        count: how many there are.
        arena: address of the buffers.
        scratch: address of this thread's own working memory.
        state: address of ``state_words`` int64 that all threads share, as :func:`begin` leaves them.
        thread: 0-based number of this thread.
        threads: how many run the same program on the same arena. A single one has the arena for itself: ``state`` leads
            to the samples that it runs through, :data:`HEADER` int64 and rows, or is 0 for what is in the arena.
    """
    program = carray(void_pointer(records), (count,), dtype=INSTRUCTION)
    if threads == 1:
        if state == 0:
            run_all(program, count, arena, scratch)
        else:
            run_samples(program, count, arena, scratch, state)
        return True
    if thread > 0:
        return help_along(program, count, arena, scratch, state, thread, threads)
    run_shared(program, count, arena, scratch, state, threads)
    return True


@compiled
def begin(state: int, threads: int) -> None:
    """Leave ``state`` as it is before the first instruction."""
    atomic_store(state + PRESENT, 0)
    for thread in range(threads):
        cursor = state + CURSORS + 2 * LINE * thread
        atomic_store(cursor, 0)
        atomic_store(cursor + DONE, 0)


@compiled
def run_shared(program: Any, count: int, arena: int, scratch: int, state: int, threads: int) -> None:
    """All instructions as the first thread: those of no portions alone, of the others what no helper computes.

    Instructions are numbered from 1 on. One that is shared costs two messages from core to core: that it may begin, and
    that a helper's part of it is done. A helper that has not begun in :data:`HOLD` looks is left out until it shows.
    """
    holds = HOLD
    for index in range(count):
        record = program.ctypes.data + index * program.itemsize
        units, portions = program[index].units, program[index].portions
        if portions == 0:
            call_kernel(program[index].kernel, record, arena, scratch, 0, units)
            continue
        present = index + 1
        atomic_store(state + PRESENT, present)
        if portions == 1:
            own = part_of(units, 1, threads)
            call_kernel(program[index].kernel, record, arena, scratch, 0, own)
        else:
            own = take_units(program, present, arena, scratch, state, 0, 0, threads)
        looks, patience = 0, holds if portions == 1 else 0
        while True:
            others = 0
            for thread in range(1, threads):
                others += done_by(state, thread, present)
            if own + others >= units:
                holds = HOLD if others > 0 else 0
                break
            looks += 1
            if looks > patience:
                for thread in range(1, threads):
                    own += take_units(program, present, arena, scratch, state, 0, thread, threads)
                patience = looks + HOLD
            if looks > SPINS:
                give_way()
    atomic_store(state + PRESENT, count + 1)


@compiled
def help_along(program: Any, count: int, arena: int, scratch: int, state: int, thread: int, threads: int) -> bool:
    """Units of each instruction as another thread; whether the program came to its end while there were any."""
    seen, spins = 0, 0
    while True:
        present = atomic_load(state + PRESENT)
        if present > count:
            return True
        if present > seen:
            seen = present
            done = take_units(program, present, arena, scratch, state, thread, thread, threads)
            if program[present - 1].portions > 1:
                for k in range(1, threads):
                    owner = (thread + k) % threads
                    done += take_units(program, present, arena, scratch, state, thread, owner, threads)
            if done > 0:
                spins = 0
        spins += 1
        if spins > SPINS:
            return False


@compiled
def part_of(units: int, thread: int, threads: int) -> int:
    """Where the part of a thread begins, and that of the one before ends: neighbours stay together.

    A thread finds much of what it reads where it wrote it, in its core's own cache.
    """
    return (thread * units + threads - 1) // threads


@compiled
def done_by(state: int, thread: int, present: int) -> int:
    """Units of the instruction ``present`` that a thread has computed."""
    seen = atomic_load(state + CURSORS + 2 * LINE * thread + DONE)
    return seen & LOWER if seen >> 32 == present else 0


@compiled
def take_units(
    program: Any, present: int, arena: int, scratch: int, state: int, thread: int, owner: int, threads: int
) -> int:
    """Compute what nobody has taken of a thread's part of the instruction ``present``, as another thread or the same.

    Of a part that others may take over from, a thread takes a half of what is left at a time, since units that follow
    each other share work. A cursor with an earlier number says that its part is untouched. Once an instruction is done,
    the cursors of all parts that are taken by it have its number or a later one: a thread that comes too late takes
    nothing.

    Returns:
        Number of units that this call has computed.
    """
    units = program[present - 1].units
    start, limit = part_of(units, owner, threads), part_of(units, owner + 1, threads)
    portions = program[present - 1].portions
    record = program.ctypes.data + (present - 1) * program.itemsize
    cursor, mark = state + CURSORS + 2 * LINE * owner, state + CURSORS + 2 * LINE * thread + DONE
    found = 0
    while True:
        seen = atomic_load(cursor)
        unit = seen & LOWER if seen >> 32 == present else start
        if seen >> 32 > present or unit >= limit:
            return found
        end = unit + (limit - unit + portions - 1) // portions
        if exchange_if(cursor, seen, (present << 32) + end):
            call_kernel(program[present - 1].kernel, record, arena, scratch, unit, end)
            found += end - unit
            atomic_store(mark, (present << 32) + done_by(state, thread, present) + end - unit)


@compiled
def run_all(program: Any, count: int, arena: int, scratch: int) -> None:
    """All instructions, one after the other."""
    for present in range(count):
        record = program.ctypes.data + present * program.itemsize
        call_kernel(program[present].kernel, record, arena, scratch, 0, program[present].units)


@compiled
def run_samples(program: Any, count: int, arena: int, scratch: int, samples: int) -> None:
    """The same for every sample that no other thread has taken, each copied into an arena, its results out of it."""
    header = int64_at(samples, HEADER)
    end, ends, most, pitch = header[1], header[2], header[3], header[4]
    rows = int64_at(samples + WORD * HEADER, ROW * ends)
    while True:
        index = atomic_load(samples)
        if index >= end:
            return
        taken = min(most, end - index)
        if not exchange_if(samples, index, index + taken):
            continue
        for sample in range(taken):
            place = arena + sample * pitch
            for k in range(ends):
                given, size, kind = rows[ROW * k], rows[ROW * k + 2], rows[ROW * k + 3]
                if kind == COPIED:
                    copy_bytes(given + (index + sample) * size, place + rows[ROW * k + 1], size)
                elif kind == ADDRESS:
                    int64_at(place + rows[ROW * k + 1], 1)[0] = given + (index + sample) * size
        if taken == 1:
            run_all(program, count, arena, scratch)
        else:
            run_together(program, count, arena, pitch, taken, scratch)
        for sample in range(taken):
            for k in range(ends):
                if rows[ROW * k + 3] == RESULT:
                    size, target = rows[ROW * k + 2], rows[ROW * k] + (index + sample) * rows[ROW * k + 2]
                    copy_bytes(arena + sample * pitch + rows[ROW * k + 1], target, size)


@compiled
def run_together(program: Any, count: int, arena: int, pitch: int, samples: int, scratch: int) -> None:
    """All instructions for ``samples``, whose arenas are ``pitch`` bytes apart.

    A run of instructions goes through the samples one after the other, but units that read the same weights do.
    """
    present = 0
    while present < count:
        if program[present].together:
            record = program.ctypes.data + present * program.itemsize
            for unit in range(program[present].units):
                for sample in range(samples):
                    place = arena + sample * pitch
                    call_kernel(program[present].kernel, record, place, scratch, unit, unit + 1)
            present += 1
            continue
        last = present
        while last < count and not program[last].together:
            last += 1
        for sample in range(samples):
            for index in range(present, last):
                record = program.ctypes.data + index * program.itemsize
                call_kernel(program[index].kernel, record, arena + sample * pitch, scratch, 0, program[index].units)
        present = last


@compiled
def lead(
    seats: int, helpers: int, records: int, count: int, arena: int, scratch: int, state: int, threads: int
) -> None:
    """:func:`interpret` as the first thread, with the help of those that wait for work and of those that come late.

    Args:
        seats: address of ``SEAT_WORDS`` int64 for each helper, the arguments of what it is to run already there.
        helpers: how many.
        records: see :func:`interpret`, likewise the others.
    """
    if threads > 1:
        begin(state, threads)
    for k in range(helpers):
        exchange_if(seats + k * SEAT_WORDS * WORD, WAITING, POSTED)
    interpret(records, count, arena, scratch, state, 0, threads)
    for k in range(helpers):
        seat, spins = seats + k * SEAT_WORDS * WORD, 0
        while not exchange_if(seat, POSTED, WAITING):
            status = atomic_load(seat)
            if status != BUSY and status != POSTED:
                break
            spins += 1
            if spins > SPINS:
                give_way()


@compiled
def serve(seat: int) -> None:
    """Do the work that is laid on a seat, until none has come for a while; the seat is then empty."""
    given = int64_at(seat + ARGUMENTS * WORD, ARGUMENT_COUNT)
    looks, since = 0, 0
    while True:
        if atomic_load(seat) == POSTED and exchange_if(seat, POSTED, BUSY):
            if interpret(given[0], given[1], given[2], given[3], given[4], given[5], given[6]):
                atomic_store(seat, WAITING)
            else:
                atomic_store(seat, POSTED)
                give_way()
            looks = 0
        looks += 1
        if looks == LOOKS:
            since = microseconds(seat + CLOCK * WORD)
        elif looks > LOOKS:
            give_way()
            waited = microseconds(seat + CLOCK * WORD) - since
            if (waited < 0 or waited > PATIENCE) and (exchange_if(seat, WAITING, AWAY) or atomic_load(seat) == AWAY):
                return
