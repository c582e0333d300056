"""Layout transposes that cancel disappear, and the rest keeps its meaning."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.chips import ChipFamily
from engine.ir import shape_of, to_bytes
from engine.quantize.layouts import simplify_layouts
from engine.rulebook.name import Naming

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
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    (left,) = result
    assert (left.name, left.inputs[0], list(left.attributes["perm"].as_ints())) == ("second", x, [0, 2, 3, 1])


def test_a_zero_in_the_shape_means_the_axis_that_it_meant_before() -> None:
    """Behind a transpose of axes of length 1, as in stacked LSTM layers; the 0 once took the axis before it."""
    x, target = value("x", (80, 2, 1, 96)), ir.Value(name="shape", const_value=ir.tensor([0, 0, -1]))
    swap = transpose(x, [0, 2, 1, 3], "swap")
    merge = ir.node("Reshape", [swap.outputs[0], target], outputs=[value("y", (80, 1, 192))], name="merge")
    result = graph(x, swap, merge, initializers=(target,))
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    (left,) = result
    assert left.inputs[0] is x
    (_, shape) = left.inputs
    assert shape is not None
    assert shape.const_value is not None
    assert shape.const_value.numpy().tolist() == [80, 1, 192]


def test_two_reshapes_of_integers_become_one_under_the_first_name() -> None:
    x = value("x", (1, 4, 5, 6), INT32)
    targets = [ir.Value(name=f"k{i}", const_value=ir.tensor(shape)) for i, shape in enumerate(([1, 20, 6], [20, 1, 6]))]
    first = ir.node("Reshape", [x, targets[0]], outputs=[value("a", (1, 20, 6), INT32)], name="first")
    second = ir.node("Reshape", [first.outputs[0], targets[1]], outputs=[value("y", (20, 1, 6), INT32)], name="second")
    result = graph(x, first, second, initializers=tuple(targets))
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    (left,) = result
    assert (left.name, left.inputs[1], result.outputs[0].name) == ("first", targets[1], "y")
    assert shape_of(result.outputs[0]) == (20, 1, 6)


@pytest.mark.parametrize(("last", "left"), [((1, 1, 1, 4), []), ((1, 1, 4, 1), ["there", "one", "other"])])
def test_a_reshape_that_every_reader_undoes_disappears(last: tuple[int, ...], left: list[str]) -> None:
    """The states of a GRU on bernoulli2, which the next step and a Concat read; not where one has another shape."""
    x = value("x", (1, 1, 1, 4))
    shapes = {"there_shape": (1, 1, 4), "one_shape": (1, 1, 1, 4), "other_shape": last}
    targets = {name: ir.Value(name=name, const_value=ir.tensor(list(shape))) for name, shape in shapes.items()}

    def reshape(source: ir.Value, name: str) -> ir.Node:
        shape = shapes[f"{name}_shape"]
        return ir.node("Reshape", [source, targets[f"{name}_shape"]], outputs=[value(f"{name}_out", shape)], name=name)

    there = reshape(x, "there")
    one, other = (reshape(there.outputs[0], name) for name in ("one", "other"))
    ends = [
        ir.node("Sigmoid", [each.outputs[0]], outputs=[value(f"{each.name}_end", shape_of(each.outputs[0]))])
        for each in (one, other)
    ]
    nodes = [there, one, other, *ends]
    results = [each.outputs[0] for each in ends]
    whole = ir.Graph([x], results, nodes=nodes, initializers=tuple(targets.values()), opset_imports={"": 11})
    simplify_layouts(whole, Naming(ChipFamily.BERNOULLI))
    assert [node.name for node in whole if node.op_type == "Reshape"] == left


def test_transposes_in_a_row_are_merged_before_what_stands_beside_them() -> None:
    """The second and third one move only axes of length 1 together: the first stays (``detr``)."""
    x = value("x", (1, 4, 4, 6), INT32)
    target = ir.Value(name="k", const_value=ir.tensor([1, 6, 16, 1]))
    first = transpose(x, [0, 3, 1, 2], "first")
    reshape = ir.node("Reshape", [first.outputs[0], target], outputs=[value("r", (1, 6, 16, 1), INT32)], name="reshape")
    second = transpose(reshape.outputs[0], [0, 2, 3, 1], "second")
    third = transpose(second.outputs[0], [0, 2, 3, 1], "third")
    result = graph(x, first, reshape, second, third, initializers=(target,))
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    assert [item.name for item in result] == ["first", "reshape"]
    assert shape_of(result.outputs[0]) == (1, 1, 6, 16)


def test_transposes_that_cancel_go_before_others_are_merged() -> None:
    """The layout of what a normalisation gives stays behind it, in front of a dense layer (``swin``, ``mobilevit``)."""
    x = value("x", (1, 4, 5, 6), INT32)
    first = transpose(x, [0, 3, 1, 2], "first")
    second = transpose(first.outputs[0], [0, 3, 1, 2], "second")
    third = transpose(second.outputs[0], [0, 2, 3, 1], "third")
    reader = ir.node("Abs", [third.outputs[0]], outputs=[value("y", (1, 6, 4, 5), INT32)], name="reader")
    result = graph(x, first, second, third, reader)
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    assert [item.name for item in result] == ["first", "reader"]


def test_a_transpose_of_single_axes_joins_the_reshape_before_it() -> None:
    """Named as the optimiser names such a transpose; the result is the transpose's (``crnn_gru``, ``vgg``)."""
    x = value("x", (1, 20, 6), INT32)
    reshaped, target = reshape(x, "r", 1, 20, 6, 1)
    moved = transpose(reshaped.outputs[0], [0, 3, 1, 2], "moved")
    result = graph(x, reshaped, moved, initializers=(target,))
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    (left,) = result
    new = left.inputs[1]
    assert new is not None
    assert (left.name, new.name, result.outputs[0].name) == ("r", "moved_reshape_target_shape", "moved")
    assert shape_of(result.outputs[0]) == (1, 1, 20, 6)


