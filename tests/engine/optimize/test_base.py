"""What the passes share: names of constants, the places of nodes, what attributes and inputs say."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.graph import sole_reader
from engine.ir import static_shape
from engine.optimize.base import (
    Padding,
    absorb_next,
    add_initializer,
    axes_of,
    bypass,
    clip_bounds,
    collapse,
    graph_of,
    initializer_of,
    ints,
    is_standard,
    make_node,
    make_split,
    padding_of,
    replace_constant,
    substitute,
    substitute_outputs,
)
from tests.engine.optimize.equivalence import build, operators
from tests.engine.optimize.networks import MAP, node, normal

SHAPE = (1, 4, 8, 8)


def chain(*kinds: str) -> ir.Model:
    """``x`` through operators of one input to ``y``."""
    names = ["x", *(f"t{index}" for index in range(1, len(kinds))), "y"]
    return build([node(kind, names[i], names[i + 1], name=kind) for i, kind in enumerate(kinds)], MAP, ["y"])


def test_shapes_are_known_as_a_whole_or_not_at_all() -> None:
    assert static_shape(ir.val("a", ir.DataType.FLOAT, (1, 2))) == (1, 2)
    for value in (None, ir.val("a"), ir.val("a", ir.DataType.FLOAT, (1, "n"))):
        assert static_shape(value) is None


def test_standard_operators_are_those_of_onnx() -> None:
    assert is_standard(ir.node("Relu", []), "Relu", "Add")
    assert is_standard(ir.node("Relu", [], domain="ai.onnx"), "Relu")
    assert not is_standard(ir.node("Relu", [], domain="horizon"), "Relu")
    assert not is_standard(ir.node("Relu", []), "Add")
    assert not is_standard(None, "Relu")


def test_a_pattern_collapses_to_one_node_of_ours_under_the_old_output() -> None:
    model = chain("Softmax", "Transpose")
    first, last = model.graph
    collapse(last, "HzSoftmax", first.inputs[0], name="Softmax", axis=1)
    made = model.graph.outputs[0].producer()
    assert made is not None
    assert (made.op_type, made.domain, made.name) == ("HzSoftmax", "horizon", "Softmax")
    assert (made.inputs[0], made.outputs[0].name) == (model.graph.inputs[0], "y")
    assert made.attributes["axis"].as_int() == 1


def test_only_used_outputs_are_taken_over() -> None:
    model = build([node("Split", "x", "a b", name="split", axis=1), node("Relu", "b", "y")], MAP, ["y"])
    split, relu = model.graph
    made = make_node("Neg", [model.graph.inputs[0]], name="neg", output="n", like=split.outputs[1])
    substitute_outputs(split, [made], {split.outputs[1]: made.outputs[0]})
    assert list(model.graph) == [made, relu]
    assert relu.inputs[0] is made.outputs[0]


def test_a_sole_reader_reads_once_and_nothing_else_does() -> None:
    model = build(
        [node("Relu", "x", "r"), node("Abs", "r", "a"), node("Mul", "a a", "m"), node("Neg", "m", "y")], MAP, ["y", "m"]
    )
    relu, absolute, product, _ = model.graph
    assert sole_reader(relu.outputs[0], once=True) is absolute
    assert sole_reader(absolute.outputs[0], once=True) is None, "read twice by one node"
    assert sole_reader(product.outputs[0], once=True) is None, "an output of the graph"


def test_an_initializer_that_is_an_input_is_no_constant() -> None:
    model = build([node("Add", "x w")], MAP, ["y"], {"w": normal(1)})
    weight = model.graph.initializers["w"]
    np.testing.assert_array_equal(initializer_of(weight), weight.const_value.numpy())
    model.graph.inputs.append(weight)
    assert initializer_of(weight) is None
    assert initializer_of(model.graph.inputs[0]) is None


def test_names_of_constants_are_unique() -> None:
    graph = chain("Relu").graph
    assert [add_initializer(graph, "w", normal(2)).name for _ in range(3)] == ["w", "w_1", "w_2"]


def test_a_constant_is_changed_for_one_reader_only() -> None:
    model = build(
        [node("Add", "x w", "a", name="first"), node("Mul", "a w", name="second")], MAP, ["y"], {"w": normal(1)}
    )
    first, second = model.graph
    old = initializer_of(second.inputs[1]).copy()
    replace_constant(first, 1, normal(1, 4, 1, 1))
    assert (first.inputs[1].name, first.inputs[1].shape) == ("first_w", (1, 4, 1, 1))
    np.testing.assert_array_equal(initializer_of(second.inputs[1]), old)
    replace_constant(second, 1, normal(4, 1, 1))
    assert (second.inputs[1].name, second.inputs[1].shape) == ("w", (4, 1, 1))
    with pytest.raises(ValueError, match="input 1 of node 'r' is absent"):
        set_constant_of_absent(model)


def set_constant_of_absent(model: ir.Model) -> None:
    relu = ir.node("Clip", [model.graph[0].outputs[0], None], name="r")
    model.graph.append(relu)
    replace_constant(relu, 1, normal(1))


def test_a_made_node_is_like_another() -> None:
    like = ir.val("like", ir.DataType.FLOAT, (2, 3))
    same = make_node("Relu", [like], name="a", output="b", like=like).outputs[0]
    assert (same.name, same.dtype, same.shape) == ("b", ir.DataType.FLOAT, (2, 3))
    assert make_node("Relu", [like], name="a", output="b", like=like, shape=(6,)).outputs[0].shape == (6,)


@pytest.mark.parametrize(("opset", "inputs"), [(12, 1), (13, 2)])
def test_sizes_of_a_split_are_an_input_since_opset_13(opset: int, inputs: int) -> None:
    model = build([node("Relu", "x", "r"), node("Abs", "r")], MAP, ["y"], opset=opset)
    source = model.graph[0].outputs[0]
    split = make_split(model.graph, source, 1, (1, 3), "s")
    assert (len(split.inputs), "split" in split.attributes) == (inputs, inputs == 1)
    assert [(value.name, static_shape(value)) for value in split.outputs] == [
        ("s_0", (1, 1, 8, 8)),
        ("s_1", (1, 3, 8, 8)),
    ]


def test_what_takes_a_nodes_place_has_its_output() -> None:
    model = chain("Relu", "Abs", "Neg")
    absolute = model.graph[1]
    first = make_node("Exp", [absolute.inputs[0]], name="e", output="e_out", like=absolute.outputs[0])
    last = make_node("Log", [first.outputs[0]], name="l", output="l_out", like=absolute.outputs[0])
    substitute(absolute, [first, last])
    assert operators(model) == ["Relu", "Exp", "Log", "Neg"]
    assert last.outputs[0].name == "t2"


def test_a_bypassed_node_leaves_its_users_and_the_name_of_an_output() -> None:
    model = chain("Relu", "Identity", "Neg")
    assert bypass(model.graph[1])
    assert operators(model) == ["Relu", "Neg"]
    model = chain("Relu", "Identity")
    assert bypass(model.graph[1])
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert model.graph[0].outputs[0].name == "y"


def test_what_is_an_input_or_another_output_is_not_bypassed() -> None:
    assert not bypass(chain("Identity").graph[0])
    model = build([node("Relu", "x", "r"), node("Identity", "r", "y")], MAP, ["r", "y"])
    assert not bypass(model.graph[1])
    assert operators(model) == ["Relu", "Identity"]


def test_a_node_that_does_the_next_ones_work_has_its_output() -> None:
    model = chain("Relu", "Abs")
    relu, absolute = model.graph
    absorb_next(relu, absolute)
    assert (operators(model), relu.outputs[0].name) == (["Relu"], "y")


@pytest.mark.parametrize(
    ("attributes", "constants", "expected"),
    [
        ({"axes": [-1, 1]}, {}, (1, 3)),
        ({}, {}, ()),
        ({}, {"a": np.asarray([-2])}, (2,)),
    ],
)
def test_axes_come_from_the_attribute_or_the_second_input(
    attributes: dict[str, list[int]], constants: dict[str, np.ndarray], expected: tuple[int, ...]
) -> None:
    opset = 11 if attributes else 13
    model = build(
        [node("ReduceSum", "x a" if constants else "x", keepdims=1, **attributes)], MAP, ["y"], constants, opset
    )
    assert axes_of(model.graph[0], 4) == expected


def test_computed_axes_are_unknown() -> None:
    made = ir.node("ReduceSum", [ir.val("x"), ir.val("a")])
    assert axes_of(made, 4) is None


@pytest.mark.parametrize(
    ("inputs", "attributes", "expected"),
    [
        ("x", {}, (-np.inf, np.inf)),
        ("x low", {}, (-1.0, np.inf)),
        ("x _ high", {}, (-np.inf, 6.0)),
        ("x low high", {}, (-1.0, 6.0)),
        ("x", {"min": 0.0, "max": 2.0}, (0.0, 2.0)),
        ("x x", {}, None),
    ],
)
def test_bounds_of_a_clip(inputs: str, attributes: dict[str, float], expected: tuple[float, float] | None) -> None:
    proto = node("Clip", inputs, **attributes)
    names = {"x": ir.val("x")}
    for name, number in (("low", -1.0), ("high", 6.0)):
        names[name] = ir.val(name, const_value=ir.tensor(np.asarray(number, np.float32)))
    made = ir.node("Clip", [names.get(name) for name in proto.input], attributes)
    assert clip_bounds(made) == expected


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("x pads", Padding((0, 1, 0, 2), (0, -1, 0, 3), "constant", 0.0)),
        ("x pads value", Padding((0, 1, 0, 2), (0, -1, 0, 3), "constant", 1.5)),
        ("x two _ axes", Padding((0, 0, 0, 7), (0, 0, 0, 8), "constant", 0.0)),
        ("x two", None),
        ("x x", None),
    ],
)
def test_what_a_pad_adds(inputs: str, expected: Padding | None) -> None:
    arrays = {
        "pads": np.asarray([0, 1, 0, 2, 0, -1, 0, 3]),
        "two": np.asarray([7, 8]),
        "value": np.float32(1.5),
        "axes": np.asarray([-1]),
    }
    names = {name: ir.val(name, const_value=ir.tensor(array)) for name, array in arrays.items()} | {"x": ir.val("x")}
    assert padding_of(ir.node("Pad", [names.get(name) for name in inputs.split()]), 4) == expected


def test_other_modes_pad_with_no_value() -> None:
    made = ir.node("Pad", [ir.val("x")], {"pads": [1, 1], "value": 3.0, "mode": "edge"})
    assert padding_of(made, 1) == Padding((1,), (1,), "edge", 0.0)


def test_lists_of_integers_have_a_default() -> None:
    assert ints(ir.node("Conv", [], {"pads": [1, 2]}), "pads", ()) == (1, 2)
    assert ints(ir.node("Conv", []), "pads", [0]) == (0,)


def test_a_node_outside_a_graph_has_none() -> None:
    with pytest.raises(TypeError, match="node 'lost' is in no graph"):
        graph_of(ir.node("Relu", [], name="lost"))
