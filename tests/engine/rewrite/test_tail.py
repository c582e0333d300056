"""The decode tail of a network."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.rewrite.proof import FloatNetwork, random_inputs
from engine.rewrite.tail import cut_tail, tail_nodes
from tests.engine.rewrite.networks import HEAD, operators, source
from tests.engine.spelled import network

DETECTOR = (
    f"{HEAD}boxes = Conv(c, W(64, 8, 1, 1)); scores = Conv(c, W(3, 8, 1, 1)); "
    "t = Transpose(Reshape(boxes, [1, 4, 16, 64]), perm=[0, 2, 1, 3]); "
    f"d = Reshape(Conv(Softmax(t, axis=1), {np.arange(16.0).reshape(1, 16, 1, 1).tolist()}), [1, 4, 64]); "
    "y = Concat(Mul(d, W(1, 4, 64)), Sigmoid(Reshape(scores, [1, 3, 64])), axis=1)"
)


def test_a_detector_gives_its_raw_heads_and_the_tail_decodes_them() -> None:
    model = source(DETECTOR)
    softmax = next(str(node.name) for node in model.graph if node.op_type == "Softmax")
    cut = cut_tail(model, {softmax})
    assert cut is not None
    assert operators(cut.head) == ["Conv", "Relu", "Conv", "Conv"]
    assert [value.name for value in cut.head.graph.outputs] == ["boxes", "scores"]
    assert operators(cut.tail).count("Conv") == 1
    assert [value.name for value in cut.tail.graph.inputs] == ["boxes", "scores"]
    assert [value.name for value in cut.tail.graph.outputs] == ["y"]
    feed = random_inputs(model, np.random.default_rng(0))
    heads = dict(zip(("boxes", "scores"), FloatNetwork(cut.head).run(feed), strict=True))
    np.testing.assert_array_equal(FloatNetwork(cut.tail).run(heads)[0], FloatNetwork(model).run(feed)[0])


def test_a_tail_without_a_cpu_node_stays() -> None:
    assert cut_tail(source(DETECTOR), set()) is None
    assert tail_nodes(source(f"{HEAD}y = Relu(Conv(c, W(4, 8, 1, 1)))"), {"Relu_1"}) == ()


def test_only_the_part_with_a_cpu_node_is_cut() -> None:
    text = f"{HEAD}a = Conv(c, W(4, 8, 1, 1)); b = Conv(c, W(2, 8, 1, 1)); y = Softmax(a, axis=1); z = Relu(b)"
    model = ir.from_proto(network(text.replace("; ", "\n")))
    model.graph.outputs[:] = [node.outputs[0] for node in tuple(model.graph)[4:]]
    cut = cut_tail(model, {"Softmax_4"})
    assert cut is not None
    assert cut.names == ("Softmax_4",)
    assert [value.name for value in cut.head.graph.outputs] == ["a", "z"]
    assert [value.name for value in cut.tail.graph.outputs] == ["y"]


def test_a_resize_belongs_to_the_network() -> None:
    model = source(f"{HEAD}r = Resize(Conv(c, W(4, 8, 1, 1)), None, [1., 1., 2., 2.]); y = Softmax(r, axis=1)")
    names = tail_nodes(model, {str(model.graph[-1].name)})
    assert names == (model.graph[-1].name,)


def test_a_network_that_is_all_tail_stays() -> None:
    assert cut_tail(source("y = Softmax(x, axis=1)"), {"Softmax_0"}) is None


def test_a_tail_may_read_an_input_of_the_network() -> None:
    model = source("a = Conv(x, W(4, 4, 1, 1)); y = Softmax(Add(a, x), axis=1)")
    cut = cut_tail(model, {"Softmax_2"})
    assert cut is not None
    assert {value.name for value in cut.tail.graph.inputs} == {"a", "x"}
