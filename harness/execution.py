"""Sweeps: trials on any ``concurrent.futures.Executor``, one typed result each, whatever happens to a worker.

The coordinator hands out one preparation per (model, march, data), then its trials. A task that a worker does not
survive is tried once more, alone; if it kills its worker again it is recorded as failed, and only it.
"""

from __future__ import annotations

import importlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from engine.errors import ConfigError
from harness.pipeline import Bench, Preparation, Prepared, prepare, run_trial
from harness.trials import Failure, Outcome, Symptom, TrialResult, TrialSpec

T = TypeVar("T")

ExecutorFactory = Callable[[int], Executor]
"""Makes an executor with so many workers."""

DEFAULT_EXECUTOR = "processes"

TRIALS_PER_WORKER = 100
"""A worker is replaced after so many tasks: what leaks in a library stays bounded."""


def serial(workers: int) -> Executor:
    """Everything in this process, one task after the other, whatever ``workers`` says."""
    del workers
    return ThreadPoolExecutor(1, "trial")


def processes(workers: int) -> Executor:
    """Fresh processes: nothing is inherited from threads or libraries of this one."""
    context = multiprocessing.get_context("spawn")
    return _QuietPool(workers, mp_context=context, initializer=_start_worker, max_tasks_per_child=TRIALS_PER_WORKER)


