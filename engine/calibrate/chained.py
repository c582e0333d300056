"""Float models of which Python computes some nodes, and ONNX Runtime what stands between them.

Such nodes are custom operators, and what :mod:`engine.calibrate.depthwise` computes faster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedOpsetsPass

from engine.calibrate.depthwise import DepthwiseNode, is_depthwise
from engine.ir import constant_of, shape_of
from engine.ops.custom import CustomNode, is_custom

if TYPE_CHECKING:
    import onnxruntime as ort

Array = NDArray[Any]
Spec = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and type of an array."""


def run_bound(session: ort.InferenceSession, feed: Mapping[str, Array], buffers: Mapping[str, Array]) -> None:
    """Run ``session`` and have it write its outputs into ``buffers``: C-contiguous arrays, one for every output."""
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for name, array in buffers.items():
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    session.run_with_iobinding(binding)


class _Step(Protocol):
    """A piece of the graph; its tensors by name."""

    @property
    def outputs(self) -> Collection[str]:
        """What it computes."""

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """Put the outputs into ``values``, those that ``room`` has an array for into that array if possible."""


@dataclass(frozen=True)
class _Part:
    """What one session runs.

    Attributes:
        outputs: their shapes and types, where these are known.
    """

    session: ort.InferenceSession
    inputs: tuple[str, ...]
    outputs: Mapping[str, Spec | None]

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """See :class:`_Step`."""
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
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """See :class:`_Step`; custom operators allocate what they return."""
        given = [None if name is None else values.get(name, self.constants.get(name)) for name in self.inputs]
        values.update(zip(self.outputs, self.node(given), strict=True))


@dataclass(frozen=True)
class _Depthwise:
    """A depthwise convolution."""

    node: DepthwiseNode
    source: str
    result: str
    shape: tuple[int, ...]

    @property
    def outputs(self) -> Collection[str]:
        """See :class:`_Step`."""
        return (self.result,)

    def compute(self, values: dict[str, Array], room: Mapping[str, Array]) -> None:
        """See :class:`_Step`."""
        result = room[self.result] if self.result in room else np.empty(self.shape, np.float32)
        self.node(values[self.source], result)
        values[self.result] = result


class ChainedRunner:
    """Runs a graph with nodes that Python computes as parts: the n-th holds the nodes behind n such nodes.

    Several threads may run one object.

    Args:
        model: standard operators, custom ones and extracted convolutions; static shapes; not changed.
        open_part: makes the session of a model of standard operators.

    Raises:
        UnsupportedError: a custom operator is not registered.
        ModelError: an implementation does not fit its node.
    """

    def __init__(self, model: ir.Model, open_part: Callable[[ir.Model], ort.InferenceSession]) -> None:
        model = model.clone()
        model.graph.sort()
        depths = _depths(model.graph)
        self._outputs = [str(value.name) for value in model.graph.outputs]
        self._steps: list[_Step] = []
        for depth in range(max(depths.values(), default=0) + 1):
            part = _part(model, depths, depth, open_part)
            self._steps += [] if part is None else [part]
            self._steps += [
                _apart(node) for node in model.graph if _is_apart(node) and depths.get(node.outputs[0], 0) == depth + 1
            ]
        self._borders = _borders(self._steps, self._outputs)
        self._spare: list[dict[str, Array]] = []

    def run(self, output_names: None, feed: Mapping[str, Array]) -> list[Array]:
        """The graph's outputs, in order.

        Raises:
            ModelError: a custom operator fails.
        """
        values = self._compute(feed, {})
        return [values[name] for name in self._outputs]

    def run_into(
        self, feed: Mapping[str, Array], buffers: Mapping[str, Array], see: Callable[[str, Array], None] | None = None
    ) -> None:
        """As :meth:`run`, the outputs written into ``buffers``: C-contiguous arrays, one for every output.

        Args:
            feed: arrays by input name.
            buffers: arrays by output name.
            see: called with name and array of every output of a step as soon as it is there.
        """
        values = self._compute(feed, buffers, see)
        for name, buffer in buffers.items():
            if values[name] is not buffer:
                buffer[...] = values[name]

    def _compute(
        self,
        feed: Mapping[str, Array],
        buffers: Mapping[str, Array],
        see: Callable[[str, Array], None] | None = None,
    ) -> dict[str, Array]:
        """All tensors on the borders of the steps; those that are no outputs live until the next run only."""
        values = dict(feed)
        with self._borrowed() as spare:
            room = {**spare, **buffers}
            for step in self._steps:
                step.compute(values, room)
                if see is not None:
                    for name in buffers.keys() & set(step.outputs):
                        see(name, values[name])
        return values

    @contextmanager
    def _borrowed(self) -> Iterator[dict[str, Array]]:
        """Room for what steps hand to each other, for one run at a time."""
        try:
            room = self._spare.pop()
        except IndexError:
            room = {name: np.empty(*spec) for name, spec in self._borders.items()}
        yield room
        self._spare.append(room)


