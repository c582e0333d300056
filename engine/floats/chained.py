"""Float models of which Python computes some nodes, and ONNX Runtime what stands between them.

Such nodes are custom operators, what :mod:`engine.floats.depthwise` computes faster, and what
:mod:`engine.floats.own_arithmetic` computes to the original's last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from engine.alignment import aligned
from engine.floats.depthwise import DepthwiseNode, is_depthwise
from engine.floats.own_arithmetic import computed, has_own_arithmetic
from engine.ir import constant_of, shape_of, static_shape
from engine.ops.foreign.custom import CustomNode, is_custom

if TYPE_CHECKING:
    import onnxruntime as ort

Array = NDArray[Any]
Spec = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and type of an array."""
_LINE = 64
"""Bytes of a cache line."""


def run_bound(session: ort.InferenceSession, feed: Mapping[str, Array], buffers: Mapping[str, Array]) -> None:
    """Run ``session`` and have it write its outputs into ``buffers``.

    Args:
        session: of ONNX Runtime, on the CPU.
        feed: inputs by name, with the shapes and types of the session.
        buffers: C-contiguous arrays by name, one for every output, of its shape and type; overwritten.
    """
    binding = session.io_binding()
    feed = {name: aligned(array) for name, array in feed.items()}
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for name, array in buffers.items():
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    session.run_with_iobinding(binding)


class GraphStep(Protocol):
    """A piece of the graph; its tensors by name."""

    @property
    def inputs(self) -> Collection[str | None]:
        """What it reads."""

    @property
    def outputs(self) -> Mapping[str, Spec | None]:
        """What it computes; shapes and types where they are known."""

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """Put the outputs into ``values``, those that ``room`` has an array for into that array if possible."""


@dataclass(frozen=True)
class _Part:
    """What one session runs."""

    session: ort.InferenceSession
    inputs: tuple[str, ...]
    outputs: Mapping[str, Spec | None]

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """See :class:`GraphStep`."""
        feed = {name: values[name] for name in self.inputs}
        known = {name: spec for name, spec in self.outputs.items() if spec is not None}
        if len(known) < len(self.outputs):
            values.update(zip(self.outputs, self.session.run(None, feed), strict=True))
            return
        results = {name: room[name] if name in room else np.empty(*spec) for name, spec in known.items()}
        run_bound(self.session, feed, results)
        values.update(results)


@dataclass(frozen=True)
class _Call:
    """A custom node; tensors by name, None where an input is omitted."""

    node: CustomNode
    inputs: tuple[str | None, ...]
    outputs: Mapping[str, None]
    constants: Mapping[str, Array]

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """See :class:`GraphStep`; custom operators allocate what they return."""
        given = [None if name is None else values.get(name, self.constants.get(name)) for name in self.inputs]
        values.update(zip(self.outputs, self.node(given), strict=True))


@dataclass(frozen=True)
class _Computed:
    """A node that ptqlab's own code computes."""

    compute_into: Callable[[Array, Array], None]
    inputs: tuple[str]
    outputs: Mapping[str, Spec]

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """See :class:`GraphStep`."""
        ((name, spec),) = self.outputs.items()
        values[name] = room[name] if name in room else np.empty(*spec)
        self.compute_into(values[self.inputs[0]], values[name])


class ChainedRunner:
    """Runs a graph with nodes that Python computes as parts: the n-th holds the nodes behind n such nodes.

    Several threads may run one object.

    Args:
        model: standard operators, custom ones and extracted convolutions; static shapes; its nodes are sorted in place.
        open_part: makes the session of a serialised model of standard operators.

    Raises:
        UnsupportedError: a custom operator is not registered.
        ModelError: an implementation does not fit its node.
    """

    def __init__(self, model: ir.Model, open_part: Callable[[bytes], ort.InferenceSession]) -> None:
        model.graph.sort()
        cut = Cut(model.graph, is_apart)
        self._outputs = {str(value.name): None for value in model.graph.outputs}
        self._steps: list[GraphStep] = []
        for depth in range(cut.parts):
            part = cut.part(depth)
            if part is not None:
                self._steps.append(opened(part, model.ir_version, open_part))
            self._steps += map(apart, cut.apart[depth])
        self._layout = StepLayout(self._steps)

    def run(self, output_names: None, feed: Mapping[str, Array]) -> list[Array]:
        """The graph's outputs, in order.

        Raises:
            ModelError: a custom operator fails.
        """
        with self._layout.room() as room:
            values = self._compute(feed, {name: array for name, array in room.items() if name not in self._outputs})
        return [values[name] for name in self._outputs]

    def run_into(self, feed: Mapping[str, Array], buffers: Mapping[str, Array]) -> None:
        """As :meth:`run`, the outputs written into ``buffers``: C-contiguous arrays, one for every output."""
        with self._layout.room() as room:
            values = self._compute(feed, room | dict(buffers))
        for name, buffer in buffers.items():
            if values[name] is not buffer:
                buffer[...] = values[name]

    def visit(self, feed: Mapping[str, Array], see: Callable[[str, Array], None]) -> None:
        """As :meth:`run`, but every output is shown as soon as it is there; its array does not outlast that."""
        with self._layout.room() as room:
            self._compute(feed, room, see)

    def _compute(
        self, feed: Mapping[str, Array], room: Mapping[str, Array], see: Callable[[str, Array], None] | None = None
    ) -> Mapping[str, Array]:
        values = dict(feed)
        for step in self._steps:
            step.compute(values, room)
            if see is not None:
                for name in self._outputs.keys() & set(step.outputs):
                    see(name, values[name])
        return values


