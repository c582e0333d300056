"""Entry point of the child process that computes tasks: one JSON line in per task, two out (started, reply).

The main thread only watches standard input, so that a parent that ends, however it ends, takes the child with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from harness.execution.isolation import STARTED
from harness.execution.luggage import unpack_luggage
from harness.execution.task import Reply, Task
from harness.trials.tasks import Bench
from harness.trials.trial import Symptom, is_environmental

IDLE_SECONDS = 120.0
"""A child ends after this time without a request."""

_LEAST_WANTED = "1000"
"""Score that makes the kernel, should memory run out, take this process rather than the coordinator."""


_ALLOCATION_FAILED = ("bad_alloc", "bad allocation", "failed to allocate memory")
"""What messages of C++ libraries say when memory runs out."""


def main() -> None:
    """Serve tasks until standard input ends or nothing has come for :data:`IDLE_SECONDS`.

    Modules that the command line names are imported meanwhile; an error is that of the first task that needs them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _offer_to_the_kernel()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints is no reply
    worker = ThreadPoolExecutor(1, "task")
    for name in sys.argv[1:]:
        worker.submit(importlib.import_module, name)
    worker.submit(gc.freeze)  # what modules hold stays: looking through it took half of every collection
    running: Future[Reply] | None = None
    while True:
        idle = running is None or running.done()
        if not select.select([sys.stdin], [], [], IDLE_SECONDS)[0]:
            if idle:
                return
            continue
        line = sys.stdin.readline()
        if not line:
            _follow_parent()
        _tell(replies, STARTED)
        running = worker.submit(_compute, Task.model_validate_json(line))
        running.add_done_callback(_answer_on(replies))
        worker.submit(gc.collect)  # graphs of the task before, with their weights, are cycles; Python would look rarely


def _tell(replies: IO[str], line: str) -> None:
    """Say ``line`` to the parent, which may be gone."""
    try:
        replies.write(line + "\n")
    except BrokenPipeError:
        _follow_parent()


def _follow_parent() -> None:
    """End this process and all that it has started, because the parent has ended."""
    os.killpg(0, signal.SIGKILL)


def _compute(task: Task) -> Reply:
    stages = importlib.import_module(task.stages)
    bench = Bench(
        Path(task.workdir),
        threads=task.threads,
        fingerprints=task.fingerprints,
        cache_name=task.cache_name,
        store_url=task.store_url,
        worker=task.worker,
        cards=task.luggage.folders if task.luggage else None,
    )
    if task.luggage is not None:
        unpack_luggage(task.luggage, bench.cache, bench.workdir)
    if task.spec is not None:
        return Reply(result=stages.run_trial(task.spec, task.statistics, bench))
    return Reply(prepared=stages.prepare(task.preparation, bench))


def _answer_on(replies: IO[str]) -> Callable[[Future[Reply]], Any]:
    def answer(done: Future[Reply]) -> None:
        error = done.exception()
        if error is None:
            reply = done.result()
        else:
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            reply = Reply(error=text, symptom=_symptom(error))
        _tell(replies, reply.model_dump_json())

    return answer


def _symptom(error: BaseException) -> Symptom:
    if _is_out_of_memory(error):
        return Symptom.OUT_OF_MEMORY
    return Symptom.ENVIRONMENT if is_environmental(error) else Symptom.DEFECT


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, in Python or in a library that says so in words only, as ONNX Runtime does."""
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in _ALLOCATION_FAILED)


def _offer_to_the_kernel() -> None:
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        score.write_text(_LEAST_WANTED)
