"""Many choices of quantised tensors of a calibrated model; each costs only what it changes.

A *variant* is the set of ``HzCalibration`` nodes that quantise; all others pass through. The float model is computed
once and all its tensors are kept. A variant then computes only the segments of the graph that lie downstream of what it
quantises, all samples together, into buffers that are used again; variants run side by side, one thread each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import local
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.forward.float_model import FloatSession, Kernels
from engine.errors import InferenceError
from engine.ir import calibration_nodes, is_calibration, shape_of

Array = NDArray[Any]
Variant = frozenset[str]
"""Names of the ``HzCalibration`` nodes that quantise."""

FLOAT: Variant = frozenset()
"""The variant that quantises nothing."""

MEMORY = 1 << 29
"""Bytes that the tensors of the float model may take: as many samples are computed together."""
MAX_SAMPLES = 8
"""Samples computed together at most: more do not make it faster."""

Visitor = Callable[[str, int, Array, Array], None]
"""Takes name of a tensor, index of a variant, what the variant makes of the tensor, and the float tensor.

The arrays are valid during the call only. Different variants call it from different threads.
"""


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that are run together: a node, and those that alone read its result, up to the next calibrated tensor.

    Attributes:
        graph: theirs, with the ``HzCalibration`` nodes that they read.
        inputs: names of the tensors it reads that depend on the model's inputs.
        outputs: shape and type by name of the tensors that other segments read or the caller wants.
        calibrations: names of the ``HzCalibration`` nodes inside.
        ir_version: of the model that it is cut from.
    """

    graph: ir.Graph
    inputs: tuple[str, ...]
    outputs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    calibrations: frozenset[str]
    ir_version: int
    _sessions: dict[Variant, FloatSession] = field(default_factory=dict, repr=False)

    def session(self, working: Variant) -> FloatSession:
        """The segment where the calibrations ``working`` are ``ON`` and all others ``OFF``; kept."""
        if working not in self._sessions:
            model = ir.Model(self.graph.clone(), ir_version=self.ir_version)
            switch(model, working)
            self._sessions[working] = FloatSession(model, threads=1, kernels=Kernels.PLAIN, max_batch=MAX_SAMPLES)
        return self._sessions[working]

    def run(self, working: Variant, feed: Mapping[str, Array], buffers: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs for ``feed``, written into ``buffers`` where their type allows it."""
        session = self.session(working)
        if any(dtype != np.float32 for _, dtype in self.outputs.values()):
            return session.run(feed)
        session.run_into(feed, buffers)
        return dict(buffers)


class VariantRunner:
    """Runs a calibrated model in many variants.

    Args:
        calibrated: model with thresholds and static shapes; not changed.
        fetch: names of the tensors wanted: any that a node computes, not of weights.
        threads: CPU threads; None for all.

    Raises:
        InferenceError: a name in ``fetch`` is not such a tensor.
    """

    def __init__(self, calibrated: ir.Model, fetch: Collection[str], *, threads: int | None = None) -> None:
        self._threads = threads or len(os.sched_getaffinity(0))
        self._fetch = frozenset(fetch)
        self._inputs = {str(value.name): shape_of(value) for value in calibrated.graph.inputs}
        self._segments = tuple(_cut(calibrated, self._fetch))
        made = {name for segment in self._segments for name in segment.outputs}
        missing = sorted(self._fetch - made)
        if missing:
            raise InferenceError(f"not computed by any node of the model: {missing}")

    def run(self, feed: Mapping[str, Array], variants: Sequence[Variant], visit: Visitor) -> None:
        """Give ``visit`` every wanted tensor of every variant, one sample at a time, also where nothing changed.

        Args:
            feed: any number of samples by input name.
            variants: what quantises.
            visit: see :data:`Visitor`; per variant and tensor, samples come in their order.

        Raises:
            InferenceError: an input is missing, unknown or has the wrong shape.
        """
        samples, step = self._samples(feed), self._samples_at_once()
        with ThreadPoolExecutor(self._threads) as pool:
            for start in range(0, samples, step):
                stop = min(start + step, samples)
                rows = {name: feed[name][start * shape[0] : stop * shape[0]] for name, shape in self._inputs.items()}
                walk = _Walk(self._segments, self._fetch, rows, stop - start, visit)
                list(pool.map(walk.run, range(len(variants)), variants))

    def _samples(self, feed: Mapping[str, Array]) -> int:
        if set(feed) != set(self._inputs):
            raise InferenceError(f"inputs given: {sorted(feed)}; the model's inputs are {sorted(self._inputs)}")
        counts = {len(feed[name]) // shape[0] for name, shape in self._inputs.items()}
        if len(counts) != 1:
            raise InferenceError(f"inputs hold different numbers of samples: {sorted(counts)}")
        return counts.pop()

    def _samples_at_once(self) -> int:
        shapes = (shape for segment in self._segments for shape, _ in segment.outputs.values())
        per_sample = 4 * sum(int(np.prod(shape)) for shape in shapes)
        return max(1, min(MAX_SAMPLES, MEMORY // max(per_sample, 1)))


class _Walk:
    """The float tensors of some samples, and the walks of variants through what they change."""

    def __init__(
        self,
        segments: Sequence[NodeGroup],
        fetch: Collection[str],
        feed: Mapping[str, Array],
        samples: int,
        visit: Visitor,
    ) -> None:
        self._segments, self._fetch, self._samples, self._visit = segments, fetch, samples, visit
        self._local = local()
        self._float = {name: np.asarray(array) for name, array in feed.items()}
        for segment in segments:
            inputs = {name: self._float[name] for name in segment.inputs}
            self._float.update(segment.run(FLOAT, inputs, self._new_buffers(segment)))

    def run(self, index: int, variant: Variant) -> None:
        """Compute what ``variant``, number ``index``, changes, and show what is wanted."""
        changed: dict[str, Array] = {}
        for segment in self._segments:
            working = variant & segment.calibrations
            if working or not changed.keys().isdisjoint(segment.inputs):
                inputs = {name: changed.get(name, self._float[name]) for name in segment.inputs}
                changed.update(segment.run(working, inputs, self._buffers(segment)))
            for name in segment.outputs:
                if name in self._fetch:
                    self._show(name, index, changed.get(name, self._float[name]))

    def _show(self, name: str, index: int, array: Array) -> None:
        expected = np.split(self._float[name], self._samples)
        for actual, wanted in zip(np.split(array, self._samples), expected, strict=True):
            self._visit(name, index, actual, wanted)

    def _buffers(self, segment: NodeGroup) -> dict[str, Array]:
        """This thread's buffers for the outputs of ``segment``."""
        kept: dict[str, Array] = self._local.__dict__.setdefault("buffers", {})
        if not kept.keys() >= segment.outputs.keys():
            kept.update(self._new_buffers(segment))
        return {name: kept[name] for name in segment.outputs}

    def _new_buffers(self, segment: NodeGroup) -> dict[str, Array]:
        return {
            name: np.empty((shape[0] * self._samples, *shape[1:]), dtype)
            for name, (shape, dtype) in segment.outputs.items()
        }


def switch(model: ir.Model, working: Collection[str]) -> None:
    """Let exactly the ``HzCalibration`` nodes named in ``working`` quantise."""
    for node in calibration_nodes(model):
        node.attributes.add(ir.AttrString("switch", "ON" if node.name in working else "OFF"))


def _cut(model: ir.Model, fetch: Collection[str]) -> Iterator[NodeGroup]:
    """The segments of ``model`` that the tensors ``fetch`` need, in running order."""
    dynamic = dynamic_values(model.graph)
    chains: list[list[ir.Node]] = []
    chain_of: dict[ir.Value, list[ir.Node]] = {}
    for node in model.graph:
        ends = is_calibration(node) and not any(str(value.name) in fetch for value in node.outputs)
        if ends or not any(value in dynamic for value in node.outputs):
            continue
        read = [value for value in node.inputs if value in dynamic]
        chain = chain_of.get(read[0]) if len(read) == 1 and read[0] is not None else None
        if chain is None or is_calibration(node) or not _is_private(read[0], fetch):
            chain = []
            chains.append(chain)
        chain.append(node)
        chain_of.update(dict.fromkeys(node.outputs, chain))
    wanted = set(fetch)
    segments = []
    for chain in reversed(chains):
        outputs = [value for value in chain[-1].outputs if value.name in wanted]
        if outputs:
            segment = _segment(model, chain[0], outputs, dynamic)
            wanted.update(segment.inputs)
            segments.append(segment)
    return reversed(segments)


def dynamic_values(graph: ir.Graph) -> set[ir.Value | None]:
    """The values that depend on the inputs of the graph."""
    found: set[ir.Value | None] = set(graph.inputs)
    for node in graph:
        if any(value in found for value in node.inputs if value is not None):
            found.update(node.outputs)
    return found


def _is_private(value: ir.Value | None, fetch: Collection[str]) -> bool:
    """Whether nothing but one node needs ``value``, which then runs in the segment that computes it."""
    if value is None or len(value.uses()) != 1 or value.is_graph_output() or value.name in fetch:
        return False
    producer = value.producer()
    return producer is not None and len(producer.outputs) == 1


def _segment(
    model: ir.Model, first: ir.Node, outputs: Sequence[ir.Value], dynamic: Collection[ir.Value | None]
) -> NodeGroup:
    inputs = tuple(dict.fromkeys(_source(value) for value in first.inputs if value is not None and value in dynamic))
    graph = ir.convenience.extract(model.graph, inputs, outputs)
    inside = frozenset(str(node.name) for node in graph if is_calibration(node))
    described = {str(value.name): (shape_of(value), _numpy_type(value)) for value in outputs}
    return NodeGroup(graph, _names(inputs), described, inside, model.ir_version)


def _numpy_type(value: ir.Value) -> np.dtype[Any]:
    return np.dtype(np.float32) if value.dtype is None else value.dtype.numpy()


def _source(value: ir.Value) -> ir.Value:
    """``value`` before all ``HzCalibration`` nodes."""
    node = value.producer()
    if node is None or not is_calibration(node) or node.inputs[0] is None:
        return value
    return _source(node.inputs[0])


def _names(values: Iterable[ir.Value]) -> tuple[str, ...]:
    return tuple(str(value.name) for value in values)
