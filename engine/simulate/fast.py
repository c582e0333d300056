"""The fast simulator: a quantised graph as a program of compiled instructions, equal to the reference bit for bit.

Every sample is computed on its own, so that results cannot depend on how samples are grouped. Several samples are
spread over threads; a single one is shared by them. What takes one thread less time than waking the others is left to
it, unless they are awake: :mod:`~engine.simulate.pace`.
"""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.simulate.assemble import assemble
from engine.simulate.kernels.machine import Linked, link
from engine.simulate.kernels.machine import run as run_machine
from engine.simulate.kernels.state import ADDRESS, COPIED, RESULT, ROW, state_words
from engine.simulate.pace import Pace
from engine.simulate.program import Program, PythonStep, aligned_zeros
from engine.simulate.team import Memory, Team
from engine.simulate.tensors import TensorInfo, check_feed, check_outputs, describe, graph_inputs

Array = NDArray[Any]
SAMPLES_AT_ONCE = 16
"""Samples that one call of the machine runs through for every thread."""
Part = Linked | Callable[[], None]
"""A table of instructions, or what calls a definition."""
Compute = Callable[["Part", "Workplace"], None]
"""Computes a part of a program in a workplace."""


@dataclass(frozen=True)
class Workplace:
    """Memory that one sample is computed in.

    Attributes:
        parts: of the program, ready to run here.
        arena: of the program, of the first of the samples that are computed together.
        arenas: of all of these.
        scratch: working memory of every thread.
        inputs: where they lie in the arena, by name.
        outputs: likewise; those that are constant do not.
        addresses: where the addresses of those of either lie that programs reach elsewhere, int64, by name.
        places: the first bytes in the arena of all three, by name.
        memory: of every thread, the same arena each.
        state: of threads that share the program's units, ``state_words`` int64.
    """

    parts: tuple[Part, ...]
    arena: NDArray[np.uint8]
    arenas: NDArray[np.uint8]
    scratch: tuple[NDArray[np.uint8], ...]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    addresses: Mapping[str, Array]
    places: Mapping[str, int]
    memory: tuple[Memory, ...]
    state: NDArray[np.int64]