def test_transposes_around_a_dequantiser_cancel() -> None:
    x, scale = value("x", (1, 4, 5, 6), INT32), value("scale", (6,))
    before = transpose(x, [0, 3, 1, 2], "before")
    dequantize = ir.node(
        "HzDequantize", [before.outputs[0], scale], domain="horizon", outputs=[value("y", (1, 6, 4, 5))], name="d"
    )
    after = transpose(dequantize.outputs[0], [0, 2, 3, 1], "after")
    result = graph(x, before, dequantize, after)
    simplify_layouts(result, Naming(ChipFamily.BAYES))
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
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    (left,) = result
    assert (left.name, left.inputs[0]) == ("moved_reshape", x)


def test_a_transpose_that_moves_elements_stays() -> None:
    x = value("x", (1, 2, 2, 10))
    shape = ir.Value(name="shape", const_value=ir.tensor(np.array([1, 40])), type=ir.TensorType(ir.DataType.INT64))
    moved = transpose(x, [0, 3, 1, 2], "moved")
    reshape = ir.node("Reshape", [moved.outputs[0], shape], outputs=[value("y", (1, 40))], name="r")
    result = graph(x, moved, reshape, initializers=(shape,))
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    assert [node.name for node in result] == ["moved", "r"]


def reshape(x: ir.Value, name: str, *shape: int) -> tuple[ir.Node, ir.Value]:
    """A ``Reshape`` of ``x`` and its constant shape."""
    target = ir.Value(
        name=f"{name}_shape", const_value=ir.tensor(np.array(shape)), type=ir.TensorType(ir.DataType.INT64)
    )
    result = ir.Value(name=name, type=x.type, shape=ir.Shape(shape))
    return ir.node("Reshape", [x, target], outputs=[result], name=name), target


