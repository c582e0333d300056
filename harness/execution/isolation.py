"""A task in a child process that may be killed, so that a crash affects this task alone.

:func:`run_task` is all that an executor runs, wherever it runs it. Children serve one task after the other and are
replaced after some; if one dies or exceeds the time limit, only its current task fails. Nothing is pickled: tasks
and replies are JSON lines.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from engine.errors import MissingError
from harness.execution.elsewhere import placed_here, refuse_other_sources, worker_name
from harness.execution.task import Reply, Task
from harness.trials.tasks import Bench
from harness.trials.trial import Failure, Symptom

CHILD = (sys.executable, "-c", "from engine.cli.start import command; command('harness.execution.child')()")
"""Command of a child process: it starts as the console scripts do."""

STARTED = "started"
"""What a child says when a task begins."""

TASKS_PER_CHILD = 100
"""A child is replaced after this number of tasks, which bounds what a library leaks."""

_STARTS = 3
"""Children that may be started for one task; a child that ends before the task began is replaced."""


def run_task(text: str) -> str:
    """Compute the :class:`Task` with this JSON text in a child; the :class:`Reply` as JSON text."""
    try:
        task = placed_here(Task.model_validate_json(text))
    except ValidationError as error:
        what = f"this worker and the sweep have different versions of ptqlab ({error.errors()[0]['msg']})"
        failure = Failure(stage="start", symptom=Symptom.ENVIRONMENT, message=what, worker=worker_name())
        return Reply(failure=failure).model_dump_json()
    try:
        refuse_other_sources(task)
    except MissingError as error:
        failure = Failure(stage="start", symptom=Symptom.ENVIRONMENT, message=str(error), worker=task.worker)
        return Reply(failure=failure).model_dump_json()
    return children().run(task).model_dump_json()


@cache
def children() -> ChildPool:
    """The children of this process."""
    return ChildPool()


@dataclass
class ChildPool:
    """Children by need: as many as there are tasks at a time."""

    _idle: list[Child] = field(default_factory=list)
    _busy: list[Child] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kills: int = 0

    def run(self, task: Task) -> Reply:
        """Compute ``task`` in a child that serves no other task meanwhile."""
        kills = self._kills
        for _ in range(_STARTS):
            if self._kills != kills:
                break
            child = self._take(task.code)
            try:
                reply = child.run(task)
            finally:
                self._give_back(child)
            if reply is not None:
                return _explained(reply, task)
        text = f"{_STARTS} child processes ended while starting"
        failure = Failure(stage="start", symptom=Symptom.WORKER_DIED, message=text, worker=task.worker)
        return Reply(failure=failure)

    def begin(self, count: int, stages: str) -> None:
        """Start children before there are tasks for them; they import the module ``stages`` meanwhile."""
        with self._lock:
            self._idle += [Child(ahead=stages) for _ in range(count - len(self._idle) - len(self._busy))]

    def kill(self) -> None:
        """End all children, also those that are running a task."""
        with self._lock:
            self._kills += 1
            doomed = [*self._idle, *self._busy]
            self._idle.clear()
        for child in doomed:
            child.kill()

    def _take(self, code: str) -> Child:
        """A child that finds what this process finds, and no modules of the user's other than those of ``code``."""
        with self._lock:
            child = next((each for each in self._idle if each.serves(code)), None)
            stale = self._idle.pop(0) if child is None and self._idle else None
            if child is None:
                child = Child(code)
            else:
                self._idle.remove(child)
            self._busy.append(child)
        if stale is not None:
            stale.kill()
        return child

    def _give_back(self, child: Child) -> None:
        with self._lock:
            self._busy.remove(child)
            if child.usable:
                self._idle.append(child)
                return
        child.kill()


class Child:
    """A process that computes tasks.

    Attributes:
        code: :attr:`Task.code` of all of them.
        ahead: module that it imports before the first one has come; empty for none.
    """

    def __init__(self, code: str = "", ahead: str = "") -> None:
        self.code = code
        self._places = _places()
        self._tasks = 0
        self._alive = True
        self._process = subprocess.Popen(
            (*CHILD, ahead) if ahead else CHILD,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self._places},
            process_group=0,  # Ctrl-C is for the coordinator; and what the child starts can be ended with it
        )

    @property
    def usable(self) -> bool:
        """Whether it may be given another task."""
        return self._alive and self._tasks < TASKS_PER_CHILD

    def serves(self, code: str) -> bool:
        """Whether it may compute a task with this :attr:`Task.code`: where to look for cards may have changed since."""
        return self.code == code and self._places == _places()

    def run(self, task: Task) -> Reply | None:
        """The reply to ``task``; None if the child ended before it began."""
        self._tasks += 1
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("a child without pipes")
        try:
            self._process.stdin.write(task.model_dump_json() + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # it had been idle too long, or was killed before it was told
            self._alive = False
            return None
        if not self._process.stdout.readline():
            self._alive = False
            return None
        limit = _Limit(task.time_limit, self.kill)
        line = self._process.stdout.readline()
        limit.cancel()
        if line:
            reply = Reply.model_validate_json(line)
            # A process that ran out of memory once is of no use to others.
            self._alive = reply.symptom is not Symptom.OUT_OF_MEMORY
            return reply
        self._alive = False
        code = self._process.wait()
        if limit.reached:
            text = f"took longer than {task.time_limit:g} s and was killed"
            return Reply(failure=Failure(stage="", symptom=Symptom.TIMED_OUT, message=text))
        return Reply(failure=Failure(stage="", symptom=Symptom.WORKER_DIED, message=_cause_of_death(code)))

    def kill(self) -> None:
        """End it with all that it has started."""
        self._alive = False
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()


def _places() -> dict[str, str]:
    """Variables that say where a child finds what this process finds now: cards, data and modules."""
    ours = {name: value for name, value in os.environ.items() if name.startswith("PTQLAB_")}
    return {**ours, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class _Limit:
    """Calls ``act`` after the given number of seconds unless cancelled."""

    def __init__(self, seconds: float | None, act: Callable[[], None]) -> None:
        self.reached = False
        self._act = act
        self._timer = None if seconds is None else threading.Timer(seconds, self._strike)
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        """Stop the clock: the child was in time."""
        if self._timer is not None:
            self._timer.cancel()

    def _strike(self) -> None:
        self.reached = True
        self._act()


def _explained(reply: Reply, task: Task) -> Reply:
    """``reply`` with errors turned into failures of the stage that the task's journal names."""
    failure = reply.failure
    if reply.error is not None:
        failure = Failure(stage="", symptom=reply.symptom, message=reply.error)
    if failure is None:
        return reply
    return Reply(failure=failure.model_copy(update={"stage": _last_stage(task), "worker": task.worker}))


def _last_stage(task: Task) -> str:
    """The stage that the journal of ``task`` names, which has served its purpose then."""
    journal = Bench(Path(task.workdir)).journal(task.key)
    try:
        stage = journal.read_text(encoding="utf-8")
        journal.unlink()
    except OSError:
        return "start"
    return stage or "start"


def _cause_of_death(code: int) -> str:
    if code >= 0:
        return f"the process that computed it ended with exit code {code}"
    name = signal.Signals(-code).name
    if name == "SIGKILL":
        return "the process that computed it was killed (SIGKILL): out of memory, or killed by a user"
    return f"the process that computed it crashed ({name})"