class FastSimulator:
    """Runs a quantised graph; memory grows with samples by their outputs, and up to eight arenas a thread.

    Args:
        model: a quantised graph.
        threads: how many threads to use; None for one per CPU that this process may run on.
    """

    def __init__(self, model: ir.Model, threads: int | None = None) -> None:
        self.inputs = describe(graph_inputs(model))
        self.outputs = describe(model.graph.outputs)
        self._graph = assemble(model)
        self._reached_outputs = tuple(name for name in self._graph.addresses if name in self._graph.outputs)
        self._threads = max(1, threads or available_cpus())
        self._team = Team(self._threads) if self._threads > 1 else None
        self._workplaces: SimpleQueue[Workplace] = SimpleQueue()
        self._pace = Pace(self._graph.program, self._threads)
        self._last_end = -math.inf

    def run(self, feed: Mapping[str, Array], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, for a feed of any number of samples.

        Raises:
            InferenceError: the feed does not fit the model.
        """
        names = check_outputs(output_names, self.outputs)
        count = check_feed(feed, self.inputs)
        stacked = {info.name: _stack(feed[info.name], info, count) for info in self.inputs}
        results = {name: self._empty_result(name, count) for name in names}
        if self._reached_outputs:
            results |= self._unwanted(names, count)
        first = self._time_first(stacked, results, count)
        team, taken = self._team, False
        try:
            taken = team is not None and self._is_worth_sharing(count - first) and team.take()
            if team is not None and taken:
                if not self._pace.is_enough(count - first):
                    team.gather()
                start = time.monotonic()
                self._share(team, stacked, results, range(first, count))
                seconds = time.monotonic() - start
                self._pace.learn(seconds * self._threads / (count - first))
                if count - first == 1:
                    self._pace.learn_together(seconds)
            else:
                self._alone(stacked, results, range(first, count))
        finally:
            if team is not None and taken:
                team.release()
        self._last_end = time.monotonic()
        return {name: _unstack(results[name]) for name in names}

    @property
    def program(self) -> Program:
        """What is run for every sample."""
        return self._graph.program

    def time_steps(self, feed: Mapping[str, Array]) -> list[float]:
        """CPU seconds of every step of the program for the first sample of ``feed``, on one thread."""
        stacked = {info.name: _stack(feed[info.name], info, 1) for info in self.inputs}
        seconds: list[float] = []
        self._in_turn(stacked, self._unwanted((), 1), range(1), partial(_timed, seconds))
        return seconds

    def _is_worth_sharing(self, samples: int) -> bool:
        """Whether ``samples`` are worth waking helpers, or keeping them awake as the last call was just now."""
        if self._pace.is_enough(samples):
            return True
        pause = time.monotonic() - self._last_end
        return samples > 0 and self._is_one_table() and self._pace.grant_turn(samples, pause)

    def _time_first(self, feed: Mapping[str, Array], results: Mapping[str, Array], count: int) -> int:
        """Compute the first samples alone until it is known how long one takes; how many of ``count`` that were."""
        done = 0
        while done < count and not self._pace.is_known:
            seconds: list[float] = []
            self._in_turn(feed, results, range(done, done + 1), partial(_timed, seconds))
            self._pace.learn_steps(seconds)
            done += 1
        return done

    def _share(self, team: Team, feed: Mapping[str, Array], results: Mapping[str, Array], indices: range) -> None:
        """These samples, every thread some of them; those that are left over by all threads, if one is work enough."""
        left = len(indices) % self._threads if self._pace.is_enough(1) or len(indices) == 1 else 0
        even, rest = indices[: len(indices) - left], indices[len(indices) - left :]
        if even and self._is_one_table():
            self._spread(team, feed, results, even)
        elif even:
            stripes = [even[thread :: self._threads] for thread in range(self._threads)]
            others = [team.submit(self._alone, feed, results, stripe) for stripe in stripes[1:]]
            try:
                self._alone(feed, results, stripes[0])
                for done in others:
                    done.result()
            finally:
                for other in others:
                    other.cancel()
        if rest:
            self._in_turn(feed, results, rest, partial(_together, team))

    def _spread(self, team: Team, feed: Mapping[str, Array], results: Mapping[str, Array], indices: range) -> None:
        """These samples, each by the thread that comes to it first."""
        places = [self._take_workplace() for _ in range(min(self._threads, len(indices)))]
        try:
            part = _table(places[0])
            memory = [place.memory[0] for place in places]
            for samples in _calls(places[0], feed, results, indices, len(places)):
                team.share_samples(part, memory, samples.buffer_info()[0])
        finally:
            for place in places:
                self._workplaces.put(place)

    def _alone(self, feed: Mapping[str, Array], results: Mapping[str, Array], indices: range) -> None:
        """These samples one after the other by one thread."""
        if not indices:
            return
        start = time.monotonic()
        if len(indices) > 1 and self._is_one_table():
            place = self._take_workplace()
            try:
                for samples in _calls(place, feed, results, indices, 1):
                    run_machine(_table(place), *place.memory[0], samples.buffer_info()[0])
            finally:
                self._workplaces.put(place)
        else:
            self._in_turn(feed, results, indices, _by_itself)
        self._pace.learn((time.monotonic() - start) / len(indices))

    def _is_one_table(self) -> bool:
        """Whether the program is instructions alone."""
        parts = self._graph.program.parts
        return len(parts) == 1 and not isinstance(parts[0], PythonStep)

    def _in_turn(
        self, feed: Mapping[str, Array], results: Mapping[str, Array], indices: range, compute: Compute
    ) -> None:
        """These samples one after the other, each part of the program as ``compute`` does it."""
        place = self._take_workplace()
        try:
            given = [(values, feed[name]) for name, values in place.inputs.items()]
            ends = {**feed, **results} if place.addresses else {}
            reached = [(address, ends[name]) for name, address in place.addresses.items()]
            taken = [(result, place.outputs[name]) for name, result in results.items() if name in place.outputs]
            for index in indices:
                for values, samples in given:
                    values[...] = samples[index]
                for address, samples in reached:
                    address[0] = samples[index].ctypes.data
                for part in place.parts:
                    compute(part, place)
                for result, values in taken:
                    result[index] = values
        finally:
            self._workplaces.put(place)

    def _take_workplace(self) -> Workplace:
        """One that is not in use; the caller puts it back after use."""
        try:
            return self._workplaces.get_nowait()
        except Empty:
            return self._new_workplace()

    def _new_workplace(self) -> Workplace:
        program = self._graph.program
        arenas = program.new_arenas(program.samples_together)
        arena: NDArray[np.uint8] = arenas[0, : program.arena_bytes]
        parts = tuple(part.bind(arena) if isinstance(part, PythonStep) else link(part) for part in program.parts)
        scratch = tuple(aligned_zeros(program.scratch_bytes) for _ in range(self._threads))
        addresses = {name: tensor.view(arena) for name, tensor in self._graph.addresses.items()}
        inputs, outputs = (
            {name: tensor.view(arena) for name, tensor in ends.items() if name not in addresses}
            for ends in (self._graph.inputs, self._graph.outputs)
        )
        begin = arena.ctypes.data
        ends = inputs | addresses | outputs
        places = {name: values.ctypes.data - begin for name, values in ends.items()}
        memory = tuple((begin, part.ctypes.data) for part in scratch)
        state = np.zeros(state_words(self._threads), np.int64)
        return Workplace(parts, arena, arenas, scratch, inputs, outputs, addresses, places, memory, state)

    def _unwanted(self, names: Collection[str], count: int) -> dict[str, Array]:
        """Where programs store outputs that are not among ``names``, if they reach them by their addresses."""
        found = [(name, self._empty_result(name, 1)[0]) for name in self._reached_outputs if name not in names]
        return {name: np.broadcast_to(array, (count, *array.shape)) for name, array in found}

    def _empty_result(self, name: str, count: int) -> Array:
        constant = self._graph.constants.get(name)
        if constant is not None:
            return np.array(np.broadcast_to(constant, (count, *constant.shape)))
        tensor = self._graph.outputs[name]
        return np.empty((count, *tensor.shape), tensor.dtype)


def _table(place: Workplace) -> Linked:
    """The instructions of a program that is nothing else."""
    (part,) = place.parts
    assert isinstance(part, Linked)
    return part


def _calls(
    place: Workplace, feed: Mapping[str, Array], results: Mapping[str, Array], indices: range, threads: int
) -> Iterator[array[int]]:
    """What describes samples to the machine, so many in a call of ``threads``, between which Ctrl-C is heard: int64."""
    rows: list[int] = []
    for kind, names, ends in ((COPIED, place.inputs, feed), (RESULT, place.outputs, results)):
        for name in names:
            if name in ends:
                rows += (ends[name].ctypes.data, place.places[name], ends[name][0].nbytes, kind)
    for name in place.addresses:
        samples = feed[name] if name in feed else results[name]
        rows += (samples.ctypes.data, place.places[name], samples.strides[0], ADDRESS)
    for start in range(indices.start, indices.stop, SAMPLES_AT_ONCE * threads):
        end = min(start + SAMPLES_AT_ONCE * threads, indices.stop)
        together = min(len(place.arenas), -(-(end - start) // threads))
        yield array("q", (start, end, len(rows) // ROW, together, place.arenas.strides[0], 0, 0, 0, *rows))


def _by_itself(part: Part, place: Workplace) -> None:
    """One thread computes a part of the program."""
    if isinstance(part, Linked):
        run_machine(part, *place.memory[0])
    else:
        part()


def _together(team: Team, part: Part, place: Workplace) -> None:
    """All threads of the team compute it, one of them a Python step."""
    if isinstance(part, Linked):
        team.share_units(part, place.memory, place.state.ctypes.data)
    else:
        part()


def _timed(seconds: list[float], part: Part, place: Workplace) -> None:
    """One thread computes it, step by step; the CPU seconds of each are appended to ``seconds``."""
    for step in part.steps() if isinstance(part, Linked) else [part]:
        start = time.thread_time()
        _by_itself(step, place)
        seconds.append(time.thread_time() - start)


def available_cpus() -> int:
    """CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stack(samples: Array, info: TensorInfo, count: int) -> Array:
    """``count`` samples along a dimension of their own."""
    return np.ascontiguousarray(samples[np.newaxis] if count == 1 else samples.reshape(count, *info.shape))


def _unstack(stacked: Array) -> Array:
    """Samples back into the first dimension; scalars become a vector where there are several."""
    if len(stacked) == 1:
        only: Array = stacked[0]
        return only
    if stacked.ndim == 1:
        return stacked
    return stacked.reshape(stacked.shape[0] * stacked.shape[1], *stacked.shape[2:])
