"""Sweeps: trials on any ``concurrent.futures.Executor``, one typed result each, whatever happens to a worker.

The coordinator hands out one preparation per (model, march, data), then its trials. Workers compute each task in a
child process (:mod:`harness.execution.isolation`), so that a trial can take down nothing but itself. If an
executor loses workers nevertheless, their tasks are tried once more, one at a time.
"""

from __future__ import annotations

import importlib
import shutil
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from engine.errors import ConfigError, MissingError, hint
from harness.execution.isolation import children, run_task
from harness.execution.luggage import Luggage, pack_luggage
from harness.execution.task import Reply, Task
from harness.files.cache import content_key
from harness.trials.tasks import SHARED_SETTINGS, Bench, Preparation, Prepared
from harness.trials.trial import Failure, Outcome, Symptom, TrialResult, TrialSpec
from harness.trials.work import longest_first

ExecutorFactory = Callable[[int], Executor]
"""Makes an executor with the given number of workers."""

DEFAULT_EXECUTOR = "processes"


def processes(workers: int) -> Executor:
    """Runs the given number of tasks at a time, each in a child process of its own."""
    return _LocalExecutor(workers, "trial")


def serial(workers: int) -> Executor:
    """One task after the other, in a child process too, whatever ``workers`` says."""
    del workers
    return _LocalExecutor(1, "trial")


class _LocalExecutor(ThreadPoolExecutor):
    """Threads that wait for children."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As in the base class. Tasks still run here only after an interrupt; they are ended at once."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        children().kill()
        super().shutdown(wait=wait)


EXECUTORS: dict[str, ExecutorFactory] = {"serial": serial, DEFAULT_EXECUTOR: processes}

DASK = "dask://"
"""What the name of an executor on a Dask cluster begins with; the address of its scheduler follows."""


def executor_factory(name: str) -> ExecutorFactory:
    """The factory behind ``--executor``: a key of :data:`EXECUTORS`, ``dask://host:port``, ``package.module:factory``.

    Raises:
        ConfigError: there is no such executor.
    """
    if name in EXECUTORS:
        return EXECUTORS[name]
    if name.startswith(DASK):
        from harness.execution.dask_executor import DaskExecutor  # an extra

        return lambda workers: DaskExecutor(name.removeprefix(DASK))
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(
            f"--executor {name!r}: allowed are {', '.join(sorted(EXECUTORS))}, dask://host:port and "
            f"package.module:factory{hint(name, EXECUTORS)}"
        )
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"--executor {name!r}: cannot be imported: {error}") from error
    if not callable(factory):
        raise ConfigError(f"--executor {name!r}: is {type(factory).__name__}, expected a function of the worker count")
    made: ExecutorFactory = factory
    return made


@dataclass(frozen=True)
class AtWork:
    """What a running trial is at.

    Attributes:
        spec: the trial.
        stage: that runs.
        seconds: since the stage began.
    """

    spec: TrialSpec
    stage: str
    seconds: float


class Observer(Protocol):
    """The coordinator reports the progress of a sweep to it, in the coordinator's thread."""

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        """The sweep consists of ``specs``."""

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        """What the trials of ``preparation`` share is there, or has failed."""

    def at_work(self, trials: Sequence[AtWork]) -> None:
        """Nothing has finished for a while; ``trials`` run on this machine or in a working directory shared with it."""

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        """A trial has a result; ``reused``: from an earlier sweep."""


DEFAULT_TIME_LIMIT = 3600.0
"""Seconds after which a task counts as hung."""


