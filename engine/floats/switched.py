"""A float model in which single tensors are quantised: each run costs only what it changes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.chained import Cut, GraphStep, Spec, StepLayout, apart, is_apart, opened
from engine.floats.compare import cosine
from engine.floats.depthwise import DOMAIN, extract_depthwise
from engine.floats.fake_quantization import fake_quantize, lower_calibration
from engine.floats.float_model import in_batches, make_outputs, numpy_type
from engine.floats.own_arithmetic import has_own_arithmetic
from engine.ir import Calibration, calibration_nodes, constant_of, shape_of, take_initializers_out

if TYPE_CHECKING:
    import onnxruntime as ort

Array = NDArray[Any]
Choice = Mapping[str, Calibration]
"""What quantises, and how, by name of the ``HzCalibration``."""
Cosines = tuple[tuple[float, ...], ...]
"""How similar the outputs of a model are to the float ones: by output, and by row of it."""
Results = Mapping[str, Any]
"""What a comparison says of each output, by name."""
Comparison = Callable[[str, Array, Array], Any]
"""Takes name of an output, its array for a choice, and the float one; arrays do not outlast the call."""

_Key = tuple[int, str, bytes]
"""A single tensor that differs, or its head: step, name, and what tells its values from others."""
_SWITCH = "Switch"
_HEAD = 64
"""Numbers that tell most arrays apart."""
_BLOCK = 16
"""Choices that a thread takes one after the other: neighbours often give the same."""


@dataclass(frozen=True)
class _Switch:
    """An ``HzCalibration`` that choices may have; see :class:`engine.floats.chained.GraphStep`.

    Attributes:
        name: of the ``HzCalibration``.
        source: what it reads, by name.
        result: what it gives.
        constant: what it reads where no node computes that.
    """

    name: str
    source: str
    result: str
    constant: Array | None

    @property
    def inputs(self) -> Collection[str]:
        """See :class:`engine.floats.chained.GraphStep`."""
        return (self.source,)

    @property
    def outputs(self) -> Mapping[str, None]:
        """See there; it has no memory of its own, because unless it is chosen it gives what it reads."""
        return {self.result: None}

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """See there: no choice has it."""
        values[self.result] = values[self.source] if self.constant is None else self.constant

    def quantize(self, source: Array | None, calibration: Calibration) -> Array:
        """What it gives where a choice has it; zeros are positive, as integers have no other."""
        given = source if self.constant is None else self.constant
        return np.asarray(fake_quantize(np.asarray(given), calibration) + np.float32(0))


@dataclass(frozen=True)
class _Reading:
    """A step as the layout of memory sees it."""

    inputs: Collection[str | None]
    outputs: Mapping[str, Spec | None]

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """Nothing."""


class SwitchedModel:
    """A calibrated model, no ``HzCalibration`` of which quantises unless a choice has it.

    It is cut at every ``HzCalibration`` that choices may have, and at the nodes that Python computes. Float sums are
    those of :attr:`engine.floats.float_model.Kernels.PLAIN`.

    Args:
        calibrated: model; not changed. Its thresholds are not read.
        chosen: names of the ``HzCalibration`` nodes that choices may have; None for all.
        fetch: tensors that count as outputs: any that a node computes; None for the graph's outputs.
        threads: CPU threads; None for all. They take choices of their own.

    Attributes:
        steps: what is computed, in order.
        places: index of the step by name of the ``HzCalibration``.
        dying: by step: the tensors that nothing needs after it.
        outputs: names.
        pool: the threads.
        layout: of what steps hand to each other in one run.

    Raises:
        InferenceError: a tensor to fetch is not computed by a node.
    """

    def __init__(
        self,
        calibrated: ir.Model,
        chosen: Collection[str] | None = None,
        *,
        fetch: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> None:
        model = calibrated.clone()
        for node in tuple(calibration_nodes(model)):
            if chosen is None or node.name in chosen:
                node.domain, node.op_type = DOMAIN, _SWITCH
            else:
                node.attributes["switch"] = ir.AttrString("switch", "OFF")
        model = lower_calibration(model, quantize_linear=True, keep=has_own_arithmetic)
        if fetch is not None:
            make_outputs(model, fetch)
        take_initializers_out(model)
        extract_depthwise(model)
        model.graph.sort()
        self._shapes = {str(value.name): shape_of(value) for value in model.graph.inputs}
        self._types = {str(value.name): numpy_type(value) for value in model.graph.inputs}
        self.outputs = tuple(str(value.name) for value in model.graph.outputs)
        self.steps = tuple(_cut(model))
        self.places = {step.name: index for index, step in enumerate(self.steps) if isinstance(step, _Switch)}
        self.dying = self._last_uses()
        self.pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
        self.layout = StepLayout(list(self._readings()))

    def on(self, feed: Mapping[str, Array]) -> Iterator[SwitchedSample]:
        """The model on every sample of ``feed``, arrays by input name, each computed when it is asked for.

        Raises:
            InferenceError: an input is missing or unknown, or has the wrong shape.
        """
        return (SwitchedSample(self, sample) for sample in in_batches(feed, self._shapes, self._types))

    def _last_uses(self) -> list[list[str]]:
        """By step: the tensors that no later one reads. Outputs are compared as soon as they are there."""
        last: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            last.update((name, index) for name in (*step.inputs, *step.outputs) if name is not None)
        found: list[list[str]] = [[] for _ in self.steps]
        for name, index in last.items():
            found[index].append(name)
        return found

    def _readings(self) -> Iterator[_Reading]:
        """The steps as the layout is to see them: who reads what a switch gives may read what it is given."""
        sources = {step.result: step.source for step in self.steps if isinstance(step, _Switch)}
        for step in self.steps:
            names = [name for name in step.inputs if name is not None]
            for name in names:  # it grows on the way
                if name in sources:
                    names.append(sources[name])
            yield _Reading(names, step.outputs)


class SwitchedSample:
    """One sample: the tensors of the float model, and what choices make of its outputs.

    Once a single tensor differs from the float model, and has the bits that another choice gave it there, the result is
    known: so it is where a quantised tensor is moved and then has the same threshold again, and where several methods
    have the same one.

    An object holds what the steps give for the sample once, and a few hundred bytes for every choice so far; every
    thread also holds the memory of one run, in which tensors make room for others, and what the switches of that run
    give.

    Args:
        model: which one.
        feed: the sample, by input name.

    Attributes:
        seconds: that each step took in the float model.
    """

    def __init__(self, model: SwitchedModel, feed: Mapping[str, Array]) -> None:
        self._model = model
        self._values = dict(feed)
        self.seconds: list[float] = []
        for step in model.steps:
            start = time.perf_counter()
            step.compute(self._values, {})
            self.seconds.append(time.perf_counter() - start)
        self._known: dict[tuple[Comparison, _Key], Results] = {}
        self._same: dict[tuple[Comparison, str], Any] = {}
        self._heads: set[_Key] = set()

    def cosines(self, choices: Sequence[Choice]) -> list[Cosines]:
        """How similar the outputs are for every choice; the same for any number of threads.

        Args:
            choices: what quantises; an ``HzCalibration`` that no output needs makes no difference.
        """
        outputs = self._model.outputs
        return [tuple(found[name] for name in outputs) for found in self.compared(choices, _cosines_of_rows)]

    def compared(
        self, choices: Sequence[Choice], compare: Comparison, done: Callable[[int], None] = lambda index: None
    ) -> list[Results]:
        """What ``compare`` says of every output for every choice; the same for any number of threads.

        Args:
            choices: as for :meth:`cosines`.
            compare: a function of its arguments alone, which is called once for what several choices have in common.
            done: called with the index of every choice that is finished.
        """
        starts = [self._start(choice) for choice in choices]
        order = sorted(range(len(choices)), key=starts.__getitem__, reverse=True)
        blocks = [order[start : start + _BLOCK] for start in range(0, len(order), _BLOCK)]
        found: dict[int, Results] = {}

        def run(block: Sequence[int]) -> None:
            for index in block:
                found[index] = self._run(choices[index], starts[index], compare)
                done(index)

        list(self._model.pool.map(run, blocks))
        return [found[index] for index in range(len(choices))]

    def cost(self, choice: Choice) -> float:
        """Seconds that the steps from the first of ``choice`` on took in the float model."""
        return sum(self.seconds[self._start(choice) :]) if self._model.places.keys() & choice.keys() else 0.0

    def _start(self, choice: Choice) -> int:
        """The first step of ``choice``."""
        return min((self._model.places[name] for name in choice if name in self._model.places), default=0)

    def _run(self, choice: Choice, start: int, compare: Comparison) -> Results:
        """The result for ``choice``, the first of which is the step ``start``."""
        changed: dict[str, Array] = {}
        found: dict[str, Any] = {}
        own: tuple[_Key, Collection[str]] | None = None
        left = len(choice.keys() & self._model.places.keys())
        with self._model.layout.room() as room:
            for index in range(start, len(self._model.steps)):
                if not left and not changed:
                    break
                step = self._model.steps[index]
                is_chosen = isinstance(step, _Switch) and step.name in choice
                if not is_chosen and changed.keys().isdisjoint(step.inputs):
                    continue
                left -= is_chosen
                self._compute(step, choice, changed, room)
                for name in step.outputs:
                    if name in changed and name in self._model.outputs:
                        found[name] = compare(name, changed[name], self._values[name])
                for name in self._model.dying[index]:
                    changed.pop(name, None)
                if left or len(changed) != 1:
                    continue
                key = self._key(index, changed, always=is_chosen)
                known = None if key is None else self._known.get((compare, key))
                if known is not None:
                    found = {**known, **found}
                    break
                if is_chosen and key is not None:
                    own = key, tuple(found)
        completed = self._completed(found, compare)
        if own is not None:
            key, before = own
            self._known[compare, key] = {name: each for name, each in completed.items() if name not in before}
        return completed

    def _compute(self, step: GraphStep, choice: Choice, changed: dict[str, Array], room: Mapping[str, Array]) -> None:
        """Put into ``changed`` what ``step`` makes of it, as far as that differs from the float model."""
        if not isinstance(step, _Switch):
            given = {name: self._values[name] for name in step.inputs if name is not None and name in self._values}
            given.update((name, array) for name, array in changed.items() if name in given)
            step.compute(given, room)
            changed.update((name, given[name]) for name in step.outputs)
            return
        source, result = changed.get(step.source), self._values[step.result]
        if step.name in choice:
            source = step.quantize(self._values.get(step.source) if source is None else source, choice[step.name])
            if np.array_equal(source.view(np.uint32), result.view(np.uint32)):
                return
        if source is not None:
            changed[step.result] = source

    def _key(self, index: int, changed: Mapping[str, Array], always: bool) -> _Key | None:
        """What identifies the one tensor that is left behind step ``index``.

        None where no choice gave such, unless ``always``.
        """
        ((name, array),) = changed.items()
        head = index, name, array.reshape(-1)[:_HEAD].tobytes()
        if not always and head not in self._heads:
            return None
        self._heads.add(head)
        return index, name, hashlib.blake2b(np.ascontiguousarray(array).data).digest()

    def _completed(self, found: Mapping[str, Any], compare: Comparison) -> Results:
        """``found``, and what is said of the outputs that did not change."""
        for name in self._model.outputs:
            if name not in found and (compare, name) not in self._same:
                self._same[compare, name] = compare(name, self._values[name], self._values[name])
        return {name: found[name] if name in found else self._same[compare, name] for name in self._model.outputs}


def _cosines_of_rows(_: str, actual: Array, expected: Array) -> tuple[float, ...]:
    return tuple(map(cosine, np.atleast_1d(actual), np.atleast_1d(expected)))


def _is_switch(node: ir.Node) -> bool:
    return node.domain == DOMAIN and node.op_type == _SWITCH


def _cut(model: ir.Model) -> Iterator[GraphStep]:
    """The steps of ``model``, whose nodes are sorted."""
    cut = Cut(model.graph, lambda node: _is_switch(node) or is_apart(node))
    for depth in range(cut.parts):
        for piece in cut.pieces(depth):
            yield opened(piece, model.ir_version, _open)
        for node in cut.apart[depth]:
            yield _switch(node) if _is_switch(node) else apart(node)


def _switch(node: ir.Node) -> _Switch:
    source, result = (str(value.name) for value in (node.inputs[0], node.outputs[0]) if value is not None)
    constant = constant_of(node.inputs[0])
    return _Switch(str(node.name), source, result, None if constant is None else np.asarray(constant, np.float32))


def _open(part: bytes) -> ort.InferenceSession:
    from engine.floats.runtime import open_session

    return open_session(part, threads=1, blocked_layouts=False)
