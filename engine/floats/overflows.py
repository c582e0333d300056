"""A float model in which a Mish is not a number where the exponentials of the original's own overflow.

The original's runtime computes Mish by exponentials of float32, and measures nothing that is not a number. So results
of large values do not count in its thresholds (rule ``method.mish-overflow``).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ir import HORIZON_DOMAIN

LARGEST_EXPONENT = np.float32(88.72283)
"""The largest float32 whose exponential is finite in float32."""


def with_overflows(model: ir.Model) -> ir.Model:
    """``model``, or where it has a Mish a copy that gives NaN for what is above :data:`LARGEST_EXPONENT` there.

    Every tensor keeps its name, and every other number its bits.
    """
    if not any(map(is_mish, model.graph)):
        return model
    model = model.clone()
    for node in tuple(filter(is_mish, model.graph)):
        _let_overflow(model.graph, node)
    return model


def is_mish(node: ir.Node) -> bool:
    """Whether ``node`` is a Mish of the optimised graph."""
    return node.domain == HORIZON_DOMAIN and node.op_type == "HzMish"


def _let_overflow(graph: ir.Graph, node: ir.Node) -> None:
    source, result = node.inputs[0], node.outputs[0]
    if source is None:
        return
    limit, nan = (_scalar(graph, f"{node.name}_{kind}", number) for kind, number in _CONSTANTS)
    name = str(result.name)
    is_above = ir.node("Greater", [source, limit], name=f"{node.name}_is_above")
    is_above.outputs[0].name = f"{node.name}_is_above_output"
    is_above.outputs[0].type, is_above.outputs[0].shape = ir.TensorType(ir.DataType.BOOL), source.shape
    chosen = ir.Value(name=f"{name}_chosen", type=result.type, shape=result.shape)
    result.replace_all_uses_with(chosen, replace_graph_outputs=True)
    where = ir.node("Where", [is_above.outputs[0], nan, result], outputs=[chosen], name=f"{node.name}_where")
    result.name, chosen.name = f"{name}_exact", name
    graph.insert_after(node, [is_above, where])


_CONSTANTS = (("limit", LARGEST_EXPONENT), ("nan", np.float32(np.nan)))


def _scalar(graph: ir.Graph, name: str, number: np.float32) -> ir.Value:
    """A new initializer, float32 of shape ()."""
    tensor = ir.Tensor(np.asarray(number), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape([]), const_value=tensor)
    graph.register_initializer(value)
    return value