@dataclass(frozen=True)
class Plan:
    """How a sweep runs.

    Attributes:
        bench: where.
        executor: makes the executor.
        workers: trials at a time, where the executor does not know better (attribute ``capacity``).
        fresh: run trials again that have a result, and use nothing that earlier sweeps left of them.
        retry_failed: run trials that failed again.
        time_limit: seconds that a trial or preparation may take; None for :data:`DEFAULT_TIME_LIMIT`.
        stages: module that offers ``prepare`` and ``run_trial``, and ``fingerprints`` of the stages that these run.
        fail_fast: begin nothing more once a trial has failed; what is left counts as that of a budget.
        most_trials: largest number that is computed; others are left for the next run. None for all.
        seconds: time after which no further task is started; None for no limit.
    """

    bench: Bench
    executor: ExecutorFactory = processes
    workers: int = 2
    fresh: bool = False
    retry_failed: bool = False
    time_limit: float | None = None
    stages: str = "harness.execution.pipeline"
    fail_fast: bool = False
    most_trials: int | None = None
    seconds: float | None = None

    @property
    def is_local(self) -> bool:
        """Whether what computes the tasks are children of this process, which find what it finds."""
        return self.executor in EXECUTORS.values()

    def begin_workers(self, specs: Sequence[TrialSpec]) -> None:
        """Start the processes that will compute ``specs``, which load their libraries meanwhile.

        None are started where other machines compute, or all trials have been run.
        """
        missing = [spec for spec in specs if self.fresh or not self.bench.store.folder(spec.key).is_dir()]
        missing = missing[: self.most_trials]
        if self.is_local:
            workers = 1 if self.executor is serial else self.workers
            children().begin(min(workers, len(missing)), self.stages)

    def task(self, key: str, share: int = 1, **what: Any) -> Task:
        """A task of this plan; children need not compute fingerprints that this process knows.

        Args:
            key: of the task.
            share: workers whose threads it may use.
            what: other fields of the task.
        """
        return Task(
            key=key,
            workdir=str(self.bench.workdir),
            stages=self.stages,
            threads=self.bench.threads * share,
            fingerprints=self._fingerprints(),
            cache_name=self.bench.cache_name,
            store_url=self.bench.store_url,
            time_limit=self.time_limit or DEFAULT_TIME_LIMIT,
            **what,
        )

    def _fingerprints(self) -> Mapping[str, str]:
        """Fingerprints of the stages, where their module has them: children then need not compute them."""
        found: Mapping[str, str] = getattr(importlib.import_module(self.stages), "fingerprints", dict)()
        return found


def run_sweep(specs: Sequence[TrialSpec], plan: Plan, observers: Iterable[Observer] = ()) -> list[TrialResult]:
    """Results of all trials, in the order of ``specs``, but for those that the plan's budget leaves out.

    Every finished trial is kept in the store at once: an interrupted sweep, started again, goes on where it was.
    """
    observers = tuple(observers)
    for observer in observers:
        observer.planned(specs)
    results: dict[str, TrialResult] = {}
    elsewhere = set() if plan.fresh else plan.bench.store.elsewhere()
    for spec in specs:
        found = None if plan.fresh else _reusable(spec, plan, elsewhere)
        if found is not None:
            results[spec.key] = found
            for observer in observers:
                observer.finished(found, reused=True)
    missing = [spec for spec in specs if spec.key not in results][: plan.most_trials]
    with _own_cache(plan) as running:
        coordinator = _Coordinator(running, missing)
        for event in coordinator.run():
            for observer in observers:
                if isinstance(event, TrialResult):
                    observer.finished(event, reused=False)
                elif isinstance(event, list):
                    observer.at_work(event)
                else:
                    observer.prepared(*event)
            if isinstance(event, TrialResult):
                results[event.spec.key] = event
                if plan.fail_fast and not event.ok:
                    coordinator.begin_no_more()
    return [results[spec.key] for spec in specs if spec.key in results]


def _reusable(spec: TrialSpec, plan: Plan, elsewhere: Collection[str]) -> TrialResult | None:
    """The kept result that stands for ``spec``, fetched where it is among the keys ``elsewhere`` alone."""
    store = plan.bench.store
    found = store.get(spec)
    if (found is None or not is_reusable(found, retry_failed=plan.retry_failed)) and spec.key in elsewhere:
        store.bring(spec.key)
        found = store.get(spec)
    good = found is not None and is_reusable(found, retry_failed=plan.retry_failed) and store.is_whole(spec.key)
    return found if good else None


