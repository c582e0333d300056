"""Graphs as records: where numbers lie, how narrow they are, what has no place."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.compile.codec import DataReader, DataWriter, decode_graph, encode_graph
from engine.compile.packing import Block, ElementOrder
from engine.compile.partition import Segment
from engine.compile.records import AttributeKind, AttributeRecord, BlobRecord
from engine.errors import ContainerError, ModelError
from engine.terms import Device

BLOCK = Block(out_channels=4, in_channels=2)
INT8 = ir.TensorType(ir.DataType.INT8)


def tensor(name: str, *shape: int, constant: np.ndarray | None = None) -> ir.Value:
    held = None if constant is None else ir.tensor(constant, name=name)
    kind = INT8 if held is None else ir.TensorType(held.dtype)
    return ir.Value(name=name, type=kind, shape=ir.Shape(shape), const_value=held)


def model_of(device: Device = Device.BPU, **attributes: Any) -> tuple[ir.Model, list[Segment]]:
    """One node with a weight, of any attributes."""
    x, w = tensor("x", 1, 2, 2, 3), tensor("w", 5, 1, 1, 3, constant=np.arange(15, dtype=np.int8).reshape(5, 1, 1, 3))
    node = ir.node("Made", [x, w], attributes, domain="horizon", outputs=[tensor("y", 1, 2, 2, 5)], name="n")
    node.metadata_props["mark"] = "kept"
    opsets = {"": 11, "horizon": 1}
    graph = ir.Graph([x], node.outputs, nodes=[node], initializers=[w], opset_imports=opsets, name="g")
    return ir.Model(graph, ir_version=7, metadata_props={"of": "model"}), [Segment(device, (node,))]


def attribute_of(**attributes: Any) -> AttributeRecord:
    record, _, _ = encode_graph(*model_of(**attributes), ["s"], BLOCK)
    (found,) = record.segments[0].nodes[0].attributes.values()
    return found


def test_blobs_begin_at_multiples_of_16() -> None:
    writer = DataWriter(BLOCK)
    blobs = [writer.add(np.zeros(size, np.int8)) for size in (1, 16, 17)]
    assert [(blob.offset, blob.length) for blob in blobs] == [(0, 1), (16, 16), (32, 17)]
    assert len(writer.data()) == 49


def test_what_lies_outside_the_data_is_refused() -> None:
    reader = DataReader(bytes(8), BLOCK)
    assert reader.get(BlobRecord(offset=4, length=4, dtype="int8", shape=(4,))).tolist() == [0] * 4
    with pytest.raises(ContainerError, match="a constant of 5 bytes at 4 lies outside the DATA section"):
        reader.get(BlobRecord(offset=4, length=5, dtype="int8", shape=(5,)))


def test_weights_are_packed_and_other_constants_lie_in_a_row() -> None:
    """(5, 1, 1, 3) in blocks of 4 x 2: 8 x 4 bytes."""
    record, data, cpu_models = encode_graph(*model_of(), ["s"], BLOCK)
    blob = record.constants["w"]
    assert (blob.layout, blob.length, len(data), cpu_models) == (ElementOrder.BLOCKED, 32, 32, [])
    model, segments = model_of()
    node = segments[0].nodes[0]
    node.replace_input_with(0, node.inputs[1])
    node.replace_input_with(1, model.graph.inputs[0])
    record, _, _ = encode_graph(model, segments, ["s"], BLOCK)
    assert (record.constants["w"].layout, record.constants["w"].length) == (ElementOrder.LINEAR, 15)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(127, "int8"), (-128, "int8"), (128, "int16"), (-32769, "int32"), (2**31, "int64")],
)
def test_long_lists_take_the_narrowest_type(value: int, dtype: str) -> None:
    short, long = attribute_of(a=[value] * 8), attribute_of(a=[value] * 9)
    assert (short.kind, short.value, short.blob) == (AttributeKind.INTS, (value,) * 8, None)
    assert (long.value, long.blob and long.blob.dtype) == (None, dtype)


@pytest.mark.parametrize(
    ("value", "kind", "stated"),
    [(3, "INT", 3), ("text", "STRING", "text"), (["a", "b"], "STRINGS", ("a", "b")), (1.5, "FLOAT", None)],
)
def test_floats_lie_among_the_data(value: Any, kind: str, stated: Any) -> None:
    record = attribute_of(a=value)
    assert (record.kind, record.value) == (kind, stated)
    assert (record.blob is None) is (kind != "FLOAT")


@pytest.mark.parametrize("device", [Device.BPU, Device.CPU])
def test_a_graph_comes_back_as_it_was(device: Device) -> None:
    attributes = {"i": 1, "l": [2, 3], "far": [400] * 12, "f": 0.1, "fs": [0.1, 2.0], "s": "t", "ss": ["u", "v"]}
    model, segments = model_of(device, **attributes)
    record, data, cpu_models = encode_graph(model, segments, ["s"], BLOCK)
    assert len(cpu_models) == (device is Device.CPU)
    again, (segment,) = decode_graph(record, data, cpu_models)
    (node,) = again.graph
    assert (segment.device, segment.nodes) == (device, (node,))
    assert (node.name, node.op_type, node.domain, dict(node.metadata_props)) == (
        "n",
        "Made",
        "horizon",
        {"mark": "kept"},
    )
    found = {key: item.value for key, item in node.attributes.items()}
    assert found["f"] == np.float32(0.1)
    assert {key: list(np.ravel(value)) for key, value in found.items() if key in ("i", "l", "far", "s", "ss")} == {
        key: list(np.ravel(attributes[key])) for key in ("i", "l", "far", "s", "ss")
    }
    weight = again.graph.initializers["w"].const_value
    assert weight is not None
    assert weight.numpy().ravel().tolist() == list(range(15))
    assert (again.ir_version, dict(again.graph.opset_imports)) == (7, {"": 11, "horizon": 1})
    assert again.metadata_props == {"of": "model"}


def test_what_a_container_cannot_hold_is_named() -> None:
    model, segments = model_of()
    segments[0].nodes[0].attributes["g"] = ir.AttrGraph("g", ir.Graph([], [], nodes=[], name="inner"))
    with pytest.raises(ModelError, match=r"node n: attribute g of type GRAPH cannot be stored in a \.bin"):
        encode_graph(model, segments, ["s"], BLOCK)
    model, segments = model_of()
    model.graph.inputs[0].shape = ir.Shape(["N", 2])
    with pytest.raises(ModelError, match="tensor x: its type and shape must be known"):
        encode_graph(model, segments, ["s"], BLOCK)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT", "text"),
        ("INTS", ("a",)),
        ("STRINGS", (1,)),
        ("FLOAT", 1),
        ("TENSOR", None),
        ("FLOAT", np.ones(1, np.float32)),
        ("FLOAT", np.ones((), np.float64)),
        ("FLOATS", np.ones((1, 1), np.float32)),
        ("FLOATS", np.ones(1, np.int32)),
        ("INTS", np.ones((1, 1), np.int8)),
        ("INTS", np.ones(1, np.float32)),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, value: Any) -> None:
    record, _, _ = encode_graph(*model_of(a=1), ["s"], BLOCK)
    writer = DataWriter(BLOCK)
    writer.add(np.arange(15, dtype=np.int8).reshape(5, 1, 1, 3), ElementOrder.BLOCKED)
    is_blob = isinstance(value, np.ndarray)
    content = {"blob": writer.add(value)} if is_blob else {"value": value}
    wrong, data = AttributeRecord(kind=AttributeKind(kind), **content), writer.data()
    (segment,) = record.segments
    node = segment.nodes[0].model_copy(update={"attributes": {"a": wrong}})
    broken = record.model_copy(update={"segments": (segment.model_copy(update={"nodes": (node,)}),)})
    with pytest.raises(ContainerError, match=f"attribute a: its value does not have the type {kind}"):
        decode_graph(broken, data, [])


def test_cpu_sections_must_be_there_and_agree() -> None:
    model, segments = model_of(Device.CPU)
    record, data, (section,) = encode_graph(model, segments, ["s"], BLOCK)
    with pytest.raises(ContainerError, match="CPU segment s: its ONNX section is missing"):
        decode_graph(record, data, [])
    with pytest.raises(ContainerError, match="CPU segment s: its section is not an ONNX model"):
        decode_graph(record, data, [b"\xff garbage"])
    other = np.ones((5, 1, 1, 3), np.int8)
    writer = DataWriter(BLOCK)
    clash = record.model_copy(update={"constants": {"w": writer.add(other)}})
    with pytest.raises(ContainerError, match="constant w has different values in two segments"):
        decode_graph(clash, writer.data(), [section])
