"""A float model in which single tensors are quantised: each run costs only what it changes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.forward.chained import Cut, GraphStep, Spec, StepLayout, apart, is_apart, opened
from engine.calibrate.forward.compare import cosine
from engine.calibrate.forward.depthwise import DOMAIN, extract_depthwise
from engine.calibrate.forward.fake_quantization import fake_quantize, lower_calibration
from engine.calibrate.forward.float_model import in_batches, numpy_type
from engine.calibrate.forward.own_arithmetic import has_own_arithmetic
from engine.ir import Calibration, calibration_nodes, constant_of, shape_of, take_initializers_out

if TYPE_CHECKING:
    import onnxruntime as ort

Array = NDArray[Any]
Choice = Mapping[str, Calibration]
"""What quantises, and how, by name of the ``HzCalibration``."""
Cosines = tuple[tuple[float, ...], ...]
"""How similar the outputs of a model are to the float ones: by output, and by row of it."""

_Key = tuple[int, str, bytes]
"""A single tensor that differs, or its head: step, name, and what tells its values from others."""
_SWITCH = "Switch"
_HEAD = 64
"""Numbers that tell most arrays apart."""
_BLOCK = 16
"""Choices that a thread takes one after the other: neighbours often give the same."""


@dataclass(frozen=True)
class _Switch:
    """An ``HzCalibration`` that choices may have; see :class:`engine.calibrate.forward.chained.GraphStep`.

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
        """See there."""
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
    those of :attr:`engine.calibrate.forward.float_model.Kernels.PLAIN`.

    Args:
        calibrated: model; not changed. Its thresholds are not read.
        chosen: names of the ``HzCalibration`` nodes that choices may have; None for all.
        threads: CPU threads; None for all. They take choices of their own.

    Attributes:
        steps: what is computed, in order.
        places: index of the step by name of the ``HzCalibration``.
        dying: by step: the tensors that nothing needs after it.
        outputs: names.
        pool: the threads.
        layout: of what steps hand to each other in one run.
    """

    def __init__(
        self, calibrated: ir.Model, chosen: Collection[str] | None = None, *, threads: int | None = None
    ) -> None:
        model = calibrated.clone()
        for node in tuple(calibration_nodes(model)):
            if chosen is None or node.name in chosen:
                node.domain, node.op_type = DOMAIN, _SWITCH
            else:
                node.attributes["switch"] = ir.AttrString("switch", "OFF")
        model = lower_calibration(model, quantize_linear=True, keep=has_own_arithmetic)
        take_initializers_out(model)
        extract_depthwise(model)
        model.graph.sort()
        self._shapes = {str(value.name): shape_of(value) for value in model.graph.inputs}
        self._types = {str(value.name): numpy_type(value) for value in model.graph.inputs}
        self.outputs = tuple(str(value.name) for value in model.graph.outputs)
        self.steps = tuple(_cut(model))
        self.places = {step.name: index for index, step in enumerate(self.steps) if isinstance(step, _Switch)}
        self.dying = self._last_readings()
        self.pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
        self.layout = StepLayout(list(self._readings()))

    def on(self, feed: Mapping[str, Array]) -> Iterator[SwitchedSample]:
        """The model on every sample of ``feed``, arrays by input name, each computed when it is asked for.

        Raises:
            InferenceError: an input is missing or unknown, or has the wrong shape.
        """
        return (SwitchedSample(self, sample) for sample in in_batches(feed, self._shapes, self._types))

    def _last_readings(self) -> list[list[str]]:
        last = {name: index for index, step in enumerate(self.steps) for name in step.inputs if name is not None}
        found: list[list[str]] = [[] for _ in self.steps]
        for name in last.keys() - set(self.outputs):
            found[last[name]].append(name)
        return found

    def _readings(self) -> Iterator[_Reading]:
        """The steps as the layout is to see them: who reads what a switch gives may read what it is given."""
        sources = {step.result: step.source for step in self.steps if isinstance(step, _Switch)}
        for step in (*self.steps, _Reading(self.outputs, {})):
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
    """

    def __init__(self, model: SwitchedModel, feed: Mapping[str, Array]) -> None:
        self._model = model
        self._values = dict(feed)
        for step in model.steps:
            step.compute(self._values, {})
        self._known: dict[_Key, Cosines] = {}
        self._heads: set[_Key] = set()

    def cosines(self, choices: Sequence[Choice]) -> list[Cosines]:
        """How similar the outputs are for every choice; the same for any number of threads.

        Args:
            choices: what quantises; an ``HzCalibration`` that no output needs makes no difference.
        """
        starts = [self._start(choice) for choice in choices]
        order = sorted(range(len(choices)), key=starts.__getitem__, reverse=True)
        blocks = [order[start : start + _BLOCK] for start in range(0, len(order), _BLOCK)]
        found: dict[int, Cosines] = {}

        def run(block: Sequence[int]) -> None:
            for index in block:
                found[index] = self._run(choices[index], starts[index])

        list(self._model.pool.map(run, blocks))
        return [found[index] for index in range(len(choices))]

    def _start(self, choice: Choice) -> int:
        """The first step of ``choice``."""
        return min((self._model.places[name] for name in choice if name in self._model.places), default=0)

    def _run(self, choice: Choice, start: int) -> Cosines:
        """The result for ``choice``, the first of which is the step ``start``."""
        changed: dict[str, Array] = {}
        own: _Key | None = None
        found: Cosines | None = None
        left = len(choice.keys() & self._model.places.keys())
        with self._model.layout.room() as room:
            for index in range(start, len(self._model.steps)):
                step = self._model.steps[index]
                is_chosen = isinstance(step, _Switch) and step.name in choice
                if not is_chosen and changed.keys().isdisjoint(step.inputs):
                    continue
                left -= is_chosen
                self._compute(step, choice, changed, room)
                for name in self._model.dying[index]:
                    changed.pop(name, None)
                if left or len(changed) > 1:
                    continue
                if not changed:
                    break
                key = self._key(index, changed, always=is_chosen)
                found = None if key is None else self._known.get(key)
                if found is not None:
                    break
                own = key if is_chosen else own
            if found is None:
                found = self._compared(changed)
        if own is not None:
            self._known[own] = found
        return found

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

    def _compared(self, changed: Mapping[str, Array]) -> Cosines:
        """The outputs beside the float ones."""
        pairs = [(changed.get(name, self._values[name]), self._values[name]) for name in self._model.outputs]
        return tuple(tuple(map(cosine, np.atleast_1d(one), np.atleast_1d(other))) for one, other in pairs)


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
    from engine.calibrate.forward.runtime import open_session

    return open_session(part, threads=1, blocked_layouts=False)
