"""What threads share lies on cache lines of its own and is large enough."""

from __future__ import annotations

from engine.simulate.kernels.state import DONE, LOWER, OVER, STATE_WORDS


def test_counters_have_cache_lines_of_their_own() -> None:
    assert DONE >= 64
    assert STATE_WORDS * 8 >= DONE + 8


def test_the_last_state_is_beyond_every_program() -> None:
    assert OVER >> 32 > LOWER >> 2
    assert OVER & LOWER == 0
