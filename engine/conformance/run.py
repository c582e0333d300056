"""Many cases measured in child processes, so that one that crashes or hangs affects only its own row."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue

from engine.conformance.cases import RecordedCase
from engine.conformance.conversion import Ending
from engine.conformance.departure import ComparedStage, Departure
from engine.conformance.measures import Row
from engine.conformance.worker import CaseTask
from engine.simulate.session import Mode

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment that limits the libraries of a child to one thread, because one child runs per processor."""


@dataclass(frozen=True)
class MeasurePlan:
    """How cases are measured.

    Attributes:
        workers: child processes at a time.
        time_limit: seconds that a case may take.
        modes: simulators that run the original's quantised models.
    """

    workers: int
    time_limit: float = 600.0
    modes: tuple[Mode, ...] = (Mode.FAST,)


def measure_all(
    cases: Sequence[RecordedCase], plan: MeasurePlan, progress: Callable[[Row], None] = lambda row: None
) -> tuple[Row, ...]:
    """Rows of ``cases`` in their order.

    Args:
        cases: what to measure.
        plan: how.
        progress: called with each row as it is ready, from any thread.
    """
    with Measurer(plan) as measurer, ThreadPoolExecutor(max(1, min(plan.workers, len(cases)))) as pool:

        def one(case: RecordedCase) -> Row:
            row = measurer.measure(case)
            progress(row)
            return row

        return tuple(pool.map(one, cases))


class Measurer:
    """Measures cases, from any thread, in as many child processes as the plan has workers; they end with its context.

    Args:
        plan: how.
    """

    def __init__(self, plan: MeasurePlan) -> None:
        self._plan = plan
        self._children = [_Child() for _ in range(plan.workers)]
        self._free: SimpleQueue[_Child] = SimpleQueue()
        for child in self._children:
            self._free.put(child)

    def __enter__(self) -> Measurer:
        """As it is; children start when they are needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the children."""
        for child in self._children:
            child.end()

    def measure(self, case: RecordedCase) -> Row:
        """The row of ``case``, once a child is free."""
        with _borrowed(self._free) as child:
            return child.measure(case, self._plan)


def held_out(cases: Iterable[RecordedCase], every: int | None) -> frozenset[str]:
    """Families that are held out: each ``every``-th of the recorded ones by name; reduced cases never are."""
    if every is None:
        return frozenset()
    families = sorted({case.family for case in cases if not case.reduced})
    return frozenset(families[every - 1 :: every])


@contextmanager
def _borrowed(children: SimpleQueue[_Child]) -> Iterator[_Child]:
    child = children.get()
    try:
        yield child
    finally:
        children.put(child)


class _Child:
    """A process that measures one case after the other; it is started anew after it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def measure(self, case: RecordedCase, plan: MeasurePlan) -> Row:
        """The row of ``case``."""
        time_limit = plan.time_limit
        process = self._process = self._process or _start()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a child without pipes")
        late = threading.Event()

        def strike() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(time_limit, strike)
        timer.daemon = True
        timer.start()
        line = ""
        with suppress(BrokenPipeError):
            process.stdin.write(CaseTask(folder=str(case.folder.resolve()), modes=plan.modes).model_dump_json() + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        timer.cancel()
        if line:
            return Row.model_validate_json(line)
        self.end()
        if late.is_set():
            return _lost(case, f"took longer than {time_limit:g} s")
        return _lost(case, f"the process that measured it ended with exit code {process.returncode}")

    def end(self) -> None:
        """End the process."""
        if self._process is None:
            return
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self._process.kill()
        self._process.wait()
        self._process = None


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "engine.conformance.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            **dict.fromkeys(THREAD_VARIABLES, "1"),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
    )


def _lost(case: RecordedCase, message: str) -> Row:
    return Row(
        case=case.name,
        family=case.family,
        march=case.march,
        reduced=case.reduced,
        outcome=Ending.CRASHED,
        refusal=case.refusal,
        message=message,
        converts=False,
        outputs=None if case.refusal else False,
        operators=None if case.refusal else False,
        departure=Departure(stage=ComparedStage.CONVERSION, node="", cause=message),
    )