class StepLayout:
    """Where the results of steps lie in memory: results that are no longer needed make room for others.

    A small memory stays in the processor's caches, which float passes gain a third from.
    """

    def __init__(self, steps: Sequence[GraphStep]) -> None:
        last = {name: index for index, step in enumerate(steps) for name in step.inputs if name is not None}
        lives = {
            name: (spec, index, last.get(name, index))
            for index, step in enumerate(steps)
            for name, spec in step.outputs.items()
            if spec is not None
        }
        self._spare: list[dict[str, Array]] = []
        self._placed: dict[str, tuple[Spec, int]] = {}
        taken: list[set[tuple[int, int]]] = [set() for _ in steps]  # by step, so that only neighbours are compared
        self._size = 0
        for name, (spec, first, end) in sorted(lives.items(), key=lambda item: -_bytes(item[1][0])):
            start, size = 0, _bytes(spec)
            for other_start, other_stop in sorted(set().union(*taken[first : end + 1])):
                if start + size <= other_start:
                    break
                start = max(start, other_stop)
            for step in taken[first : end + 1]:
                step.add((start, start + size))
            self._placed[name] = spec, start
            self._size = max(self._size, start + size)

    @contextmanager
    def room(self) -> Iterator[dict[str, Array]]:
        """Arrays by name for one run, in memory that no other run uses meanwhile."""
        try:
            room = self._spare.pop()
        except IndexError:
            room = self._allocated()
        yield room
        self._spare.append(room)

    def _allocated(self) -> dict[str, Array]:
        memory = np.empty(self._size, np.uint8)
        return {
            name: memory[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
            for name, ((shape, dtype), start) in self._placed.items()
        }


def _bytes(spec: Spec) -> int:
    """Size of an array, up to the next cache line."""
    shape, dtype = spec
    return -(-math.prod(shape) * dtype.itemsize // _LINE) * _LINE


def is_apart(node: ir.Node) -> bool:
    """Whether Python computes ``node``."""
    return is_custom(node) or is_depthwise(node) or has_own_arithmetic(node)


def apart(node: ir.Node) -> GraphStep:
    """What computes ``node``, for which :func:`is_apart` holds."""
    if is_custom(node):
        return _call(node)
    source, result = (str(value.name) for value in (node.inputs[0], node.outputs[0]) if value is not None)
    compute = DepthwiseNode(node) if is_depthwise(node) else computed(node)
    return _Computed(compute, (source,), {result: (shape_of(node.outputs[0]), np.dtype(np.float32))})


class Cut:
    """A graph cut at the nodes that Python computes: the n-th part holds the standard nodes behind n such nodes.

    What no input changes belongs to no part: every part has its own copy of what it reads of that.

    Args:
        graph: sorted; not changed.
        is_apart: which nodes Python computes.

    Attributes:
        parts: how many there are, empty ones included.
        apart: the nodes that Python computes behind each part.
    """

    def __init__(self, graph: ir.Graph, is_apart: Callable[[ir.Node], bool]) -> None:
        self._graph = graph
        self._order = {node: index for index, node in enumerate(graph)}
        self._apart = {node for node in graph if is_apart(node)}
        self._depths = self._count()
        self.parts = max(self._depths.values(), default=0) + 1
        self.apart: list[list[ir.Node]] = [[] for _ in range(self.parts)]
        self._nodes: list[list[ir.Node]] = [[] for _ in range(self.parts)]
        for node in graph:
            depth = self._depths.get(node.outputs[0], 0)
            if node in self._apart:
                self.apart[depth - 1].append(node)
            else:
                self._nodes[depth].append(node)

    def pieces(self, depth: int) -> list[ir.GraphView]:
        """One part in pieces that do not read each other's results."""
        groups: dict[ir.Node, list[ir.Node]] = {}
        for node in self._nodes[depth]:
            groups[node] = [node]
            for value in node.inputs:
                if value is not None and value in self._depths and value.producer() in groups:
                    _join(groups, node, value.producer())
        distinct = {id(group): sorted(group, key=self._order.__getitem__) for group in groups.values()}
        return [piece for group in distinct.values() if (piece := self.part(depth, group)) is not None]

    def part(self, depth: int, nodes: Sequence[ir.Node] | None = None) -> ir.GraphView | None:
        """The nodes of one part, or ``nodes`` of it alone; None where there are none that anything outside needs."""
        chosen = self._nodes[depth] if nodes is None else nodes
        wanted = [value for node in chosen for value in node.outputs if self._is_wanted(value, node, depth)]
        if not wanted:
            return None
        found: dict[ir.Node, None] = {}
        borders: dict[ir.Value, None] = {}
        initializers: dict[ir.Value, None] = {}
        waiting = [value.producer() for value in wanted]
        while waiting:
            node = waiting.pop()
            if node is None or node in found:
                continue
            found[node] = None
            for value in node.inputs:
                if value is None:
                    continue
                if value in self._depths and not self._is_inside(value.producer(), depth):
                    borders[value] = None
                elif value.is_initializer():
                    initializers[value] = None
                else:
                    waiting.append(value.producer())
        used = {"", *(node.domain for node in found)}
        return ir.GraphView(
            sorted(borders, key=lambda value: str(value.name)),
            wanted,
            nodes=sorted(found, key=self._order.__getitem__),
            initializers=tuple(initializers),
            opset_imports={key: version for key, version in self._graph.opset_imports.items() if key in used},
            name=self._graph.name,
        )

    def _count(self) -> dict[ir.Value, int]:
        """How many nodes of Python stand before each tensor that an input changes, on the longest way."""
        depths = dict.fromkeys((value for value in self._graph.inputs if not value.is_initializer()), 0)
        for node in self._graph:
            before = [depths[value] for value in node.inputs if value is not None and value in depths]
            if before or node in self._apart:
                depths.update(dict.fromkeys(node.outputs, max(before, default=0) + (node in self._apart)))
        return depths

    def _is_inside(self, node: ir.Node | None, depth: int) -> bool:
        return node is not None and node not in self._apart and self._depths.get(node.outputs[0], depth) == depth

    def _is_wanted(self, value: ir.Value, node: ir.Node, depth: int) -> bool:
        """Whether the part is to give ``value``, which its ``node`` computes."""
        readers = [usage.node for usage in value.uses()]
        if node.outputs[0] in self._depths:
            return value.is_graph_output() or not all(self._is_inside(reader, depth) for reader in readers)
        is_needed = constant_of(value) is None and any(reader in self._apart for reader in readers)
        return value.is_graph_output() or is_needed


def _join(groups: dict[ir.Node, list[ir.Node]], first: ir.Node, second: ir.Node | None) -> None:
    """Put the groups of two nodes together: the smaller one's nodes move."""
    if second is None or groups[first] is groups[second]:
        return
    small, large = sorted((groups[first], groups[second]), key=len)
    large += small
    groups.update(dict.fromkeys(small, large))


def opened(part: ir.GraphView, ir_version: int, open_part: Callable[[bytes], ort.InferenceSession]) -> GraphStep:
    """What computes ``part``, in a session that ``open_part`` makes of a serialised model."""
    inputs = tuple(str(value.name) for value in part.inputs)
    outputs = {str(value.name): _spec(value) for value in part.outputs}
    return _Part(open_part(_serialized(part, ir_version)), inputs, outputs)


def _serialized(part: ir.GraphView, ir_version: int) -> bytes:
    """A model of ``part``."""
    opsets = [onnx.helper.make_opsetid(key, version) for key, version in part.opset_imports.items()]
    graph = ir.serde.serialize_graph(part)  # type: ignore[arg-type]  # it takes views; its protocol says more than needed
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return bytes(model.SerializeToString(deterministic=True))


def _spec(value: ir.Value) -> Spec | None:
    """Shape and type of an array for ``value``; None where they are not known."""
    shape = static_shape(value)
    return None if shape is None or value.dtype is None else (shape, value.dtype.numpy())


def _call(node: ir.Node) -> _Call:
    names = [None if value is None else str(value.name) for value in node.inputs]
    constants = {
        str(value.name): array
        for value in node.inputs
        if value is not None and (array := constant_of(value)) is not None
    }
    return _Call(CustomNode(node), tuple(names), {str(value.name): None for value in node.outputs}, constants)