@contextmanager
def _own_cache(plan: Plan) -> Iterator[Plan]:
    """``plan``, where it is a fresh one with a cache that lasts as long as its sweep."""
    if not plan.fresh:
        yield plan
        return
    bench = replace(plan.bench, cache_name=f".fresh-{uuid.uuid4().hex[:12]}")
    try:
        yield replace(plan, bench=bench)
    finally:
        shutil.rmtree(bench.cache.root, ignore_errors=True)
        if bench.exchange is not None:
            bench.exchange.remove(bench.cache_name)


def is_reusable(found: TrialResult, *, retry_failed: bool) -> bool:
    """Whether a kept result is valid for the trial: figures are, failures of the environment never are."""
    return found.failure is None or (found.failure.symptom.is_final and not retry_failed)


@dataclass(frozen=True)
class _TrialTask:
    spec: TrialSpec
    statistics: str

    @property
    def model(self) -> str:
        return self.spec.model

    def to_run(self, plan: Plan, luggage: Luggage | None) -> Task:
        return plan.task(self.spec.key, spec=self.spec, statistics=self.statistics, luggage=luggage)


@dataclass(frozen=True)
class _PreparationTask:
    preparation: Preparation
    share: int

    @property
    def model(self) -> str:
        return self.preparation.specs[0].model

    def to_run(self, plan: Plan, luggage: Luggage | None) -> Task:
        return plan.task(self.preparation.key, self.share, preparation=self.preparation, luggage=luggage)


_Task = _TrialTask | _PreparationTask
_Event = TrialResult | tuple[Preparation, Prepared] | list[AtWork]

_LOOK_SECONDS = 2.0
"""Time without anything finished after which it is looked what the trials are at."""


