"""Shapes of all tensors of a model: the checker's inference, around custom operators, and by computing constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx_ir as ir

from engine.errors import ModelError, UnsupportedError
from engine.frontend.folding import folded
from engine.frontend.outputs import cut
from engine.ir import shape_of, static_shape
from engine.limits import beyond, limit
from engine.ops.foreign import custom

_MESSAGE_LIMIT = 400

_WEIGHT = 1024
"""Elements above which an initializer is a weight, and not a shape, axes or the like."""

_SHAPE_FOLDING_LIMIT = 1 << 20
"""Largest constant, in elements, that is computed merely to learn a shape."""

_MOST_LIST_ELEMENTS = 1 << 21
"""Elements of the lists of a model up to which the checker's inference follows their values."""


def brief(error: Exception) -> str:
    """The beginning of a message: some carry the whole model."""
    text = " ".join(str(error).split())
    return text if len(text) <= _MESSAGE_LIMIT else f"{text[:_MESSAGE_LIMIT]} …"


def infer_shapes(model: ir.Model, path: Path, ends: Sequence[str] = ()) -> ir.Model:
    """Run the checker and shape inference; ``model`` with a shape on every tensor that it can be known for.

    Where ``ends`` names nodes, it ends with these: shapes of what is cut off may depend on the data.

    Raises:
        ModelError: the checker or the inference refuses the model.
        UnsupportedError: the shape of an output depends on the data.
    """
    try:
        _check_structure(ir.to_proto(model))
        _infer_around_custom(model)
        if any(_is_dynamic(value) for node in model.graph for value in node.outputs if value.name):
            _infer_by_folding(model)
        if ends:
            model = cut(model, ends)
        for value in model.graph.outputs:
            if _is_dynamic(value):
                raise UnsupportedError(
                    f"{path}: output {value.name!r} has the shape {value.shape}, which depends on the data; end the "
                    "network in front of the node that gives it, such as NonMaxSuppression or NonZero (output_nodes), "
                    "and compute the rest in the application; ultralytics: export with nms=False"
                )
        onnx.checker.check_model(_without_weights(model), full_check=True)
    except _INVALID as error:
        raise ModelError(f"{path}: not a valid ONNX model: {brief(error)}") from error
    check_sizes(model, path)
    return model


def infer_before_branches(model: ir.Model, path: Path) -> ir.Model:
    """What :func:`infer_shapes` does, as far as it goes: branches of different ranks have no shape yet.

    Raises:
        ModelError: the library cannot read the model.
    """
    try:
        return infer_shapes(model, path)
    except (ModelError, UnsupportedError):
        try:
            inferred = onnx.shape_inference.infer_shapes(_without_weights(model), data_prop=True)
        except _INVALID as error:
            raise ModelError(f"{path}: not a valid ONNX model: {brief(error)}") from error
        _take_over_shapes(model.graph, inferred.graph)
        return model


def check_sizes(model: ir.Model, path: Path) -> None:
    """Refuse tensors that no machine holds: a few nodes that double a tensor make them.

    Raises:
        UnsupportedError: a tensor has more elements than the bound ``TENSOR_ELEMENTS``.
    """
    most = limit("TENSOR_ELEMENTS")
    for node in model.graph:
        for value in (*node.inputs, *node.outputs):
            if value is not None and not _is_dynamic(value) and math.prod(shape_of(value)) > most:
                raise UnsupportedError(
                    f"{path}: tensor {value.name!r} of shape {shape_of(value)} has {beyond('TENSOR_ELEMENTS')}"
                )


def _infer_around_custom(model: ir.Model) -> None:
    """Shape inference up to the first custom operators, their outputs, inference up to the next ones, and so on."""
    while True:
        proto = _without_weights(model)
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
        if _lists(inferred) <= _MOST_LIST_ELEMENTS:
            inferred = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
        _take_over_shapes(model.graph, inferred.graph)
        ready = [node for node in model.graph if custom.is_custom(node) and _can_be_inferred(node)]
        if not ready:
            return
        for node in ready:
            custom.set_output_types(node)


