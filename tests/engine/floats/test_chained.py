"""Float models with custom operators: any graph of them and standard operators gives what numpy gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, strategies
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.errors import ModelError
from engine.floats import chained
from engine.floats.chained import StepLayout, _bytes, _Computed
from engine.floats.float_model import FloatSession
from engine.ops.foreign.custom_registry import op_implement_register

Array = NDArray[Any]
SHAPE = (1, 2, 3)


@op_implement_register("TestBlend")
def blend(a: Array, b: Array) -> list[Array]:
    return [a - 2 * b, a * b]


OPERATORS = {
    "Add": lambda a, b: [a + b],
    "Neg": lambda a: [-a],
    "Abs": lambda a: [np.abs(a)],
    "PyOp": blend,
}
ARITY = {"Add": 2, "Neg": 1, "Abs": 1, "PyOp": 2}


@strategies.composite
def networks(draw: strategies.DrawFn) -> onnx.ModelProto:
    """Nodes that read any earlier tensors: two inputs, an initializer, a Constant; some tensors are outputs.

    The first node is a custom one, and a result of it is an output: so there is always one.
    """
    names = ["x", "z", "w", "c"]
    value = numpy_helper.from_array(np.full(SHAPE, 0.5, np.float32))
    nodes = [helper.make_node("Constant", [], ["c"], "constant", value=value)]
    for index in range(draw(strategies.integers(1, 8))):
        kind = draw(strategies.sampled_from(sorted(OPERATORS))) if index else "PyOp"
        inputs = [draw(strategies.sampled_from(names)) for _ in range(ARITY[kind])]
        custom = kind == "PyOp"
        outputs = [f"t{index}", f"u{index}"] if custom else [f"t{index}"]
        extra = {"domain": "horizon.custom", "class_name": "TestBlend"} if custom else {}
        nodes.append(helper.make_node(kind, inputs, outputs, f"n{index}", **extra))
        names += outputs
    ends = ["u0", *draw(strategies.lists(strategies.sampled_from([*names[6:], "t0"]), max_size=4, unique=True))]

    def info(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)

    weight = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(SHAPE), "w")
    graph = helper.make_graph(
        nodes, "g", [info("x"), info("z")], list(map(info, ends)), [weight],
        value_info=[info(name) for name in names[4:] if name not in ends],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("horizon.custom", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def computed(model: onnx.ModelProto, feed: dict[str, Array]) -> dict[str, Array]:
    """The graph in numpy, one sample."""
    values = {**feed, "w": numpy_helper.to_array(model.graph.initializer[0]), "c": np.full(SHAPE, 0.5, np.float32)}
    for node in model.graph.node[1:]:
        values.update(zip(node.output, OPERATORS[node.op_type](*(values[name] for name in node.input)), strict=True))
    return {value.name: values[value.name] for value in model.graph.output}


@given(networks())
def test_any_graph_gives_what_numpy_gives(model: onnx.ModelProto) -> None:
    rng = np.random.default_rng(0)
    feed = {name: rng.standard_normal((3, *SHAPE[1:]), np.float32) for name in ("x", "z")}
    session = FloatSession(ir.from_proto(model))
    found = session.run(feed)
    buffers = {name: np.empty((3, *SHAPE[1:]), np.float32) for name in found}
    session.run_into(feed, buffers)
    for sample in range(3):
        expected = computed(model, {name: array[sample : sample + 1] for name, array in feed.items()})
        assert list(found) == list(expected)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name][sample : sample + 1], array, rtol=1e-6)
            np.testing.assert_array_equal(buffers[name][sample], found[name][sample])


def test_a_failing_operator_is_named() -> None:
    @op_implement_register("TestFails")
    def fails(x: Array) -> Array:
        raise ValueError("too deep")

    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y")]
    node = helper.make_node("PyOp", ["x"], ["y"], "deep", domain="horizon.custom", class_name="TestFails")
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("horizon.custom", 1)], ir_version=8)
    session = FloatSession(ir.from_proto(model))
    with pytest.raises(ModelError, match=r"node deep \(PyOp TestFails\) cannot be computed: ValueError: too deep"):
        session.run({"x": np.zeros(SHAPE, np.float32)})


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 64), (16, 64), (17, 128)])
def test_arrays_begin_on_cache_lines(size: int, expected: int) -> None:
    assert _bytes(((size,), np.dtype(np.float32))) == expected


def test_results_share_memory_unless_they_are_needed_at_once() -> None:
    sizes = {"a": 16, "b": 32, "c": 16, "d": 8}

    def step(source: str, result: str) -> _Computed:
        return _Computed(lambda given, made: None, (source,), {result: ((sizes[result],), np.dtype(np.float32))})

    layout = StepLayout([step("x", "a"), step("a", "b"), step("b", "c"), step("c", "d")])
    with layout.room() as room, layout.room() as other_run:
        assert not any(np.shares_memory(room[name], other_run[name]) for name in sizes)
    with layout.room() as again:
        assert again is room
    assert {name: array.shape for name, array in room.items()} == {name: (size,) for name, size in sizes.items()}
    spans = {name: array.__array_interface__["data"][0] for name, array in room.items()}

    def apart(one: str, other: str) -> bool:
        return not np.shares_memory(room[one], room[other])

    assert all(apart(one, other) for one, other in itertools.pairwise("abcd"))
    assert spans["a"] == spans["c"], "a is read for the last time before c is made"
    assert layout._size == 64 + 128


def test_whether_python_computes_a_node_is_asked_once_and_not_per_part(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["x", *(f"t{index}" for index in range(20))]
    nodes = [
        helper.make_node("Neg", [one], [other], f"n{index}")
        if index % 2
        else helper.make_node("PyOp", [one, one], [other, f"u{index}"], f"n{index}", "", "horizon.custom")
        for index, (one, other) in enumerate(itertools.pairwise(names))
    ]
    for node in nodes[::2]:
        node.attribute.append(helper.make_attribute("class_name", "TestBlend"))
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in names]
    graph = helper.make_graph(nodes, "g", info[:1], info[-1:], value_info=info[1:-1])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("horizon.custom", 1)]
    asked: list[ir.Node] = []
    is_apart = chained.is_apart

    def counting(node: ir.Node) -> bool:
        asked.append(node)
        return is_apart(node)

    monkeypatch.setattr(chained, "is_apart", counting)
    session = FloatSession(ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8)))
    assert len(asked) == len(nodes)
    x = np.ones(SHAPE, np.float32)
    np.testing.assert_array_equal(session.run({"x": x})["t19"], x)  # blend gives -x of x and x