@dataclass
class _Coordinator:
    """Keeps the executor busy and turns whatever becomes of a task into events.

    Attributes:
        plan: how to run.
        missing: trials to run.
    """

    plan: Plan
    missing: Sequence[TrialSpec]
    _begun: float = field(default_factory=time.monotonic)
    _begun_at: float = field(default_factory=time.time)
    _queue: deque[_Task] = field(default_factory=deque)
    _suspects: deque[_Task] = field(default_factory=deque)
    _running: dict[Future[str], _Task] = field(default_factory=dict)
    _luggage: dict[str, Luggage] = field(default_factory=dict)

    def run(self) -> Iterator[_Event]:
        """Results and preparations as they come; ends the executor, also when the caller is interrupted."""
        if not self.missing:
            return
        preparations = group(self.missing)
        # Trials wait for them: where there are fewer than workers, they may use the threads of the others.
        share = max(1, self.plan.workers // len(preparations)) if self.plan.is_local else 1
        self._queue.extend(_PreparationTask(preparation, share) for preparation in preparations)
        executor = self.plan.executor(self.plan.workers)
        try:
            while self._queue or self._suspects or self._running:
                self._fill(executor)
                if not self._running:
                    return
                done, _ = wait(self._running, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
                if not done:
                    yield list(self._at_work())
                broken = False
                for future in done:
                    error = _error_of(future)
                    broken |= isinstance(error, BrokenExecutor)
                    yield from self._settle(self._running.pop(future), future, error)
                if broken:
                    yield from self._drain()
                    executor.shutdown(wait=False)
                    executor = self.plan.executor(self.plan.workers)
        finally:
            executor.shutdown(wait=True, cancel_futures=True)

    def begin_no_more(self) -> None:
        """Drop the tasks that have not begun."""
        self._queue.clear()
        self._suspects.clear()

    def _fill(self, executor: Executor) -> None:
        """Hand out tasks: a suspect alone; else one more than there are workers, so that no worker waits."""
        if self.plan.seconds is not None and time.monotonic() > self._begun + self.plan.seconds:
            self._queue.clear()
        if self._suspects:
            if not self._running:
                self._submit(executor, self._suspects[0])
            return
        capacity: int = getattr(executor, "capacity", self.plan.workers)
        while self._queue and len(self._running) <= capacity:
            self._submit(executor, self._queue.popleft())

    def _at_work(self) -> Iterator[AtWork]:
        """The running trials whose journals can be seen; an older journal is that of a sweep that was killed."""
        for task in self._running.values():
            if isinstance(task, _TrialTask):
                journal = self.plan.bench.journal(task.spec.key)
                with suppress(OSError):
                    stage, began = journal.read_text(encoding="utf-8"), journal.stat().st_mtime
                    if began >= self._begun_at:
                        yield AtWork(task.spec, stage, max(0.0, time.time() - began))

    def _submit(self, executor: Executor, task: _Task) -> None:
        try:
            future = executor.submit(run_task, task.to_run(self.plan, self._packed(task.model)).model_dump_json())
        except BrokenExecutor as error:  # a worker died since the last look; the task was not there yet
            future = Future()
            future.set_exception(error)
        self._running[future] = task

    def _packed(self, model: str) -> Luggage | None:
        """What travels with the tasks of ``model``; nothing to this process's own children."""
        if self.plan.is_local:
            return None
        if model not in self._luggage:
            self._luggage[model] = pack_luggage(model, self.plan.bench.cache)
        return self._luggage[model]

    def _drain(self) -> Iterator[_Event]:
        """Settle the tasks that a broken executor takes down with it."""
        for future, task in list(self._running.items()):
            yield from self._settle(task, future, _error_of(future))
        self._running.clear()

    def _settle(self, task: _Task, future: Future[str], error: BaseException | None) -> Iterator[_Event]:
        """Events of a task that is done."""
        alone = bool(self._suspects) and self._suspects[0] is task
        if isinstance(error, BrokenExecutor) and not alone:
            self._suspects.append(task)
            return
        if alone:
            self._suspects.popleft()
        if error is not None:
            yield from self._failed(task, Failure(stage="start", symptom=_symptom(error), message=_describe(error)))
            return
        reply = Reply.model_validate_json(future.result())
        if reply.failure is not None:
            yield from self._failed(task, reply.failure)
        elif reply.prepared is not None and isinstance(task, _PreparationTask):
            yield from self._prepared(task.preparation, reply.prepared)
        elif reply.result is not None:
            yield from self._computed(reply.result)

    def _computed(self, result: TrialResult) -> Iterator[_Event]:
        """``result``, once all that the trial left is here."""
        bench = self.plan.bench
        try:
            missing = "" if not bench.store_url or bench.store.bring(result.spec.key) else "its result is missing"
        except MissingError as error:
            missing = str(error)
        if missing:
            failure = Failure(stage="store", symptom=Symptom.ENVIRONMENT, message=f"{bench.store_url}: {missing}")
            yield from self._failed_trials([result.spec], failure)
        else:
            yield result

    def _prepared(self, preparation: Preparation, prepared: Prepared) -> Iterator[_Event]:
        """The trials of ``preparation`` may run now: before other preparations, so that results come early.

        The longest come first: a long one begun last would leave the other workers idle.
        """
        yield preparation, prepared
        if prepared.statistics is None:
            if prepared.failure is not None:
                yield from self._failed_trials(preparation.specs, prepared.failure)
            return
        tasks = [_TrialTask(spec, prepared.statistics) for spec in longest_first(preparation.specs)]
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
            self.plan.bench.store.keep(Outcome(result))
            yield result


def group(specs: Iterable[TrialSpec]) -> list[Preparation]:
    """One preparation per model, march, input type and data, in the order of the trials."""
    groups: dict[str, list[TrialSpec]] = {}
    for spec in specs:
        settings = spec.settings
        shared = content_key(
            spec.model_dump(mode="json", exclude={"settings", "engine"}),
            settings.model_dump(mode="json", include=set(SHARED_SETTINGS)),
        )
        groups.setdefault(shared, []).append(spec)
    return [Preparation(specs=tuple(members)) for members in groups.values()]


def _error_of(future: Future[str]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:  # the cluster is gone
        return error


def _lost_worker(error: BaseException) -> bool:
    return isinstance(error, BrokenExecutor | CancelledError) or type(error).__name__ == "KilledWorker"


def _symptom(error: BaseException) -> Symptom:
    return Symptom.WORKER_DIED if _lost_worker(error) else Symptom.DEFECT


def _describe(error: BaseException) -> str:
    if _lost_worker(error):
        address = getattr(getattr(error, "last_worker", None), "address", "")  # of Dask's KilledWorker
        return f"the executor lost the worker{address and f' {address}'} ({type(error).__name__})"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