@pytest.mark.parametrize(("channels", "left"), [(6, ["r"]), (3, ["before", "r", "after"])])
def test_transposes_around_a_reshape_of_the_map_cancel(channels: int, left: list[str]) -> None:
    x = value("x", (1, 4, 5, 6), INT32)
    before = transpose(x, [0, 3, 1, 2], "before")
    reshaped, shape = reshape(before.outputs[0], "r", 1, channels, 60 // channels, 2)
    after = transpose(reshaped.outputs[0], [0, 2, 3, 1], "after")
    result = graph(x, before, reshaped, after, initializers=(shape,))
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    assert [node.name for node in result] == left
    assert shape_of(result.outputs[0]) == (1, 60 // channels, 2, channels)
    if left == ["r"]:
        target = result.node(0).inputs[1]
        assert target is not None
        assert target.const_value is not None
        assert target.const_value.numpy().tolist() == [1, 10, 2, 6]


def test_a_transpose_of_one_number_disappears() -> None:
    x, scale = value("x", (1, 1, 1, 1)), value("scale", ())
    moved = transpose(x, [0, 2, 3, 1], "moved")
    last = ir.node("HzQuantize", [moved.outputs[0], scale], domain="horizon", outputs=[value("y", (1, 1, 1, 1))])
    result = graph(x, moved, last)
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    assert [node.op_type for node in result] == ["HzQuantize"]


@pytest.mark.parametrize(("rows", "left"), [(4, ["d", "r"]), (1, ["before", "d", "r"])])
def test_rows_of_a_product_are_dequantised_as_they_lie(rows: int, left: list[str]) -> None:
    x, scale = value("x", (rows, 1, 1, 10), INT32), value("scale", (10,))
    before = transpose(x, [0, 3, 1, 2], "before")
    dequantize = ir.node(
        "HzDequantize", [before.outputs[0], scale], domain="horizon", outputs=[value("y", (rows, 10, 1, 1))], name="d"
    )
    reshaped, shape = reshape(dequantize.outputs[0], "r", rows, 10)
    result = graph(x, before, dequantize, reshaped, initializers=(shape,))
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    assert [node.name for node in result] == left
    if rows > 1:
        assert dequantize.attributes["axis"].as_int() == 3


FACTORS = (1, 2, 3, 4)


@st.composite
def chains(draw: Callable[[st.SearchStrategy[Any]], Any]) -> ir.Model:
    """Transposes and Reshapes in a row, of floats or integers; any result may be an output too."""
    x = value("x", tuple(draw(st.sampled_from(FACTORS)) for _ in range(4)), draw(st.sampled_from([FLOAT, INT32])))
    nodes: list[ir.Node] = []
    targets: list[ir.Value] = []
    for index in range(draw(st.integers(1, 6))):
        last = nodes[-1].outputs[0] if nodes else x
        if draw(st.booleans()):
            shape = list(shape_of(last))
            first, second = draw(st.sampled_from(list(permutations(range(4), 2))))
            factor = draw(st.sampled_from([each for each in FACTORS if shape[first] % each == 0]))
            shape[first], shape[second] = shape[first] // factor, shape[second] * factor
            node, target = reshape(last, f"n{index}", *shape)
            nodes.append(node)
            targets.append(target)
        else:
            perm = draw(st.one_of(st.sampled_from([[0, 3, 1, 2], [0, 2, 3, 1]]), st.permutations(range(4))))
            nodes.append(transpose(last, list(perm), f"n{index}"))
    shared = draw(st.sets(st.sampled_from(nodes), max_size=2)) - {nodes[-1]}
    outputs = [node.outputs[0] for node in (*shared, nodes[-1])]
    for output in outputs:
        output.name = f"y_{output.name}"
    return ir.Model(ir.Graph([x], outputs, nodes=nodes, initializers=targets, opset_imports={"": 11}), ir_version=6)


def run(model: ir.Model) -> dict[str, NDArray[Any]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(to_bytes(model), options)
    (x,) = model.graph.inputs
    feed = np.arange(np.prod(shape_of(x))).reshape(shape_of(x)).astype(np.float32 if x.type == FLOAT else np.int32)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": feed}), strict=True))


@given(model=chains())
def test_any_chain_gives_the_same_outputs_under_the_same_names(model: ir.Model) -> None:
    before = run(model)
    simplify_layouts(model.graph, Naming(ChipFamily.BAYES))
    after = run(model)
    assert list(after) == list(before)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, strict=True)


def test_layout_is_changed_where_the_tensor_is_made() -> None:
    x = value("x", (1, 4, 5, 6))
    first, second = (ir.node("Relu", [x], outputs=[value(name, (1, 4, 5, 6))], name=name) for name in ("a", "b"))
    moved = transpose(first.outputs[0], [0, 3, 1, 2], "a_NHWC2NCHW_LayoutConvert_Output0")
    result = graph(x, first, second, moved)
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    assert [node.name for node in result] == ["a", "a_NHWC2NCHW_LayoutConvert_Output0", "b"]


def test_layout_changes_around_a_reshape_that_undoes_the_first() -> None:
    """The last operand of the Concat in crnn_gru: what is left of three is a Reshape where the last one stood."""
    x, target = value("x", (1, 1, 1, 16), INT32), ir.Value(name="shape", const_value=ir.tensor([1, 1, 1, 16]))
    out = transpose(x, [0, 3, 1, 2], "out")
    flat = ir.node("Reshape", [out.outputs[0], target], outputs=[value("f", (1, 1, 1, 16), INT32)], name="flat")
    back = transpose(flat.outputs[0], [0, 2, 3, 1], "back")
    result = graph(x, out, flat, back, initializers=(target,))
    simplify_layouts(result, Naming(ChipFamily.BAYES))
    (left,) = result
    assert (left.op_type, left.name, left.inputs[0], shape_of(left.outputs[0])) == (
        "Reshape",
        "back_reshape",
        x,
        (1, 1, 16, 1),
    )
