"""How long samples and instructions take, and what is worth sharing among threads therefore."""

from __future__ import annotations

import math
from collections.abc import Sequence
from threading import Lock

import numpy as np

from engine.simulate.kernels.state import PATIENCE, PORTIONS
from engine.simulate.program import Program, PythonStep

ENOUGH_WORK = 1e-3
"""CPU seconds that work takes one thread, from which on threads share it: to wake one takes up to 0.3 ms."""
LITTLE_WORK = 2.5e-5
"""CPU seconds from which on threads share samples where calls follow each other at once, so that helpers stay awake
(docs/evidence/speed.md)."""
WORTHWHILE = 0.9
"""Share of the time that one thread takes for a single sample within which threads have to compute it together."""
HANDOVER = 6e-7
"""CPU seconds that an instruction costs which threads share, as they wait for each other (docs/evidence/speed.md)."""
LONG_STEP = 2e-5
"""CPU seconds of an instruction from which on a thread that is done takes over from others."""
CALLED = 2e-6
"""CPU seconds that a call of the machine and a look at the clock take at most."""
TIMED = 4
"""Samples that one thread computes before others take part: the first of them finds memory that nothing has touched."""
TRIED, LEFT = 16, 512
"""Single samples that threads share before the fastest says what that takes, as helpers come late to the first; and
those that one thread computes before they try again."""


class Pace:
    """What is known of a program's speed, the fastest so far: the first run of a process may take several times that.

    Args:
        program: whose instructions are shared.
        threads: how many share; with a single one nothing is to be known.
    """

    def __init__(self, program: Program, threads: int) -> None:
        self._program, self._threads = program, threads
        self._untimed, self._tried, self._left = TIMED, 0, 0
        self._lock = Lock()
        self._steps = np.full(len(program.steps), math.inf)
        self._alone = self._together = self._expected = self._fastest = math.inf

    @property
    def is_known(self) -> bool:
        """Whether samples need not be timed step by step any more."""
        return self._threads == 1 or self._untimed == 0

    def is_enough(self, samples: int) -> bool:
        """Whether ``samples`` are worth waking helpers."""
        return samples > 0 and samples * self._alone >= ENOUGH_WORK

    def grant_turn(self, samples: int, pause: float) -> bool:
        """Whether ``samples`` are worth keeping helpers awake, ``pause`` seconds after the last call ended.

        Single samples that are not are counted: after :data:`LEFT` of them what was expected stands again.
        """
        work = samples * self._alone
        if work < LITTLE_WORK or pause > min(work, PATIENCE * 1e-6):
            return False
        if samples > 1 or self._together < WORTHWHILE * work:
            return True
        self._left += 1
        if self._left >= LEFT:
            self._left, self._together = 0, self._expected
        return False

    def learn(self, seconds: float) -> None:
        """One thread takes at most so long for a sample."""
        if self._threads > 1:
            self._alone = min(self._alone, seconds)

    def learn_together(self, seconds: float) -> None:
        """Threads took so long for a single sample that they shared.

        Machines take 0.1 to 0.5 us to hand a line of the cache from core to core and back, which may change from one
        minute to the next: what calls take is measured.
        """
        self._tried += 1
        self._fastest = min(self._fastest, seconds)
        if self._tried >= TRIED:
            self._tried, self._together, self._fastest = 0, self._fastest, math.inf

    def learn_steps(self, seconds: Sequence[float]) -> None:
        """One thread took so many CPU seconds for each step of a sample, calls included.

        After the last sample that is timed, threads share those instructions of a single sample that are worth it.
        """
        with self._lock:
            if self._untimed == 0:
                return
            np.minimum(self._steps, seconds, out=self._steps)
            spent = self._steps - self._steps.min(initial=CALLED)
            self.learn(float(spent.sum()))
            left = 0 if self._alone > 10 * ENOUGH_WORK else self._untimed - 1
            if left == 0:
                self._together = self._expected = self._share_out(spent)
            self._untimed = left

    def _share_out(self, spent: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        """Seconds that threads will take for a single sample."""
        together, first = float(spent.sum()), 0
        for part in self._program.parts:
            if isinstance(part, PythonStep):
                first += 1
                continue
            own = spent[first : first + len(part)]
            shared = (part["units"] > 1) & (own > 2 * HANDOVER)
            part["portions"] = np.where(shared, np.where(own < LONG_STEP, 1, PORTIONS), 0)
            together -= float(np.sum(own[shared] * (1 - 1 / self._threads) - HANDOVER))
            first += len(part)
        return together
