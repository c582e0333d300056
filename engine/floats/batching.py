"""Make a model that was built for one sample take any number of them."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from engine.ir import constant_of, shape_of, static_shape

BATCH = "batch"

SAMPLEWISE = frozenset(
    {
        *("Conv", "ConvTranspose", "AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool"),
        *("Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "HardSigmoid", "Tanh", "Identity"),
        *(
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Min",
            "Max",
            "Round",
            "QuantizeLinear",
            "DequantizeLinear",
            "Reshape",
            "Constant",
        ),
    }
)
"""Operators that compute every sample by itself, whatever their attributes, if the first dimension is the batch."""

IN_FOURS = frozenset({"Acos", "Asin", "Atan", "Celu", "Cos", "Elu", "Log", "Mish", "Selu", "Sin", "Softplus"})
"""Operators that ONNX Runtime computes four elements at a time from the first of a run, and the last one to three by
another function with other last bits: docs/evidence/calibration.md, ``tests/engine/floats/test_batching.py``."""

SUMMED_IN_FOURS = frozenset({"InstanceNormalization", "ReduceMean", "ReduceSum"})
"""Operators that ONNX Runtime sums four elements at a time from multiples of :data:`engine.alignment.ALIGNMENT` bytes:
a row of the second sample begins elsewhere than in a run of its own where samples are no multiples of four elements."""

_TOGETHER = 4


def with_symbolic_batch(model: ir.Model) -> ir.Model | None:
    """A copy of ``model`` whose first dimension is symbolic, or ``None`` where the graph fixes it to one sample.

    What names the batch most often is ``Reshape``: a leading 1 in its shape is replaced by 0 ("as the input has it").
    A graph may depend on the batch in other ways: see :func:`computes_samples_apart`, or try the result.

    Args:
        model: standard operators, static shapes, first dimension 1 on every input and output.
    """
    ends = (*model.graph.inputs, *model.graph.outputs)
    if any(len(shape_of(value)) == 0 or shape_of(value)[0] != 1 for value in ends):
        return None
    model = model.clone()
    for node in model.graph:
        if node.op_type == "Reshape" and not _free_reshape(model.graph, node):
            return None
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.shape = ir.Shape([BATCH, *shape_of(value)[1:]])
    for node in model.graph:
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None
    return model


def computes_samples_apart(model: ir.Model) -> bool:
    """Whether it is known without trying that several samples in one run give the bits of one at a time.

    Args:
        model: what :func:`with_symbolic_batch` accepted, before it.
    """
    return all(
        node.op_type == "Constant"
        or ((node.op_type in SAMPLEWISE or _is_whole_fours(node)) and _is_one_sample(node.outputs[0]))
        for node in model.graph
    )


def mixes_samples(model: ir.Model) -> bool:
    """Whether several samples in one run are known to give other bits than one at a time.

    See :data:`IN_FOURS` and :data:`SUMMED_IN_FOURS`.

    Trying it does not always show it: few elements differ.

    Args:
        model: what :func:`with_symbolic_batch` accepted, before it.
    """
    return any(
        node.op_type in (IN_FOURS | SUMMED_IN_FOURS) and not _has_whole_fours(node.inputs[0]) for node in model.graph
    )


def _is_whole_fours(node: ir.Node) -> bool:
    """Whether ``node`` computes in fours, of which none has elements of two samples."""
    return node.op_type in IN_FOURS and _has_whole_fours(node.inputs[0])


def _has_whole_fours(value: ir.Value | None) -> bool:
    """Whether a sample of ``value`` is known to be a multiple of four elements."""
    shape = static_shape(value)
    return shape is not None and math.prod(shape) % _TOGETHER == 0


def _is_one_sample(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) > 0 and value.shape[0] == 1


def _free_reshape(graph: ir.Graph, node: ir.Node) -> bool:
    """Let ``node`` keep the first dimension of its input; whether that is possible."""
    data, target = node.inputs[0], constant_of(node.inputs[1])
    if data is None or target is None or not target.size:
        return False
    if target[0] in (0, -1):
        return True
    shape = shape_of(data)
    if target[0] != 1 or not shape or shape[0] != 1 or node.attributes.get_int("allowzero", 0):
        return False
    name = f"{node.name}_batch_shape"
    tensor = ir.tensor(np.concatenate([[0], target[1:]]).astype(np.int64), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(target.shape), const_value=tensor)
    graph.register_initializer(value)
    node.replace_input_with(1, value)
    return True
