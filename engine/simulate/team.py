"""Threads that help another one with a program, and wait for more of it a while before they go to sleep."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np

from engine.simulate.kernels.machine import Linked, run_with, serve
from engine.simulate.kernels.state import ARGUMENT_COUNT, ARGUMENTS, AWAY, SEAT_WORDS, WAITING

NAP, NAPS = 5e-5, 6
"""Seconds that a thread sleeps until helpers have come, and how often at most."""
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
        self._address = self._seats.ctypes.data
        self._statuses = self._seats.data
        self._coming: dict[int, Future[None]] = {}
        self._waits_again = -math.inf
        self._taken = Lock()
        self._process = os.getpid()

    def take(self) -> bool:
        """Have the helpers for oneself until :meth:`release`; whether nobody else has them."""
        return os.getpid() == self._process and self._taken.acquire(blocking=False)

    def release(self) -> None:
        """Leave the helpers to others."""
        self._taken.release()

    def gather(self) -> None:
        """Have helpers come, and wait a moment for them: short calls of the machine leave them no time to start.

        They need Python's lock for that, which a thread that is just waking up loses to one that gives it away briefly.
        Where they do not come, at most a tenth of the time goes into waiting.
        """
        for number in range(len(self._seats)):
            if self._statuses[number, 0] == AWAY:
                self._call(number)
        if not self._coming or time.monotonic() < self._waits_again:
            return
        start, naps = time.monotonic(), NAPS
        while self._coming and naps > 0:
            time.sleep(NAP)
            naps -= 1
            self._coming = {
                number: helper for number, helper in self._coming.items() if not (helper.running() or helper.done())
            }
        end = time.monotonic()
        self._waits_again = end + 9 * (end - start)

    def share_units(self, part: Linked, memory: Sequence[Memory], state: int) -> None:
        """Run a program on one arena, its units shared out.

        Args:
            part: what to run.
            memory: of every thread, the same arena each.
            state: address of ``state_words`` int64.
        """
        self._lead(part, memory, state, len(memory))

    def share_samples(self, part: Linked, memory: Sequence[Memory], samples: int) -> None:
        """Run a program for the samples that are described there, every thread in an arena of its own.

        Args:
            part: what to run.
            memory: of every thread.
            samples: address of a :data:`~engine.simulate.kernels.state.HEADER` and rows.
        """
        self._lead(part, memory, samples, 1)

    def submit(self, work: Callable[..., None], *arguments: Any) -> Future[None]:
        """Have a helper call ``work``."""
        return self._pool.submit(work, *arguments)

    def _lead(self, part: Linked, memory: Sequence[Memory], state: int, threads: int) -> None:
        for number, (arena, scratch) in enumerate(memory[1:]):
            thread = number + 1 if threads > 1 else 0
            given = (part.address, part.count, arena, scratch, state, thread, threads)
            self._seats[number, ARGUMENTS : ARGUMENTS + ARGUMENT_COUNT] = given
            if self._statuses[number, 0] == AWAY:
                self._call(number)
        run_with(self._address, len(memory) - 1, part, *memory[0], state, threads)

    def _call(self, number: int) -> None:
        """Have somebody on that seat."""
        self._seats[number, 0] = WAITING
        try:
            self._coming[number] = self._pool.submit(serve, self._seats, number)
        except BaseException:  # Ctrl-C among others: the next call tries again
            self._seats[number, 0] = AWAY
            raise
