"""The memory that the threads of a program share, and how they share its units and samples out."""

from __future__ import annotations

SPINS = 4096
"""Looks at shared memory before a waiting thread gives its time slice away."""
LOOKS = 1 << 16
"""The same of a helper at its seat, about as long as a caller takes between two calls: another process that had got the
core would keep it for milliseconds."""
PATIENCE = 500
"""Microseconds after which a helper without work goes to sleep: to wake it takes up to 300. Where there is no POSIX
clock, as many looks."""
WORD, LINE = 8, 64
"""Bytes of an int64 and of a cache line."""

PRESENT = 0
"""Byte of a program's state where the number of the instruction lies that threads share, from 1 on; the first thread
alone writes it."""
CURSORS = LINE
"""Byte of a program's state where the first thread's cursor lies, and two lines further each other's: the number of an
instruction in the upper half, in the lower one the next unit of the thread's part of it."""
DONE = LINE
"""Bytes from a thread's cursor to where it alone counts the units that it has computed, as a cursor does."""
LOWER = (1 << 32) - 1
PORTIONS = 2
"""A thread takes one of so many portions of what is left of its part at a time, where others may take over from it."""
HOLD = 1024
"""Looks, about a microsecond, that the first thread waits for what another one has not begun before it computes it."""

HEADER, ROW = 8, 4
"""int64 that describe samples which threads run through: next one, end, number of rows, samples that a thread takes at
once, bytes from the arena of one of these to that of the next, and three unused. A row for each input and output
follows: address of the first sample, place in the arena, bytes per sample, and COPIED, RESULT or ADDRESS."""
COPIED, RESULT, ADDRESS = 0, 1, 2
"""What a row describes: an input that is copied into the arena, an output that is copied out of it, or one of either
that instructions reach where it lies, whose address is written into the arena."""

SEAT_WORDS = 16
"""int64 of a helper's seat: its status, and a line further the arguments of what it is to run."""
CLOCK = 2
"""First of two int64 in a seat that the time is written to."""
ARGUMENTS, ARGUMENT_COUNT = 8, 7
"""First int64 of the arguments in a seat, and how many there are."""
AWAY, WAITING, POSTED, BUSY = 0, 1, 2, 3
"""Status of a seat: nobody comes; a helper is there or on its way; work lies there; the helper is at it."""


def state_words(threads: int) -> int:
    """int64 of the state that ``threads`` threads share."""
    return (CURSORS + 2 * LINE * threads) // WORD