def _lists(proto: onnx.ModelProto) -> int:
    """Elements of all lists (tensors of rank 1) of an inferred model, at most.

    Inference that follows values writes every list out, whatever it holds, as far as its length is known: about 70
    bytes an element. A length that only the values tell is at most that of the operands together.
    """
    known = {tensor.name: _length(tensor.dims) for tensor in proto.graph.initializer}
    for value in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        shape = value.type.tensor_type.shape
        if value.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in shape.dim):
            known.setdefault(value.name, _length([dim.dim_value for dim in shape.dim]))
    for node in proto.graph.node:
        operands = [known.get(name, 0) for name in node.input]
        longest = sum(operands) if node.op_type == "Concat" else max(operands, default=0)
        for name in node.output:
            known.setdefault(name, longest)
    return sum(known.values())


def _length(dims: Sequence[int]) -> int:
    return dims[0] if len(dims) == 1 else 0


def _without_weights(model: ir.Model) -> onnx.ModelProto:
    """The model with inputs in the place of large initializers: no rule or shape depends on their values.

    The libraries copy a model several times, so that weights would take most of the time.
    """
    proto = ir.to_proto(model)
    graph = proto.graph
    large = [tensor for tensor in graph.initializer if math.prod(tensor.dims) > _WEIGHT]
    inputs = {value.name for value in graph.input}
    graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in large
        if tensor.name not in inputs
    )
    kept = [tensor for tensor in graph.initializer if math.prod(tensor.dims) <= _WEIGHT]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return proto


def _take_over_shapes(graph: ir.Graph, inferred: onnx.GraphProto) -> None:
    """Give the results of the nodes of ``graph``, those of branches too, the shapes and types of ``inferred``.

    Only these are read: building all of a graph from its message takes ten times as long.
    """
    found = {value.name: value.type for value in (*inferred.output, *inferred.value_info)}
    for node, other in zip(graph, inferred.node, strict=True):
        for value in node.outputs:
            kind = found.get(str(value.name), onnx.TypeProto())
            value.shape = ir.serde.deserialize_type_proto_for_shape(kind)
            value.type = ir.serde.deserialize_type_proto_for_type(kind)
        for attribute in other.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _take_over_shapes(node.attributes[attribute.name].as_graph(), attribute.g)


def _can_be_inferred(node: ir.Node) -> bool:
    """Whether the inputs of ``node`` have shapes, and an output has none yet."""
    lacks = any(_is_dynamic(value) or value.dtype is None for value in node.outputs if value.name)
    return lacks and not any(value is not None and _is_dynamic(value) for value in node.inputs)


_INVALID = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ir.serde.SerdeError, ValueError)
"""What the libraries raise for a model that breaks ONNX's rules."""


def _check_structure(proto: onnx.ModelProto) -> None:
    """The checker without shapes: outputs may still lack one, which it would refuse."""
    lacking = [value.type.tensor_type for value in proto.graph.output if value.type.HasField("tensor_type")]
    lacking = [tensor for tensor in lacking if not tensor.HasField("shape")]
    for tensor in lacking:
        tensor.shape.SetInParent()
    onnx.checker.check_model(proto)
    for tensor in lacking:
        tensor.ClearField("shape")


def _is_dynamic(value: ir.Value) -> bool:
    return static_shape(value) is None


def _infer_by_folding(model: ir.Model) -> None:
    """Complete shapes that depend on computed constants: fold a copy and take over what can then be inferred."""
    copy = model.clone()
    folded(copy, _SHAPE_FOLDING_LIMIT)
    known = {value.name: value for node in copy.graph for value in node.outputs}
    known.update(copy.graph.initializers)
    for node in model.graph:
        for value in node.outputs:
            other = known.get(value.name)
            if other is not None and _is_dynamic(value) and not _is_dynamic(other):
                value.shape, value.type = other.shape, other.type
