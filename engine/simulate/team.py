"""Threads that help another one with a program, and wait for more of it a while before they go to sleep."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.simulate.kernels.machine import Linked, run_with, serve
from engine.simulate.kernels.state import ARGUMENT_COUNT, ARGUMENTS, AWAY, SEAT_WORDS, WAITING

Memory = tuple[int, int]
"""Addresses of an arena and of working memory."""


class Team:
    """Helpers of one thread at a time: of the one that has taken the team; others work alone meanwhile.

    Nobody waits for a helper that does not come. A process that was forked from one with a team has no helpers.

    Args:
        threads: how many work together, the one that asks included.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads - 1, "simulate")
        self._seats = np.zeros((threads - 1, SEAT_WORDS), np.int64)
        self._taken = Lock()
        self._process = os.getpid()

    def take(self) -> bool:
        """Have the helpers for oneself until :meth:`release`; whether nobody else has them."""
        return os.getpid() == self._process and self._taken.acquire(blocking=False)

    def release(self) -> None:
        """Leave the helpers to others."""
        self._taken.release()

    def share_units(self, part: Linked, memory: Sequence[Memory], state: NDArray[np.int64]) -> None:
        """Run a program on one arena, its units shared out.

        Args:
            part: what to run.
            memory: of every thread, the same arena each.
            state: ``state_words`` int64.
        """
        self._lead(part, memory, state, len(memory))

    def share_samples(self, part: Linked, memory: Sequence[Memory], samples: NDArray[np.int64]) -> None:
        """Run a program for each of ``samples``, every thread in an arena of its own; see :meth:`share_units`."""
        self._lead(part, memory, samples, 1)

    def submit(self, work: Callable[..., None], *arguments: Any) -> Future[None]:
        """Have a helper call ``work``."""
        return self._pool.submit(work, *arguments)

    def _lead(self, part: Linked, memory: Sequence[Memory], state: NDArray[np.int64], threads: int) -> None:
        for number, (arena, scratch) in enumerate(memory[1:]):
            seat = self._seats[number]
            thread = number + 1 if threads > 1 else 0
            given = (part.address, part.count, arena, scratch, state.ctypes.data, thread, threads)
            seat[ARGUMENTS : ARGUMENTS + ARGUMENT_COUNT] = given
            if seat[0] == AWAY:
                self._call(number)
        run_with(self._seats[: len(memory) - 1], part, *memory[0], state, threads)

    def _call(self, number: int) -> None:
        """Have somebody on that seat."""
        self._seats[number, 0] = WAITING
        try:
            self._pool.submit(serve, self._seats, number)
        except BaseException:  # Ctrl-C among others: the next call tries again
            self._seats[number, 0] = AWAY
            raise
