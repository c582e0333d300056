"""The memory that the threads of a program share, and how they share its units out."""

from __future__ import annotations

SPINS = 4096
"""Looks at the shared state before a waiting thread gives its time slice away."""
DONE = 64
"""Byte of the shared state, a cache line behind the first, where completed units are counted."""
STATE_WORDS = 16
"""int64 of the shared state."""
OVER = 1 << 62
"""State at which all threads stop."""
LOWER = (1 << 32) - 1
CHUNKS = 4
"""Parts per thread that the units of an instruction are handed out in."""

HEADER, ROW = 4, 4
"""int64 that describe samples which one thread runs through: first, end, step, number of rows. A row for each input and
output follows: address of the first sample, place in the arena, bytes per sample, 1 for an output."""
