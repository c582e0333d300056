"""The fast simulator: a quantised graph as a program of compiled instructions, equal to the reference bit for bit.

Every sample is computed on its own, so that results cannot depend on how samples are grouped. Several samples are
spread over threads; a single one is shared by them. What takes one thread less time than waking the others is left to
it: :data:`ENOUGH_WORK`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.simulate.assemble import assemble
from engine.simulate.kernels.machine import Linked, link
from engine.simulate.kernels.machine import run as run_machine
from engine.simulate.kernels.state import OVER, STATE_WORDS
from engine.simulate.program import Program, PythonStep, aligned_zeros
from engine.simulate.tensors import check_feed, check_outputs, describe, graph_inputs

Array = NDArray[Any]
SAMPLES_AT_ONCE = 16
"""Samples that one call of the machine runs through."""
ENOUGH_WORK = 1e-3
"""CPU seconds that work takes one thread, from which on threads share it: to wake one takes up to 0.3 ms."""
SAMPLES_TIMED = 4
"""Samples that one thread computes before others take part, to learn how long one takes; later ones correct it.

The first of them finds memory that nothing has touched."""
Part = Linked | Callable[[], None]
"""A table of instructions, or what calls a definition."""


@dataclass(frozen=True)
class Workplace:
    """Memory that one sample is computed in.

    Attributes:
        parts: of the program, ready to run here.
        arena: of the program.
        scratch: working memory of every thread.
        inputs: where they lie in the arena, by name.
        outputs: likewise; those that are constant do not.
        places: of inputs and outputs by name: the first byte in the arena and the number of bytes.
        arena_address: of the arena.
        scratch_addresses: of every thread's working memory.
    """

    parts: tuple[Part, ...]
    arena: NDArray[np.uint8]
    scratch: tuple[NDArray[np.uint8], ...]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    places: Mapping[str, tuple[int, int]]
    arena_address: int
    scratch_addresses: tuple[int, ...]


class FastSimulator:
    """Runs a quantised graph; memory does not grow with the number of samples but for their outputs.

    Args:
        model: a quantised graph.
        threads: how many threads to use; None for one per CPU that this process may run on.
    """

    def __init__(self, model: ir.Model, threads: int | None = None) -> None:
        self.inputs = describe(graph_inputs(model))
        self.outputs = describe(model.graph.outputs)
        self._graph = assemble(model)
        self._threads = max(1, threads or available_cpus())
        self._pool = ThreadPoolExecutor(self._threads, "simulate") if self._threads > 1 else None
        self._workplaces: SimpleQueue[Workplace] = SimpleQueue()
        self._together = Lock()
        self._untimed = SAMPLES_TIMED if self._threads > 1 else 0
        self._is_timed = self._untimed > 0
        self._seconds = math.inf

    def run(self, feed: Mapping[str, Array], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, for a feed of any number of samples.

        Raises:
            InferenceError: the feed does not fit the model.
        """
        names = check_outputs(output_names, self.outputs)
        count = check_feed(feed, self.inputs)
        stacked = {info.name: np.ascontiguousarray(feed[info.name].reshape(count, *info.shape)) for info in self.inputs}
        results = {name: self._empty_result(name, count) for name in names}
        first = self._time_first(stacked, results, count)
        if self._pool is None or (count - first) * self._seconds < ENOUGH_WORK:
            self._stripe(stacked, results, range(first, count), 1)
        else:
            self._share(self._pool, stacked, results, range(first, count))
        return {name: _unstack(array) for name, array in results.items()}

    @property
    def program(self) -> Program:
        """What is run for every sample."""
        return self._graph.program

    def time_steps(self, feed: Mapping[str, Array]) -> list[float]:
        """CPU seconds of every step of the program for the first sample of ``feed``, on one thread."""
        seconds = []
        place = self._take_workplace()
        try:
            for name, values in place.inputs.items():
                values[...] = feed[name].ravel()[: values.size].reshape(values.shape)
            for part in place.parts:
                for step in _single_steps(part):
                    start = time.thread_time()
                    self._step(step, place, 1)
                    seconds.append(time.thread_time() - start)
        finally:
            self._workplaces.put(place)
        return seconds

    def _time_first(self, feed: Mapping[str, Array], results: Mapping[str, Array], count: int) -> int:
        """Compute the first samples alone until it is known how long one takes; how many of ``count`` that were."""
        done = 0
        while done < count and self._untimed > 0:
            self._stripe(feed, results, range(done, done + 1), 1)
            self._untimed = 0 if self._seconds > 10 * ENOUGH_WORK else self._untimed - 1
            done += 1
        return done

    def _share(
        self, pool: ThreadPoolExecutor, feed: Mapping[str, Array], results: Mapping[str, Array], indices: range
    ) -> None:
        """These samples, every thread its own; those that are left over by all threads, if one is work enough."""
        left = len(indices) % self._threads
        even, rest = indices[: len(indices) - left], indices[len(indices) - left :]
        stripes = [even[thread :: self._threads] for thread in range(self._threads)] if even else []
        for done in [pool.submit(self._stripe, feed, results, stripe, 1) for stripe in stripes]:
            done.result()
        for index in rest:
            # One at a time: threads that wait for each other must all have started.
            with self._together:
                threads = self._threads if self._seconds >= ENOUGH_WORK else 1
                self._stripe(feed, results, range(index, index + 1), threads)

    def _stripe(self, feed: Mapping[str, Array], results: Mapping[str, Array], indices: range, threads: int) -> None:
        """These samples one by one, each by ``threads`` threads together.

        What one thread takes for a sample is learnt from the fastest so far: the first of a process may take several
        times as long as all others.
        """
        place = self._take_workplace()
        start = time.thread_time()
        try:
            if threads == 1 < len(indices) and len(place.parts) == 1 and isinstance(place.parts[0], Linked):
                _run_through(place.parts[0], place, feed, results, indices)
            else:
                self._run_each(place, feed, results, indices, threads)
            if self._is_timed and threads == 1 and indices:
                self._seconds = min(self._seconds, (time.thread_time() - start) / len(indices))
        finally:
            self._workplaces.put(place)

    def _run_each(
        self, place: Workplace, feed: Mapping[str, Array], results: Mapping[str, Array], indices: range, threads: int
    ) -> None:
        given = [(values, feed[name]) for name, values in place.inputs.items()]
        taken = [(result, place.outputs[name]) for name, result in results.items() if name in place.outputs]
        for index in indices:
            for values, samples in given:
                values[...] = samples[index]
            for part in place.parts:
                self._step(part, place, threads)
            for result, values in taken:
                result[index] = values

    def _step(self, part: Part, place: Workplace, threads: int) -> None:
        if not isinstance(part, Linked):
            part()
        elif threads == 1:
            run_machine(part, place.arena_address, place.scratch_addresses[0], 0, 0, 1)
        else:
            self._run_together(part, place, threads)

    def _run_together(self, part: Linked, place: Workplace, threads: int) -> None:
        """One table of instructions; a helper that comes too late finds the work done, and no thread waits for it."""
        state = np.zeros(STATE_WORDS, np.int64)
        helpers = []
        try:
            if self._pool is not None:
                helpers = [self._pool.submit(_work, part, place, state, n, threads) for n in range(1, threads)]
            _work(part, place, state, 0, threads)
        except BaseException:  # Ctrl-C among others: the workplace must not be used any more
            state[0] = OVER
            for helper in helpers:
                helper.result()
            raise
        for helper in helpers:
            helper.cancel()

    def _take_workplace(self) -> Workplace:
        """One that is not in use; the caller puts it back after use."""
        try:
            return self._workplaces.get_nowait()
        except Empty:
            return self._new_workplace()

    def _new_workplace(self) -> Workplace:
        program = self._graph.program
        arena = program.new_arena()
        parts = tuple(part.bind(arena) if isinstance(part, PythonStep) else link(part) for part in program.parts)
        scratch = tuple(aligned_zeros(program.scratch_bytes) for _ in range(self._threads))
        inputs, outputs = (
            {name: tensor.view(arena) for name, tensor in ends.items()}
            for ends in (self._graph.inputs, self._graph.outputs)
        )
        begin = arena.ctypes.data
        places = {name: (values.ctypes.data - begin, values.nbytes) for name, values in (inputs | outputs).items()}
        return Workplace(
            parts, arena, scratch, inputs, outputs, places, begin, tuple(part.ctypes.data for part in scratch)
        )

    def _empty_result(self, name: str, count: int) -> Array:
        constant = self._graph.constants.get(name)
        if constant is not None:
            return np.array(np.broadcast_to(constant, (count, *constant.shape)))
        tensor = self._graph.outputs[name]
        return np.empty((count, *tensor.shape), tensor.dtype)


