"""What threads share lies on cache lines of its own and is large enough."""

from __future__ import annotations

from engine.simulate.kernels.state import (
    ARGUMENT_COUNT,
    ARGUMENTS,
    CLOCK,
    CURSORS,
    DONE,
    LINE,
    PRESENT,
    SEAT_WORDS,
    WORD,
    state_words,
)


def test_every_cursor_has_a_cache_line_of_its_own() -> None:
    assert CURSORS - PRESENT >= LINE
    assert DONE >= LINE
    for threads in (1, 2, 9):
        assert state_words(threads) * WORD == CURSORS + threads * (DONE + LINE)


def test_the_arguments_lie_a_line_behind_the_status() -> None:
    assert ARGUMENTS * WORD >= LINE
    assert 0 < CLOCK < CLOCK + 2 <= ARGUMENTS
    assert ARGUMENTS + ARGUMENT_COUNT <= SEAT_WORDS
    assert SEAT_WORDS * WORD % LINE == 0
