"""Passes run one after the other, and after each the shapes of what it changed are inferred and compared.

So a wrong permutation or axis is found in the pass that wrote it, by its name, and not where a later stage runs the
model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from engine.errors import OptimizeError
from engine.ir import HORIZON_DOMAIN, MARK_MADE, static_shape
from engine.ops.foreign.composite import COMPOSITES, PREPROCESS

MAX_ROUNDS = 100
"""Bound on the rounds of passes; every round that changes something removes or replaces a node for good."""

_MOST_ELEMENTS = 64
"""Largest constant whose values shape inference gets: shapes, axes and pads are shorter."""

_Shape = tuple[int, ...] | None


class CheckedPasses:
    """Runs the passes of one optimisation; remembers which nodes are known to be right."""

    def __init__(self, model: ir.Model) -> None:
        """``model`` itself is right: the frontend has checked it.

        Raises:
            OptimizeError: a node has no name, that of another one, or stands in front of one that it reads.
        """
        self._model = model
        check_order(model, "optimisation")
        check_names(model)
        self._known = {node: _state(node) for node in model.graph}
        self._changes = 0
        self._idle: dict[ir.passes.PassBase, int] = {}
        """By pass that had nothing to do when it ran last: how many changes there had been."""
        self.changed: set[str] = set()
        """Names of the passes that have changed something."""

    def run(self, passes: Sequence[ir.passes.PassBase]) -> list[str]:
        """Run ``passes`` once, in order; the names of those that changed something.

        One that had nothing to do is not run again before another one has changed something; nothing but passes run
        here changes the model meanwhile.

        Raises:
            OptimizeError: a node of the changed model has other shapes than its operator gives.
        """
        changed = []
        for item in passes:
            if self._idle.get(item) == self._changes:
                continue
            if _applied(item, self._model):
                self._changes += 1
                changed.append(type(item).__name__)
                self._check(changed[-1])
            else:
                self._idle[item] = self._changes
        self.changed.update(changed)
        return changed

    def settle(
        self, passes: Sequence[ir.passes.PassBase], end_of_round: Callable[[ir.Model], None] | None = None
    ) -> None:
        """Run ``passes`` until none of them changes anything; after each round, ``end_of_round`` on the model.

        Raises:
            OptimizeError: as :meth:`run`; or they still change something after :data:`MAX_ROUNDS` rounds.
        """
        for _ in range(MAX_ROUNDS):
            changed = self.run(passes)
            if end_of_round is not None:
                end_of_round(self._model)
            if not changed:
                return
        raise did_not_settle(changed)

    def _check(self, name: str) -> None:
        check_order(self._model, f"optimisation pass {name}")
        opset = self._model.opset_imports.get("", 0)
        for node in self._model.graph:
            if node not in self._known:
                node.metadata_props[MARK_MADE] = name
            if self._known.get(node) != _state(node):
                _check_node(node, opset, name)
                self._known[node] = _state(node)


def _applied(item: ir.passes.PassBase, model: ir.Model) -> bool:
    """Run ``item`` with what it requires and ensures; whether it changed something.

    Raises:
        OptimizeError: a condition does not hold.
    """
    try:
        return item(model).modified
    except ir.passes.InvariantError as error:
        raise OptimizeError(f"optimisation pass {type(item).__name__} {error}; a defect of ptqlab") from error


def check_order(model: ir.Model, where: str) -> None:
    """Every node reads inputs, initializers and what nodes before it give; so do the outputs.

    Raises:
        OptimizeError: one does not; ``where``: what the message names.
    """
    graph = model.graph
    known = {id(value) for value in (*graph.inputs, *graph.initializers.values())}
    for node in graph:
        for value in node.inputs:
            if value is not None and id(value) not in known:
                raise OptimizeError(
                    f"{where}: node {node.name} ({node.op_type}) reads {value.name}, which no node before it gives; "
                    "a defect of ptqlab"
                )
        known.update(map(id, node.outputs))
    for value in graph.outputs:
        if id(value) not in known:
            raise OptimizeError(f"{where}: no node gives the output {value.name}; a defect of ptqlab")


def check_names(model: ir.Model) -> None:
    """Every node has a name of its own, as the frontend gives them.

    Raises:
        OptimizeError: one has not.
    """
    names: set[str] = set()
    for node in model.graph:
        name = node.name or ""
        if not name or name in names:
            what = f"the name {name} of another one" if name else "no name"
            raise OptimizeError(f"optimisation requires names: a node {node.op_type} has {what}; a defect of ptqlab")
        names.add(name)


def did_not_settle(changed: Sequence[str]) -> OptimizeError:
    """The error for passes that never finish."""
    names = ", ".join(dict.fromkeys(changed))
    return OptimizeError(f"optimisation: {names} still change the model after {MAX_ROUNDS} rounds; a defect of ptqlab")


def _state(node: ir.Node) -> tuple[object, ...]:
    """What the shapes of ``node`` depend on; attributes and constants by identity, for passes replace them."""
    shapes = [None if value is None else (_dims(value), id(value.const_value)) for value in node.inputs]
    results = [_dims(value) for value in node.outputs]
    return node.op_type, node.domain, shapes, results, list(map(id, node.attributes.values()))


def _dims(value: ir.Value) -> tuple[int | ir.SymbolicDim, ...] | None:
    return None if value.shape is None else value.shape.dims


def _check_node(node: ir.Node, opset: int, name: str) -> None:
    """Compare the shapes of the results of ``node`` with those that its operator gives; add those that are missing.

    Raises:
        OptimizeError: they differ, or the operator does not take such inputs.
    """
    where = f"optimisation pass {name}: node {node.name} ({node.op_type})"
    try:
        inferred = _inferred(node, opset)
    except onnx.shape_inference.InferenceError as error:
        raise OptimizeError(f"{where} cannot compute {_shapes(node.inputs)}: {error}; a defect of ptqlab") from error
    for value, shape in zip(node.outputs, inferred, strict=False):
        own = static_shape(value)
        if own is None and shape is not None:
            value.shape = ir.Shape(shape)
        elif own is not None and shape is not None and own != shape:
            raise OptimizeError(
                f"{where} gives {value.name} of shape {shape} from {_shapes(node.inputs)}, not {own} as the pass says; "
                "a defect of ptqlab"
            )


def _shapes(values: Sequence[ir.Value | None]) -> str:
    return ", ".join(f"{value.name} {static_shape(value)}" for value in values if value is not None)


def _inferred(node: ir.Node, opset: int) -> list[_Shape]:
    """Shapes of the results of ``node``, ``None`` where they do not follow from the inputs."""
    shapes = [None if value is None else static_shape(value) for value in node.inputs]
    if node.domain == HORIZON_DOMAIN:
        keeps = node.op_type in COMPOSITES and node.op_type != PREPROCESS
        return [shapes[0]] if keeps and shapes else []
    has_graphs = any(attr.type is ir.AttributeType.GRAPH for attr in node.attributes.values())
    is_open = any(value is not None and (static_shape(value) is None or value.dtype is None) for value in node.inputs)
    if node.domain not in ("", "ai.onnx") or has_graphs or is_open:
        return []
    schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset)
    types = {str(value.name): _type(value) for value in node.inputs if value is not None}
    found = onnx.shape_inference.infer_node_outputs(
        schema, ir.to_proto(node), types, _data(node), opset_imports=[onnx.helper.make_opsetid("", opset)]
    )
    return [_static(found.get(str(value.name))) for value in node.outputs]


def _type(value: ir.Value) -> onnx.TypeProto:
    return onnx.helper.make_tensor_type_proto(int(value.dtype or 0), static_shape(value))


def _data(node: ir.Node) -> dict[str, onnx.TensorProto]:
    """The short constants that ``node`` reads: shapes, axes, pads."""
    found: dict[str, Any] = {}
    for value in node.inputs:
        tensor = None if value is None else value.const_value
        if value is not None and tensor is not None and tensor.size <= _MOST_ELEMENTS:
            found[str(value.name)] = onnx.numpy_helper.from_array(np.asarray(tensor.numpy()), str(value.name))
    return found


def _static(kind: onnx.TypeProto | None) -> _Shape:
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None