def _run_through(
    part: Linked,
    place: Workplace,
    feed: Mapping[str, Array],
    results: Mapping[str, Array],
    indices: range,
) -> None:
    """These samples by one thread, :data:`SAMPLES_AT_ONCE` in a call, between which Ctrl-C is heard."""
    rows = [(feed[name].ctypes.data, *place.places[name], 0) for name in place.inputs]
    rows += [(result.ctypes.data, *place.places[name], 1) for name, result in results.items() if name in place.outputs]
    for start in range(0, len(indices), SAMPLES_AT_ONCE):
        some = indices[start : start + SAMPLES_AT_ONCE]
        samples = np.array([(some.start, some.stop, some.step, len(rows)), *rows], np.int64)
        run_machine(part, place.arena_address, place.scratch_addresses[0], samples.ctypes.data, 0, 1)


def _single_steps(part: Part) -> list[Part]:
    """The instructions of a table, each ready to run by itself; a definition as it is."""
    return [link(part.table[k : k + 1]) for k in range(part.count)] if isinstance(part, Linked) else [part]


def _work(part: Linked, place: Workplace, state: NDArray[np.int64], thread: int, threads: int) -> None:
    """Be thread ``thread`` of those that run ``part``; what the addresses lead to lives as long as this call."""
    run_machine(part, place.arena_address, place.scratch_addresses[thread], state.ctypes.data, thread, threads)


def available_cpus() -> int:
    """CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _unstack(stacked: Array) -> Array:
    """Samples back into the first dimension; scalars become a vector where there are several."""
    if stacked.ndim == 1:
        return stacked if len(stacked) > 1 else stacked[0]
    return stacked.reshape(stacked.shape[0] * stacked.shape[1], *stacked.shape[2:])
