"""Layout transposes that cancel disappear, and the rest keeps its meaning."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ir import shape_of
from engine.quantize.layouts import simplify_layouts

FLOAT, INT32 = ir.TensorType(ir.DataType.FLOAT), ir.TensorType(ir.DataType.INT32)


def value(name: str, shape: tuple[int, ...], kind: ir.TensorType = FLOAT) -> ir.Value:
    return ir.Value(name=name, type=kind, shape=ir.Shape(shape))


def transpose(x: ir.Value, perm: list[int], name: str) -> ir.Node:
    shape = tuple(shape_of(x)[axis] for axis in perm)
    return ir.node(
        "Transpose", [x], {"perm": perm}, outputs=[ir.Value(name=name, type=x.type, shape=ir.Shape(shape))], name=name
    )


def graph(x: ir.Value, *nodes: ir.Node, initializers: tuple[ir.Value, ...] = ()) -> ir.Graph:
    return ir.Graph([x], nodes[-1].outputs, nodes=nodes, initializers=initializers, opset_imports={"": 11})


def test_two_transposes_become_one_under_the_second_name() -> None:
    x = value("x", (1, 4, 5, 6))
    first = transpose(x, [0, 3, 1, 2], "first")
    second = transpose(first.outputs[0], [0, 3, 1, 2], "second")
    result = graph(x, first, second)
    simplify_layouts(result)
    (left,) = result
    assert (left.name, left.inputs[0], list(left.attributes["perm"].as_ints())) == ("second", x, [0, 2, 3, 1])


def test_transposes_around_a_dequantiser_cancel() -> None:
    x, scale = value("x", (1, 4, 5, 6), INT32), value("scale", (6,))
    before = transpose(x, [0, 3, 1, 2], "before")
    dequantize = ir.node(
        "HzDequantize", [before.outputs[0], scale], domain="horizon", outputs=[value("y", (1, 6, 4, 5))], name="d"
    )
    after = transpose(dequantize.outputs[0], [0, 2, 3, 1], "after")
    result = graph(x, before, dequantize, after)
    simplify_layouts(result)
    (left,) = result
    assert left.inputs[0] is x
    assert left.attributes["axis"].as_int() == 3
    assert [output.name for output in result.outputs] == ["after"]


def test_a_transpose_of_one_pixel_joins_the_reshape_behind_it() -> None:
    x, target = value("x", (1, 1, 1, 10)), np.array([1, 10])
    shape = ir.Value(name="shape", const_value=ir.tensor(target), type=ir.TensorType(ir.DataType.INT64))
    moved = transpose(x, [0, 3, 1, 2], "moved")
    reshape = ir.node("Reshape", [moved.outputs[0], shape], outputs=[value("y", (1, 10))], name="r")
    result = graph(x, moved, reshape, initializers=(shape,))
    simplify_layouts(result)
    (left,) = result
    assert (left.name, left.inputs[0]) == ("moved_reshape", x)


def test_a_transpose_that_moves_elements_stays() -> None:
    x = value("x", (1, 2, 2, 10))
    shape = ir.Value(name="shape", const_value=ir.tensor(np.array([1, 40])), type=ir.TensorType(ir.DataType.INT64))
    moved = transpose(x, [0, 3, 1, 2], "moved")
    reshape = ir.node("Reshape", [moved.outputs[0], shape], outputs=[value("y", (1, 40))], name="r")
    result = graph(x, moved, reshape, initializers=(shape,))
    simplify_layouts(result)
    assert [node.name for node in result] == ["moved", "r"]