class _QuietPool(ProcessPoolExecutor):
    """Its workers end silently on Ctrl-C, from their first moment on; the coordinator says what there is to say."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As that of the base class, which starts workers here: they inherit that SIGINT has to wait."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


EXECUTORS: dict[str, ExecutorFactory] = {"serial": serial, DEFAULT_EXECUTOR: processes}


def executor_factory(name: str) -> ExecutorFactory:
    """The factory behind ``--executor``: a key of :data:`EXECUTORS`, or ``package.module:factory``.

    Raises:
        ConfigError: there is no such executor.
    """
    if name in EXECUTORS:
        return EXECUTORS[name]
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"--executor {name!r}: allowed are {', '.join(sorted(EXECUTORS))} and package.module:factory")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"--executor {name!r}: cannot be imported: {error}") from error
    if not callable(factory):
        raise ConfigError(f"--executor {name!r}: is {type(factory).__name__}, expected a function of the worker count")
    made: ExecutorFactory = factory
    return made


class Observer(Protocol):
    """Told by the coordinator, in its own thread, how a sweep goes."""

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        """The sweep consists of ``specs``."""

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        """What the trials of ``preparation`` share is there, or has failed."""

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        """A trial has a result; ``reused``: from an earlier sweep."""


@dataclass(frozen=True)
class Plan:
    """How a sweep runs.

    Attributes:
        bench: where.
        executor: makes the executor.
        workers: trials at a time.
        fresh: run trials that have a result again.
        retry_failed: run trials that failed again.
    """

    bench: Bench
    executor: ExecutorFactory = processes
    workers: int = 2
    fresh: bool = False
    retry_failed: bool = False


def run_sweep(specs: Sequence[TrialSpec], plan: Plan, observers: Iterable[Observer] = ()) -> list[TrialResult]:
    """Results of all trials, in the order of ``specs``.

    Every finished trial is kept in the store at once: an interrupted sweep, started again, goes on where it was.
    """
    observers = tuple(observers)
    for observer in observers:
        observer.planned(specs)
    results: dict[str, TrialResult] = {}
    for spec in specs:
        found = None if plan.fresh else plan.bench.store.get(spec)
        if found is not None and (found.ok or not plan.retry_failed):
            results[spec.key] = found
            for observer in observers:
                observer.finished(found, reused=True)
    missing = [spec for spec in specs if spec.key not in results]
    for event in _Coordinator(plan, missing).run():
        for observer in observers:
            if isinstance(event, TrialResult):
                observer.finished(event, reused=False)
            else:
                observer.prepared(*event)
        if isinstance(event, TrialResult):
            results[event.spec.key] = event
    return [results[spec.key] for spec in specs]


@dataclass(frozen=True)
class _TrialTask:
    spec: TrialSpec
    statistics: str

    @property
    def key(self) -> str:
        return self.spec.key

    def submit(self, executor: Executor, bench: Bench) -> Future[TrialResult]:
        return executor.submit(run_trial, self.spec, self.statistics, bench)


@dataclass(frozen=True)
class _PreparationTask:
    preparation: Preparation

    @property
    def key(self) -> str:
        return self.preparation.key

    def submit(self, executor: Executor, bench: Bench) -> Future[Prepared]:
        return executor.submit(prepare, self.preparation, bench)


_Task = _TrialTask | _PreparationTask
_Event = TrialResult | tuple[Preparation, Prepared]


@dataclass
class _Coordinator:
    """Keeps the executor busy and turns whatever becomes of a task into events.

    Attributes:
        plan: how to run.
        missing: trials to run.
    """

    plan: Plan
    missing: Sequence[TrialSpec]
    _queue: deque[_Task] = field(default_factory=deque)
    _suspects: deque[_Task] = field(default_factory=deque)
    _running: dict[Future[Any], _Task] = field(default_factory=dict)

    def run(self) -> Iterator[_Event]:
        """Results and preparations as they come; ends the executor, also when the caller is interrupted."""
        if not self.missing:
            return
        self._queue.extend(_PreparationTask(preparation) for preparation in group(self.missing))
        executor = self.plan.executor(self.plan.workers)
        try:
            while self._queue or self._suspects or self._running:
                self._fill(executor)
                done, _ = wait(self._running, return_when=FIRST_COMPLETED)
                broken = False
                for future in done:
                    error = future.exception()
                    broken |= isinstance(error, BrokenExecutor)
                    yield from self._settle(self._running.pop(future), future, error)
                if broken:
                    yield from self._drain()
                    executor.shutdown(wait=False)
                    executor = self.plan.executor(self.plan.workers)
        finally:
            executor.shutdown(wait=True, cancel_futures=True)

    def _fill(self, executor: Executor) -> None:
        """Hand out tasks: one suspect alone, else one more than there are workers, so that none waits for us."""
        if self._suspects:
            if not self._running:
                self._submit(executor, self._suspects[0])
            return
        while self._queue and len(self._running) <= self.plan.workers:
            self._submit(executor, self._queue.popleft())

    def _submit(self, executor: Executor, task: _Task) -> None:
        try:
            future: Future[Any] = task.submit(executor, self.plan.bench)
        except BrokenExecutor as error:  # a worker died since the last look; the task was not there yet
            future = Future()
            future.set_exception(error)
        self._running[future] = task

    def _drain(self) -> Iterator[_Event]:
        """Settle the tasks that a broken executor takes down with it."""
        for future, task in list(self._running.items()):
            yield from self._settle(task, future, future.exception())
        self._running.clear()

    def _settle(self, task: _Task, future: Future[Any], error: BaseException | None) -> Iterator[_Event]:
        """Events of a task that is done."""
        alone = bool(self._suspects) and self._suspects[0] is task
        if isinstance(error, BrokenExecutor) and not alone:
            self._suspects.append(task)
            return
        if alone:
            self._suspects.popleft()
        if error is not None:
            yield from self._failed(task, self._failure(task, error))
            return
        result = future.result()
        if isinstance(task, _PreparationTask) and isinstance(result, Prepared):
            yield from self._prepared(task.preparation, result)
        elif isinstance(result, TrialResult):
            yield result

    def _prepared(self, preparation: Preparation, prepared: Prepared) -> Iterator[_Event]:
        """The trials of ``preparation`` may run now: before other preparations, so that results come early."""
        yield preparation, prepared
        if prepared.statistics is None:
            if prepared.failure is not None:
                yield from self._failed_trials(preparation.specs, prepared.failure)
            return
        tasks = [_TrialTask(spec, prepared.statistics) for spec in preparation.specs]
        self._queue.extendleft(reversed(tasks))

    def _failed(self, task: _Task, failure: Failure) -> Iterator[_Event]:
        if isinstance(task, _PreparationTask):
            yield task.preparation, Prepared(failure=failure)
            yield from self._failed_trials(task.preparation.specs, failure)
        else:
            yield from self._failed_trials([task.spec], failure)

    def _failed_trials(self, specs: Iterable[TrialSpec], failure: Failure) -> Iterator[_Event]:
        for spec in specs:
            result = TrialResult(spec=spec, failure=failure)
            self.plan.bench.store.put(Outcome(result))
            yield result

    def _failure(self, task: _Task, error: BaseException) -> Failure:
        """What a task died of, in the stage that its journal names."""
        journal = self.plan.bench.journal(task.key)
        try:
            stage = journal.read_text(encoding="utf-8")
            journal.unlink()
        except OSError:
            stage = "start"
        return Failure(stage=stage, symptom=_symptom(error), message=_describe(error))


def group(specs: Iterable[TrialSpec]) -> list[Preparation]:
    """One preparation per model, march and data, in the order of the trials."""
    groups: dict[str, list[TrialSpec]] = {}
    for spec in specs:
        shared = spec.model_dump_json(exclude={"settings"})
        groups.setdefault(shared, []).append(spec)
    return [Preparation(specs=tuple(members)) for members in groups.values()]


def _symptom(error: BaseException) -> Symptom:
    if isinstance(error, BrokenExecutor):
        return Symptom.WORKER_DIED
    return Symptom.OUT_OF_MEMORY if isinstance(error, MemoryError) else Symptom.DEFECT


def _describe(error: BaseException) -> str:
    if isinstance(error, BrokenExecutor):
        return "the worker process ended abruptly; out of memory, killed, or crashed in native code"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
