"""A float model whose averages count padding on the right of the map as the original's own runtime does.

An AveragePool without ``count_include_pad`` divides by the values of its window that lie in the map. The original's
runtime takes columns of padding on the right of the map for such values, in calibration (rule
``method.border-columns``): of those on the left, above and below it does not.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of, static_shape


def with_border_columns(model: ir.Model) -> ir.Model:
    """``model``, or where padding on the right counts a copy in which zeros are joined to the map there.

    Every tensor keeps its name, and every number of another window its bits.

    Args:
        model: a float graph of operator set 11 or later; is not changed.
    """
    if not any(map(counts_columns, model.graph)):
        return model
    model = model.clone()
    for node in tuple(filter(counts_columns, model.graph)):
        _join_columns(model.graph, node)
    return model


def counts_columns(node: ir.Node) -> bool:
    """Whether ``node`` is an average of a map that leaves padding out, and has some on the right."""
    shape = static_shape(node.inputs[0]) if node.inputs and node.inputs[0] is not None else None
    return shape is not None and columns_counted(node, shape) > 0


def columns_counted(node: ir.Node, shape: tuple[int, ...]) -> int:
    """Columns of padding on the right that ``node`` counts on a tensor of ``shape``; 0 where it is no such average.

    With ``ceil_mode`` ONNX Runtime leaves out a window that would begin in this padding; so what only that one reads
    does not count.
    """
    is_average = node.op_type == "AveragePool" and node.domain in ("", "ai.onnx")
    pads = attribute(node, "pads", ())
    if not is_average or len(shape) != 4 or len(pads) != 4 or attribute(node, "count_include_pad", 0):
        return 0
    if str(attribute(node, "auto_pad", "NOTSET")) != "NOTSET":
        return 0
    left, columns, width = int(pads[1]), int(pads[3]), shape[3]
    stride, dilation = (int((attribute(node, name) or (1, 1))[-1]) for name in ("strides", "dilations"))
    reach = (int(attribute(node, "kernel_shape", (1, 1))[-1]) - 1) * dilation + 1
    last = -(-(width + left + columns - reach) // stride)
    if attribute(node, "ceil_mode", 0) and last * stride >= width + left:
        columns = min(columns, max((last - 1) * stride + reach - left - width, 0))
    return columns


def without_columns(node: ir.Node) -> ir.Node:
    """A copy of the average ``node`` that does not pad on the right; it reads and gives new tensors."""
    source, result = (ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT)) for name in ("x", "y"))
    attributes = {name: given for name, given in node.attributes.items() if name != "pads"}
    pads = ir.AttrInt64s("pads", [*attribute(node, "pads", (0, 0, 0, 0))[:3], 0])
    return ir.Node("", node.op_type, [source], [*attributes.values(), pads], outputs=[result], name=node.name)


def _join_columns(graph: ir.Graph, node: ir.Node) -> None:
    source = node.inputs[0]
    if source is None:
        return
    around, columns = attribute(node, "pads", (0, 0, 0, 0))[:3], columns_counted(node, shape_of(source))
    *kept, width = shape_of(source)
    tensor = ir.Tensor(np.array([0, 0, 0, 0, 0, 0, 0, columns], np.int64), name=f"{node.name}_columns")
    amounts = ir.Value(name=tensor.name, type=ir.TensorType(tensor.dtype), shape=ir.Shape([8]), const_value=tensor)
    graph.register_initializer(amounts)
    joined = ir.Value(name=f"{node.name}_joined", type=source.type, shape=ir.Shape([*kept, width + columns]))
    pad = ir.node("Pad", [source, amounts], outputs=[joined], name=f"{node.name}_join")
    graph.insert_before(node, pad)
    node.replace_input_with(0, joined)
    node.attributes["pads"] = ir.AttrInt64s("pads", [*around, 0])
