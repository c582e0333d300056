"""Operators of newer opsets as opset 11 writes them, the highest that the toolchain takes."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx_ir as ir

from engine.errors import ShipError
from engine.frontend.versions import opset_of
from engine.ir import attribute, constant_of, shape_of

OPSET = 11
"""Highest version of ONNX's operators that the toolchain takes; it takes 10 as well."""

_SUM_AXES_AS_INPUT = 13
"""Opset since which axes of ReduceSum and Squeeze and sizes of Split are inputs, and Softmax is over one axis."""
_AS_ATTRIBUTE = {"Squeeze": "axes", "Unsqueeze": "axes", "Split": "split"} | {
    f"Reduce{what}": "axes"
    for what in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
}
"""Operators whose second input was an attribute, and its name."""
_OVER_ONE_AXIS = ("Softmax", "LogSoftmax", "Hardmax")


def write_as_opset_11(model: ir.Model) -> None:
    """Rewrite the operators of ``model``, in place, where its opset is newer.

    Raises:
        ShipError: an operator or an attribute came later, or axes are computed: names the node.
    """
    opset = opset_of(model)
    if opset <= OPSET:
        return
    for node in tuple(model.graph):
        if node.domain:
            continue
        if node.op_type in _AS_ATTRIBUTE:
            _write_as_attribute(model, node, _AS_ATTRIBUTE[node.op_type])
        elif node.op_type in _OVER_ONE_AXIS and opset >= _SUM_AXES_AS_INPUT:
            _write_over_last_axis(node)
        _drop_defaults(node, opset)
    model.opset_imports[""] = OPSET


def give_regions(model: ir.Model) -> None:
    """An empty tensor for each ``roi`` and ``scales`` that a Resize lacks: later opsets than 11 leave them out."""
    for node in model.graph:
        if node.op_type != "Resize" or node.domain:
            continue
        for index, name in ((1, "roi"), (2, "scales")):
            if len(node.inputs) > index and node.inputs[index] is None:
                empty = ir.tensor(np.zeros(0, np.float32), name=f"{node.name}_{name}")
                value = ir.val(empty.name, const_value=empty)
                model.graph.register_initializer(value)
                node.replace_input_with(index, value)


def _write_as_attribute(model: ir.Model, node: ir.Node, name: str) -> None:
    """The constant second input as the attribute ``name``."""
    if len(node.inputs) < 2:
        return
    value = node.inputs[1]
    if value is not None:
        axes = constant_of(value)
        if axes is None:
            raise _later(node, f"its {name} are computed, which came later")
        if axes.size or name == "split":
            node.attributes[name] = ir.AttrInt64s(name, [int(axis) for axis in axes.ravel()])
    node.resize_inputs(1)
    node.attributes.pop("noop_with_empty_axes", None)
    if value is not None and value.is_initializer() and not value.uses():
        model.graph.initializers.pop(str(value.name), None)


def _write_over_last_axis(node: ir.Node) -> None:
    """Between transpositions where the axis is not the last: opset 11 takes all axes from its own on as one."""
    source, result, graph = node.inputs[0], node.outputs[0], node.graph
    if source is None or graph is None:
        return
    shape = shape_of(source)
    rank = len(shape)
    axis = attribute(node, "axis", -1) % rank
    if math.prod(shape[axis + 1 :]) == 1:  # all axes from it on are this one
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
        return
    node.attributes["axis"] = ir.AttrInt64("axis", rank - 1)
    swapped = [*range(rank)]
    swapped[axis], swapped[-1] = swapped[-1], swapped[axis]
    moved = [shape[each] for each in swapped]
    before, within, after = (
        ir.Value(name=name, type=source.type, shape=ir.Shape(sizes))
        for name, sizes in ((f"{node.name}_before", moved), (f"{node.name}_within", moved), (result.name, shape))
    )
    nodes = [
        ir.node("Transpose", [source], {"perm": swapped}, outputs=[before], name=f"{node.name}_before"),
        ir.node(node.op_type, [before], {"axis": rank - 1}, outputs=[within], name=node.name),
        ir.node("Transpose", [within], {"perm": swapped}, outputs=[after], name=f"{node.name}_after"),
    ]
    ir.convenience.replace_nodes_and_values(graph, node, [node], nodes, [result], [after])


def _drop_defaults(node: ir.Node, opset: int) -> None:
    """Take out attributes that came later where they say what was so before."""
    if not onnx.defs.has(node.op_type) or not _was_there(node.op_type):
        raise _later(node, "the operator came later")
    old = onnx.defs.get_schema(node.op_type, max_inclusive_version=OPSET)
    new = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset)
    if len([value for value in node.inputs if value is not None]) > old.max_input:
        raise _later(node, f"its inputs after {old.max_input} came later")
    for name in [name for name in node.attributes if name not in old.attributes and name not in _DECIDED]:
        if name in new.attributes and not _is_default(node.attributes[name], new.attributes[name].default_value):
            raise _later(node, f"its attribute {name} came later")
    for name in [name for name in node.attributes if name not in old.attributes]:
        node.attributes.pop(name)


def _is_default(given: ir.Attr, default: onnx.AttributeProto) -> bool:
    return bool(default.name) and ir.from_proto(default).value == given.value


_DECIDED = frozenset({"num_outputs"})
"""Attributes that the number of outputs says as well."""


def _was_there(op_type: str) -> bool:
    try:
        onnx.defs.get_schema(op_type, max_inclusive_version=OPSET)
    except onnx.defs.SchemaError:
        return False
    return True


def _later(node: ir.Node, what: str) -> ShipError:
    return ShipError(
        f"node {node.name} ({node.op_type}): {what} than opset {OPSET}, the highest that the toolchain takes",
        f"export the network at opset {OPSET}",
    )