def _is_apart(node: ir.Node) -> bool:
    return is_custom(node) or is_depthwise(node)


def _apart(node: ir.Node) -> _Step:
    if is_custom(node):
        return _call(node)
    source, result = (str(value.name) for value in (node.inputs[0], node.outputs[0]) if value is not None)
    return _Depthwise(DepthwiseNode(node), source, result, shape_of(node.outputs[0]))


def _borders(steps: Sequence[_Step], outputs: Sequence[str]) -> dict[str, Spec]:
    """Shape and type of what steps hand to each other, where it is known."""
    found: dict[str, Spec] = {}
    for step in steps:
        if isinstance(step, _Part):
            found |= {name: spec for name, spec in step.outputs.items() if spec is not None}
        elif isinstance(step, _Depthwise):
            found[step.result] = step.shape, np.dtype(np.float32)
    return {name: spec for name, spec in found.items() if name not in outputs}


def _depths(graph: ir.Graph) -> dict[ir.Value, int]:
    """How many nodes of Python stand before each tensor, on the longest way; what no input changes is left out."""
    depths = dict.fromkeys((value for value in graph.inputs if not value.is_initializer()), 0)
    for node in graph:
        before = [depths[value] for value in node.inputs if value is not None and value in depths]
        if before or _is_apart(node):
            depths.update(dict.fromkeys(node.outputs, max(before, default=0) + _is_apart(node)))
    return depths


def _part(
    model: ir.Model, depths: Mapping[ir.Value, int], depth: int, open_part: Callable[[ir.Model], ort.InferenceSession]
) -> _Part | None:
    """The standard nodes of one depth; None where there are none that anything outside needs.

    Constants are no borders: every part has its own copy of those that it reads.
    """

    def inside(node: ir.Node | None) -> bool:
        return node is not None and not _is_apart(node) and depths.get(node.outputs[0], depth) == depth

    def is_wanted(value: ir.Value) -> bool:
        readers = [usage.node for usage in value.uses()]
        if value in depths:
            return value.is_graph_output() or not all(map(inside, readers))
        return depth == 0 and (value.is_graph_output() or (constant_of(value) is None and any(map(_is_apart, readers))))

    wanted = [value for node in model.graph if inside(node) for value in node.outputs if is_wanted(value)]
    if not wanted:
        return None
    borders = [value for value, at in depths.items() if at <= depth and not inside(value.producer())]
    part = ir.Model(ir.convenience.extract(model.graph, borders, wanted), ir_version=model.ir_version)
    part.graph.inputs[:] = [value for value in part.graph.inputs if value.uses()]
    RemoveUnusedOpsetsPass()(part)
    inputs = tuple(str(value.name) for value in part.graph.inputs)
    return _Part(open_part(part), inputs, {str(value.name): _spec(value) for value in part.graph.outputs})


def _spec(value: ir.Value) -> Spec | None:
    """Shape and type of an array for ``value``; None where they are not known."""
    if value.dtype is None or value.shape is None or not value.shape.is_static():
        return None
    return shape_of(value), value.dtype.numpy()


def _call(node: ir.Node) -> _Call:
    names = [None if value is None else str(value.name) for value in node.inputs]
    constants = {
        str(value.name): array
        for value in node.inputs
        if value is not None and (array := constant_of(value)) is not None
    }
    return _Call(CustomNode(node), tuple(names), tuple(str(value.name) for value in node.outputs), constants)
