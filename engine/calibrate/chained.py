"""Float models with custom operators: ONNX Runtime for what stands between them, Python for themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedOpsetsPass

from engine.ir import constant_of
from engine.ops.custom import CustomNode, is_custom

Array = NDArray[Any]


class Runner(Protocol):
    """What runs a graph: a session of ONNX Runtime, or several with custom operators between them."""

    def run(self, output_names: None, feed: Mapping[str, Array]) -> list[Array]:
        """The graph's outputs, in order."""


@dataclass(frozen=True)
class _Part:
    """A piece of the graph that one session runs; its tensors by name."""

    runner: Runner
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def compute(self, values: dict[str, Array]) -> None:
        """Put the outputs into ``values``."""
        results = self.runner.run(None, {name: values[name] for name in self.inputs})
        values.update(zip(self.outputs, results, strict=True))


@dataclass(frozen=True)
class _Call:
    """A custom node; tensors by name, None where an input is omitted."""

    node: CustomNode
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]

    def compute(self, values: dict[str, Array]) -> None:
        """Put the outputs into ``values``."""
        given = [None if name is None else values.get(name, self.constants.get(name)) for name in self.inputs]
        values.update(zip(self.outputs, self.node(given), strict=True))


class ChainedRunner:
    """Runs a graph with custom operators as parts: the n-th holds the nodes behind n custom operators.

    Args:
        model: standard and custom operators, static shapes; not changed.
        open_part: makes the runner of a model of standard operators.

    Raises:
        UnsupportedError: a custom operator is not registered.
        ModelError: an implementation does not fit its node.
    """

    def __init__(self, model: ir.Model, open_part: Callable[[ir.Model], Runner]) -> None:
        model = model.clone()
        model.graph.sort()
        depths = _depths(model.graph)
        self._outputs = [str(value.name) for value in model.graph.outputs]
        self._steps: list[_Part | _Call] = []
        for depth in range(max(depths.values(), default=0) + 1):
            part = _part(model, depths, depth, open_part)
            self._steps += [] if part is None else [part]
            self._steps += [
                _call(node) for node in model.graph if is_custom(node) and depths.get(node.outputs[0], 0) == depth + 1
            ]

    def run(self, output_names: None, feed: Mapping[str, Array]) -> list[Array]:
        """The graph's outputs, in order.

        Raises:
            ModelError: a custom operator fails.
        """
        values = dict(feed)
        for step in self._steps:
            step.compute(values)
        return [values[name] for name in self._outputs]


def _depths(graph: ir.Graph) -> dict[ir.Value, int]:
    """How many custom operators stand before each tensor, on the longest way; what no input changes is left out."""
    depths = dict.fromkeys((value for value in graph.inputs if not value.is_initializer()), 0)
    for node in graph:
        before = [depths[value] for value in node.inputs if value is not None and value in depths]
        if before or is_custom(node):
            depths.update(dict.fromkeys(node.outputs, max(before, default=0) + is_custom(node)))
    return depths


def _part(
    model: ir.Model, depths: Mapping[ir.Value, int], depth: int, open_part: Callable[[ir.Model], Runner]
) -> _Part | None:
    """The standard nodes of one depth; None where there are none that anything outside needs.

    Constants are no borders: every part has its own copy of those that it reads.
    """

    def inside(node: ir.Node | None) -> bool:
        return node is not None and not is_custom(node) and depths.get(node.outputs[0], depth) == depth

    def is_wanted(value: ir.Value) -> bool:
        readers = [usage.node for usage in value.uses()]
        if value in depths:
            return value.is_graph_output() or not all(map(inside, readers))
        return depth == 0 and (value.is_graph_output() or (constant_of(value) is None and any(map(is_custom, readers))))

    wanted = [value for node in model.graph if inside(node) for value in node.outputs if is_wanted(value)]
    if not wanted:
        return None
    borders = [value for value, at in depths.items() if at <= depth and not inside(value.producer())]
    part = ir.Model(ir.convenience.extract(model.graph, borders, wanted), ir_version=model.ir_version)
    part.graph.inputs[:] = [value for value in part.graph.inputs if value.uses()]
    RemoveUnusedOpsetsPass()(part)
    inputs, outputs = (tuple(str(value.name) for value in ends) for ends in (part.graph.inputs, part.graph.outputs))
    return _Part(open_part(part), inputs, outputs)


def _call(node: ir.Node) -> _Call:
    names = [None if value is None else str(value.name) for value in node.inputs]
    constants = {
        str(value.name): array
        for value in node.inputs
        if value is not None and (array := constant_of(value)) is not None
    }
    return _Call(CustomNode(node), tuple(names), tuple(str(value.name) for value in node.outputs), constants)
