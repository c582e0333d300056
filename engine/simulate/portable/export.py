"""A quantised model with standard ONNX operators only, for stock ONNX Runtime; the results are the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from onnx import version_converter
from onnx.shape_inference import InferenceError
from onnx_ir.passes.common import RemoveUnusedFunctionsPass, RemoveUnusedNodesPass

from engine.errors import ModelError, UnsupportedError
from engine.floats.softmax.onnx_form import own_softmax
from engine.ir import HORIZON_DOMAIN
from engine.ops.core.float_nodes import given
from engine.ops.core.portable import FUNCTION_DOMAIN, Array, Emitter, SourceNode, SourceTensor
from engine.ops.foreign.custom import is_custom
from engine.ops.registry import OPERATORS, operator, read_attributes
from engine.ops.softmax import normalised_axes
from engine.simulate.portable.functions import FUNCTION_VERSION, own_functions
from engine.simulate.portable.onnx_nodes import in_float32, needs_carrier
from engine.simulate.reference import name_of, node_function, sorted_copy, split_constants
from engine.simulate.tensors import describe, graph_inputs

OPSET = 18
"""Oldest standard operator set that is written; older models are converted to it."""
IR_VERSION = 8
"""Oldest file format with model-local functions."""


def to_standard(model: ir.Model) -> ir.Model:
    """``model`` without operators of domain ``horizon``; inputs, outputs and their names stay.

    Args:
        model: a quantised model of static shapes, made by ptqlab or by the original toolchain.

    Raises:
        ModelError: the model is not quantised, or is malformed.
        UnsupportedError: a node has no translation, e.g. weights that are not constant.
    """
    if not any(node.domain == HORIZON_DOMAIN and node.op_type in OPERATORS for node in model.graph):
        raise ModelError(f"graph {model.graph.name}: it holds no quantised operator; export takes quantised models")
    if custom := [str(node.name) for node in model.graph if is_custom(node)]:
        raise UnsupportedError(f"graph {model.graph.name}: custom operators have no standard form: {', '.join(custom)}")
    standard = _with_newer_opset(sorted_copy(model))
    _Exporter(standard).rewrite()
    _drop_leftovers(standard)
    return standard


class _Exporter:
    """Rewrites a graph in place, node by node, in order."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._known, _ = split_constants(model)
        # What every tensor looks like: it is computed by the reference, from zeros.
        self._arrays: dict[str, Array] = {
            **self._known,
            **{info.name: np.zeros(info.shape, info.dtype) for info in describe(graph_inputs(model))},
        }

    def rewrite(self) -> None:
        graph = self._model.graph
        for node in list(graph):
            results = self._compute(node)
            emit = Emitter(_unique_prefix(node))
            replacements = self._translate(node, results, emit)
            if not replacements:
                continue
            for value in emit.initializers:
                graph.register_initializer(value)
            # A node need not name all outputs that its operator has.
            wanted = replacements[: len(node.outputs)]
            ir.convenience.replace_nodes_and_values(graph, node, [node], emit.nodes, node.outputs, wanted)

    def _compute(self, node: ir.Node) -> list[Array]:
        """What the outputs look like, which foreign files need not declare."""
        names = [name_of(value) for value in node.outputs]
        known = names[0] in self._known
        results = [self._known[name] for name in names] if known else self._probe(node)[: len(names)]
        for value, array in zip(node.outputs, results, strict=True):
            self._arrays[name_of(value)] = array
            value.shape, value.dtype = ir.Shape(array.shape), ir.DataType.from_numpy(array.dtype)
        return results

    def _probe(self, node: ir.Node) -> list[Array]:
        """What the reference gives for zeros."""
        inputs = self._inputs(node)
        if node.domain == HORIZON_DOMAIN:
            inputs = operator(node.op_type).probe(inputs, read_attributes(node))
        return [np.asarray(result) for result in node_function(node, self._model)(inputs)]

    def _translate(self, node: ir.Node, results: Sequence[Array], emit: Emitter) -> Sequence[ir.Value]:
        """What stands for the outputs of ``node``; nothing where it can stay."""
        if node.op_type == "Constant" and node.domain != HORIZON_DOMAIN:
            return ()
        if name_of(node.outputs[0]) in self._known or not any(result.size for result in results):
            return [emit.op("Identity", result) for result in results]
        if node.domain == HORIZON_DOMAIN:
            call = SourceNode(node, read_attributes(node), tuple(map(self._operand, node.inputs)))
            return operator(node.op_type).portable(call, emit)
        inputs = self._inputs(node)
        if needs_carrier(node, inputs):
            return in_float32(node, inputs, results, emit)
        if node.op_type == "Softmax" and results[0].dtype == np.float32:
            (axis,) = normalised_axes(node, results[0].ndim, OPSET)
            return (own_softmax(given(node, 0), results[0].shape, axis, emit),)
        return ()

    def _inputs(self, node: ir.Node) -> list[Array | None]:
        return [None if value is None else self._arrays[name_of(value)] for value in node.inputs]

    def _operand(self, value: ir.Value | None) -> SourceTensor | None:
        if value is None:
            return None
        array = self._arrays[name_of(value)]
        return SourceTensor(value, array.shape, array.dtype, self._known.get(name_of(value)))


def _with_newer_opset(model: ir.Model) -> ir.Model:
    """``model`` in operator set :data:`OPSET` or newer, with the functions that translations call.

    Raises:
        UnsupportedError: a standard node has no form in the newer operator set.
    """
    # "ai.onnx" is another name of the standard domain; a model without standard nodes need not name it at all.
    imports = model.opset_imports
    imports.setdefault("", imports.pop("ai.onnx", OPSET))
    if imports[""] < OPSET:
        try:
            model = ir.from_proto(version_converter.convert_version(ir.to_proto(model), OPSET))
        except (version_converter.ConvertError, InferenceError, RuntimeError) as error:
            raise UnsupportedError(
                f"graph {model.graph.name}: operator set {imports['']} cannot be raised to {OPSET}: {error}"
            ) from error
    model.ir_version = max(model.ir_version, IR_VERSION)
    model.opset_imports[FUNCTION_DOMAIN] = FUNCTION_VERSION
    for function in own_functions(model.opset_imports[""]):
        model.functions[function.identifier()] = function
    return model


def _drop_leftovers(model: ir.Model) -> None:
    """Remove what nothing needs any more: constants, functions, the quantised domain."""
    graph = model.graph
    for value in [value for value in graph.inputs if value.name in graph.initializers]:
        graph.inputs.remove(value)
    RemoveUnusedNodesPass()(model)
    RemoveUnusedFunctionsPass()(model)  # type: ignore[no-untyped-call]  # its __init__ has none
    model.opset_imports.pop(HORIZON_DOMAIN, None)


def _unique_prefix(node: ir.Node) -> str:
    """A name that no other node's output has."""
    return f"{name_of(node.outputs[0])}/standard"
