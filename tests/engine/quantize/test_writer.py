"""Names, constants and attributes of a quantised graph as it is written."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.chips import ChipFamily
from engine.quantize.writer import GraphWriter, transposed
from engine.rulebook.name import Naming

INT8 = ir.TensorType(ir.DataType.INT8)


def value(name: str) -> ir.Value:
    return ir.Value(name=name, type=INT8, shape=ir.Shape((1, 2, 3, 4)))


def test_a_name_that_is_taken_gets_a_number() -> None:
    writer = GraphWriter(Naming(ChipFamily.BAYES))
    assert [writer.unique(name) for name in ("a", "a", "b", "a", "a_1")] == ["a", "a_1", "b", "a_2", "a_1_1"]


def test_a_node_may_be_called_like_a_tensor_and_not_like_a_node() -> None:
    writer = GraphWriter(Naming(ChipFamily.BAYES))
    results = [writer.append("HzLut", "n", [value("x")], {}, "n", INT8, (1,)) for _ in range(2)]
    assert [result.name for result in results] == ["n", "n_1"]
    assert [node.name for node in writer.nodes] == ["n", "n_1"]
    assert {node.domain for node in writer.nodes} == {"horizon"}


def test_attributes_without_a_value_are_left_out() -> None:
    writer = GraphWriter(Naming(ChipFamily.BAYES))
    writer.append("HzRequantize", "n", [value("x")], {"axis": 3, "data_format": None, "scale": [1.5]}, "y", INT8, (1,))
    (node,) = writer.nodes
    assert {key: item.value for key, item in node.attributes.items()} == {"axis": 3, "scale": (1.5,)}


def test_only_maps_have_a_layout() -> None:
    assert transposed((1, 2, 3, 4), (0, 2, 3, 1)) == (1, 3, 4, 2)
    assert transposed((1, 2, 3), (0, 2, 3, 1)) == (1, 2, 3)
    turned = GraphWriter(Naming(ChipFamily.BAYES)).transpose(value("x"), (0, 2, 3, 1), "turn", "t")
    node = turned.producer()
    assert node is not None
    assert (turned.shape, turned.dtype, node.domain) == (ir.Shape((1, 3, 4, 2)), ir.DataType.INT8, "")
    assert tuple(node.attributes["perm"].as_ints()) == (0, 2, 3, 1)


def test_nodes_are_written_at_places_that_were_marked() -> None:
    writer = GraphWriter(Naming(ChipFamily.BAYES))
    x = value("x")
    writer.append("HzLut", "first", [x], {}, "a", INT8, (1,))
    writer.mark("place")
    writer.append("HzLut", "last", [x], {}, "b", INT8, (1,))
    writer.mark("place")
    for name in ("second", "third"):
        with writer.standing_at("place"):
            writer.append("HzQuantize", name, [x], {}, name, INT8, (1,))
    with writer.standing_at("nowhere"):
        writer.append("HzLut", "behind", [x], {}, "c", INT8, (1,))
    assert [node.name for node in writer.nodes] == ["first", "second", "third", "last", "behind"]


def test_a_transpose_of_an_input_stands_in_front_of_its_first_reader() -> None:
    writer = GraphWriter(Naming(ChipFamily.BAYES))
    turned = [writer.input_transpose(value(name), (0, 2, 3, 1), f"turn_{name}", f"t_{name}") for name in ("x", "y")]
    writer.append("HzLut", "other", [value("z")], {}, "a", INT8, (1,))
    for reader in ("first", "second"):
        writer.append("Concat", reader, turned, {}, reader, INT8, (1,), "")
    assert [node.name for node in writer.nodes] == ["other", "turn_x", "turn_y", "first", "second"]
    assert turned[0].shape == ir.Shape((1, 3, 4, 2))


def test_constants_are_made_once_and_kept_where_they_are_read() -> None:
    writer = GraphWriter(Naming(ChipFamily.BAYES))
    scale, unread = writer.initializer("scale", np.ones(1, np.float32)), writer.initializer("unread", np.zeros(2))
    assert writer.initializer("scale", np.ones(1, np.float32)) is scale
    other = [writer.initializer("scale", np.zeros(9)) for _ in range(2)]
    assert other[0] is other[1]
    assert other[0].name == "scale_1"
    x = value("x")
    y = writer.append("HzQuantize", "q", [x, scale], {}, "y", INT8, (1, 2, 3, 4))
    empty = ir.Graph([], [], nodes=[], opset_imports={"": 11}, name="net")
    source = ir.Model(empty, ir_version=8, metadata_props={"kept": "yes", "hz.march": "other"})
    model = writer.model(source, [x], [y], "bayes")
    assert list(model.graph.initializers) == ["scale"]
    assert unread.name == "unread"
    assert (model.ir_version, model.producer_name, model.graph.name) == (6, "ptqlab", "net")
    assert dict(model.graph.opset_imports) == {"": 11, "horizon": 1}
    assert model.metadata_props == {"kept": "yes", "hz.march": "bayes"}


def test_a_number_without_axes_stays_one() -> None:
    """The exponent of a Pow and the value of a Pad on the CPU."""
    found = GraphWriter(Naming(ChipFamily.BAYES)).initializer("exponent", np.asarray(np.float32(2)))
    assert (found.shape, found.dtype) == (ir.Shape(()), ir.DataType.FLOAT)
