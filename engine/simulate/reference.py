"""The reference simulator: every node of a quantised graph by its definition, one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError, UnsupportedError
from engine.floats.own_arithmetic import is_float_composite, on_arrays
from engine.ir import HORIZON_DOMAIN, constant_of
from engine.ops.foreign.composite import expand_composites, reads_integers
from engine.ops.foreign.custom import CustomNode, is_custom
from engine.ops.registry import OPERATORS, operator, read_attributes
from engine.simulate.tensors import check_feed, check_outputs, describe, graph_inputs, join_samples, split_samples

Array = NDArray[Any]
NodeFunction = Callable[[Sequence[Array | None]], tuple[Array, ...]]


STANDARD_DOMAINS = ("", "ai.onnx")
"""Names of ONNX's own domain."""
MISFITS = (ValueError, LookupError, TypeError, ArithmeticError, RuntimeError)
"""What numpy and ONNX's reference evaluator raise for arrays and attributes that do not fit together."""


@dataclass(frozen=True)
class Step:
    """One node: what it reads, what it writes, what it computes on one sample."""

    node: ir.Node
    function: NodeFunction


class ReferenceSimulator:
    """Walks a quantised graph in topological order; the definition that the fast simulator is held to."""

    def __init__(self, model: ir.Model) -> None:
        model = sorted_copy(model)
        self.inputs = describe(graph_inputs(model))
        self.outputs = describe(model.graph.outputs)
        self._constants, nodes = split_constants(model)
        self._steps = [Step(node, node_function(node, model)) for node in nodes]

    def run(self, feed: Mapping[str, Array], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, for a feed of any number of samples, which are computed one by one.

        Raises:
            InferenceError: the feed does not fit the model.
        """
        names = check_outputs(output_names, self.outputs)
        samples = range(check_feed(feed, self.inputs))
        return join_samples([self._one(split_samples(feed, self.inputs, i), names) for i in samples], names)

    def _one(self, sample: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
        values = {**self._constants, **sample}
        for step in self._steps:
            inputs = [None if value is None else values[name_of(value)] for value in step.node.inputs]
            for value, array in zip(step.node.outputs, step.function(inputs), strict=False):
                values[name_of(value)] = array
        return {name: values[name] for name in names}


def node_function(node: ir.Node, model: ir.Model) -> NodeFunction:
    """What ``node`` computes on one sample; it raises ModelError for inputs or attributes that do not fit together.

    Raises:
        UnsupportedError: the node belongs to neither ONNX nor the quantised operators, or is a custom operator that is
            not registered.
        ModelError: an attribute is missing or has the wrong kind.
    """
    if is_float_composite(node):
        function: NodeFunction = partial(_of_composite, node)
    elif node.domain == HORIZON_DOMAIN:
        function = partial(operator(node.op_type).reference, attributes=read_attributes(node))
    elif node.domain in STANDARD_DOMAINS:
        from engine.floats.standard import StandardNode  # needs ONNX Runtime, which most quantised graphs do not

        function = StandardNode(node, dict(model.opset_imports))
    elif is_custom(node):
        function = CustomNode(node)
    else:
        raise UnsupportedError(f"node {node.name}: operator {node.domain}::{node.op_type} is not known")
    return partial(_compute, node, function)


def _compute(node: ir.Node, function: NodeFunction, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    try:
        if any(array is not None and array.dtype.kind == "c" for array in inputs):
            raise TypeError("complex numbers are no input of any operator")
        with np.errstate(divide="raise", over="ignore", invalid="ignore"):  # infinities and NaN are results
            return function(inputs)
    except MISFITS as error:
        raise ModelError(f"node {node.name} ({node.op_type}) cannot be computed: {error}") from error


def _of_composite(node: ir.Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    (source,) = inputs
    function = None if source is None or source.dtype != np.float32 else on_arrays(node, source.shape)
    if source is None or function is None:
        raise ModelError(f"node {node.name} ({node.op_type}) reads {_described(source)}; it takes float32")
    return (function(source),)


def _described(array: Array | None) -> str:
    return "nothing" if array is None else f"{array.dtype} of shape {array.shape}"


def sorted_copy(model: ir.Model) -> ir.Model:
    """``model`` with every node after what it reads; the given one is left alone.

    Composites that the CPU computes in float are replaced by the nodes that they stand for, but where the original's
    runtime computes them otherwise (:func:`engine.floats.own_arithmetic.is_float_composite`).

    Raises:
        ModelError: the graph has a cycle, or a tensor that nothing writes.
    """
    if not _in_order(model.graph):
        model = ir.from_proto(ir.to_proto(model))  # a clone would want what nodes read to be there already
        try:
            model.graph.sort()
        except ValueError as error:
            raise ModelError(f"graph {model.graph.name}: its nodes cannot be ordered: they form a cycle") from error
    return expand_composites(model, keep=_is_kept)


def _is_kept(node: ir.Node) -> bool:
    return is_float_composite(node) or (node.op_type in OPERATORS and reads_integers(node))


def _in_order(graph: ir.Graph) -> bool:
    """Whether every node comes after what it reads.

    Raises:
        ModelError: nothing writes a tensor that a node or the user reads, or a node writes none.
    """
    if idle := [str(node.name) for node in graph if not node.outputs]:
        raise ModelError(f"nodes without outputs: {', '.join(idle)}")
    ready = {name_of(value) for value in (*graph.inputs, *graph.initializers.values())}
    written = ready.union(name_of(value) for node in graph for value in node.outputs)
    ordered = True
    for node in graph:
        for name in (name_of(value) for value in node.inputs if value is not None):
            if name not in written:
                raise ModelError(f"node {node.name} ({node.op_type}) reads {name}, which nothing writes")
            ordered &= name in ready
        ready.update(map(name_of, node.outputs))
    if lacking := {name_of(value) for value in graph.outputs} - written:
        raise ModelError(f"graph outputs that nothing writes: {', '.join(sorted(lacking))}")
    return ordered


def split_constants(model: ir.Model) -> tuple[dict[str, Array], list[ir.Node]]:
    """The values that no input changes, by name, and the nodes that are left to compute, in graph order."""
    known = {
        name_of(value): array
        for value in model.graph.initializers.values()
        if (array := constant_of(value)) is not None
    }
    remaining = []
    for node in model.graph:
        array = constant_of(node.outputs[0])
        if array is not None:
            known[name_of(node.outputs[0])] = array
        elif all(value is None or name_of(value) in known for value in node.inputs):
            inputs = [None if value is None else known[name_of(value)] for value in node.inputs]
            known.update(zip(map(name_of, node.outputs), node_function(node, model)(inputs), strict=False))
        else:
            remaining.append(node)
    return known, remaining


def name_of(value: ir.Value) -> str:
    """Name of a graph value; a loaded graph has no unnamed ones, an omitted output is ''."""
    return value.name or ""
