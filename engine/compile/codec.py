"""A quantised graph as sections of a container, and back.

BPU segments become typed records plus packed numbers; CPU segments stay ONNX, which is what the runtime hands to its
CPU operators. :func:`decode_graph` rebuilds the quantised model, node for node and bit for bit, in running order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from engine.compile.packing import Block, ElementOrder, pack, unpack, weight_layout
from engine.compile.partition import Segment
from engine.compile.records import (
    AttributeKind,
    AttributeRecord,
    BlobRecord,
    BlockRecord,
    GraphRecord,
    NodeRecord,
    SegmentRecord,
    TensorRecord,
)
from engine.errors import ContainerError, ModelError
from engine.ir import check_tensors, check_texts
from engine.terms import Device

_INLINE_LIST = 8
"""Integer lists up to this length stay in the record."""
_BLOB_ALIGNMENT = 16
_WEIGHT_INPUT = 1
"""Position of the weight among a node's inputs."""


class DataWriter:
    """Collects arrays into the DATA section."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._data = bytearray()

    def add(self, array: NDArray[Any], layout: ElementOrder = ElementOrder.LINEAR) -> BlobRecord:
        """Append ``array`` and say where it is."""
        self._data += bytes(-len(self._data) % _BLOB_ALIGNMENT)
        offset = len(self._data)
        self._data += pack(array, layout, self.block)
        dtype: Any = array.dtype.name
        return BlobRecord(
            offset=offset, length=len(self._data) - offset, dtype=dtype, shape=tuple(array.shape), layout=layout
        )

    def data(self) -> bytes:
        """The DATA section."""
        return bytes(self._data)


class DataReader:
    """Gives arrays of the DATA section back."""

    def __init__(self, data: bytes, block: Block) -> None:
        self._block = block
        self._data = memoryview(data)

    def get(self, blob: BlobRecord) -> NDArray[Any]:
        """The array at ``blob``.

        Raises:
            ContainerError: it lies outside the section or does not have the size that its shape implies.
        """
        if blob.offset + blob.length > len(self._data):
            raise ContainerError(f"a constant of {blob.length} bytes at {blob.offset} lies outside the DATA section")
        piece = self._data[blob.offset : blob.offset + blob.length]
        return unpack(piece, blob.dtype, blob.shape, blob.layout, self._block)


def encode_graph(
    model: ir.Model, segments: Sequence[Segment], names: Sequence[str], block: Block
) -> tuple[GraphRecord, bytes, list[bytes]]:
    """The GRAPH record, the DATA section and one ONNX model per CPU segment.

    Args:
        model: a quantised model, all tensor types and shapes known.
        segments: its partition.
        names: one name per segment.
        block: channels that weights are padded to.

    Raises:
        ModelError: a tensor has no static type, or a type or attribute that the container cannot hold.
    """
    graph = model.graph
    writer = DataWriter(block)
    records, cpu_models = [], []
    constants: dict[str, BlobRecord] = {}
    for segment, name in zip(segments, names, strict=True):
        if segment.device is Device.CPU:
            cpu_models.append(_cpu_model(model, segment.nodes, name))
            records.append(SegmentRecord(device=segment.device, name=name))
            continue
        for node in segment.nodes:
            _add_constants(node, constants, writer)
        encoded = tuple(_encode_node(node, writer) for node in segment.nodes)
        records.append(SegmentRecord(device=segment.device, name=name, nodes=encoded))
    for value in graph.outputs:
        if value.const_value is not None:
            constants.setdefault(_name(value), writer.add(value.const_value.numpy()))
    nodes = [node for segment in segments for node in segment.nodes]
    inner = [value for node in nodes for value in node.outputs if value.name and not value.is_graph_output()]
    record = GraphRecord(
        name=graph.name or "graph",
        ir_version=model.ir_version,
        opsets=dict(sorted(model.opset_imports.items())),
        block=BlockRecord(**asdict(block)),
        inputs=tuple(_tensor(value) for value in graph.inputs),
        outputs=tuple(_tensor(value) for value in graph.outputs),
        values=tuple(_tensor(value) for value in inner),
        constants=constants,
        segments=tuple(records),
        metadata=dict(sorted(model.metadata_props.items())),
    )
    return record, writer.data(), cpu_models


def decode_graph(record: GraphRecord, data: bytes, cpu_models: Sequence[bytes]) -> tuple[ir.Model, tuple[Segment, ...]]:
    """Inverse of :func:`encode_graph`.

    Raises:
        ContainerError: the parts do not form a valid graph.
    """
    reader = DataReader(data, Block(**record.block.model_dump()))
    initializers = {name: numpy_helper.from_array(reader.get(blob), name) for name, blob in record.constants.items()}
    remaining = iter(cpu_models)
    nodes: list[onnx.NodeProto] = []
    counts = []
    for segment in record.segments:
        if segment.device is Device.CPU:
            part = _parse_cpu_model(next(remaining, None), segment.name)
            _merge_constants(initializers, part.initializer)
            added: Sequence[onnx.NodeProto] = part.node
        else:
            added = [_decode_node(node, reader) for node in segment.nodes]
        nodes.extend(added)
        counts.append(len(added))
    model = _build_model(record, nodes, initializers)
    return model, _segments(model, record, counts)


def _add_constants(node: ir.Node, constants: dict[str, BlobRecord], writer: DataWriter) -> None:
    for position, value in enumerate(node.inputs):
        if value is None or value.const_value is None or _name(value) in constants:
            continue
        array = value.const_value.numpy()
        is_weight = position == _WEIGHT_INPUT and array.ndim == 4 and array.dtype == np.int8
        constants[_name(value)] = writer.add(
            array, weight_layout(array.shape, writer.block) if is_weight else ElementOrder.LINEAR
        )


def _encode_node(node: ir.Node, writer: DataWriter) -> NodeRecord:
    return NodeRecord(
        name=node.name or "",
        op_type=node.op_type,
        domain=node.domain,
        inputs=tuple("" if value is None else _name(value) for value in node.inputs),
        outputs=tuple(value.name or "" for value in node.outputs),
        attributes={name: _encode_attribute(node, node.attributes[name], writer) for name in sorted(node.attributes)},
        marks=dict(sorted(node.metadata_props.items())),
    )


def _encode_attribute(node: ir.Node, attribute: ir.Attr, writer: DataWriter) -> AttributeRecord:
    value = attribute.value
    match attribute.type:
        case ir.AttributeType.INT:
            return AttributeRecord(kind=AttributeKind.INT, value=int(value))
        case ir.AttributeType.STRING:
            return AttributeRecord(kind=AttributeKind.STRING, value=str(value))
        case ir.AttributeType.STRINGS:
            return AttributeRecord(kind=AttributeKind.STRINGS, value=tuple(str(item) for item in value))
        case ir.AttributeType.INTS if len(value) <= _INLINE_LIST:
            return AttributeRecord(kind=AttributeKind.INTS, value=tuple(int(item) for item in value))
        case ir.AttributeType.INTS:
            return AttributeRecord(kind=AttributeKind.INTS, blob=writer.add(_narrow(value)))
        case ir.AttributeType.FLOAT:
            return AttributeRecord(kind=AttributeKind.FLOAT, blob=writer.add(np.asarray(value, np.float32)))
        case ir.AttributeType.FLOATS:
            return AttributeRecord(kind=AttributeKind.FLOATS, blob=writer.add(np.asarray(value, np.float32)))
        case ir.AttributeType.TENSOR:
            return AttributeRecord(kind=AttributeKind.TENSOR, blob=writer.add(value.numpy()))
        case other:
            raise ModelError(
                f"node {node.name}: attribute {attribute.name} of type {other.name} cannot be stored in a .bin"
            )


def _narrow(values: Sequence[int]) -> NDArray[Any]:
    """``values`` in the narrowest signed type that holds them all."""
    array = np.asarray(values, np.int64)
    for dtype in (np.int8, np.int16, np.int32):
        if np.array_equal(array.astype(dtype), array):
            return array.astype(dtype)
    return array


def _decode_node(record: NodeRecord, reader: DataReader) -> onnx.NodeProto:
    node = helper.make_node(record.op_type, record.inputs, record.outputs, name=record.name, domain=record.domain)
    for name, attribute in record.attributes.items():
        node.attribute.append(_decode_attribute(name, attribute, reader))
    for key, text in record.marks.items():
        node.metadata_props.add(key=key, value=text)
    return node


def _decode_attribute(name: str, record: AttributeRecord, reader: DataReader) -> onnx.AttributeProto:
    array = None if record.blob is None else reader.get(record.blob)
    proto = onnx.AttributeProto(name=name, type=record.kind.value)
    match record.kind, record.value, array:
        case AttributeKind.INT, int(value), None:
            proto.i = value
        case AttributeKind.INTS, tuple(values), None if all(isinstance(item, int) for item in values):
            proto.ints.extend(item for item in values if isinstance(item, int))
        case AttributeKind.INTS, None, np.ndarray() if array.ndim == 1 and array.dtype.kind == "i":
            proto.ints.extend(array.tolist())
        case AttributeKind.FLOAT, None, np.ndarray() if array.ndim == 0 and array.dtype == np.float32:
            proto.f = float(array)
        case AttributeKind.FLOATS, None, np.ndarray() if array.ndim == 1 and array.dtype == np.float32:
            proto.floats.extend(array.tolist())
        case AttributeKind.STRING, str(text), None:
            proto.s = text.encode()
        case AttributeKind.STRINGS, tuple(texts), None if all(isinstance(item, str) for item in texts):
            proto.strings.extend(str(item).encode() for item in texts)
        case AttributeKind.TENSOR, None, np.ndarray():
            proto.t.CopyFrom(numpy_helper.from_array(array))
        case _:
            raise ContainerError(f"attribute {name}: its value does not have the type {record.kind}")
    return proto


def _cpu_model(model: ir.Model, nodes: Sequence[ir.Node], name: str) -> bytes:
    """An ONNX model of ``nodes``: inputs are what they take from elsewhere, outputs what others take from them."""
    inside = set(nodes)
    read = _unique(value for node in nodes for value in node.inputs if value is not None)
    constants = [value for value in read if value.const_value is not None]
    inputs = [value for value in read if value.const_value is None and value.producer() not in inside]
    outputs = [value for node in nodes for value in node.outputs if value.name and _leaves(value, inside)]
    graph = helper.make_graph(
        [ir.to_proto(node) for node in nodes],
        name,
        [_value_info(_tensor(value)) for value in inputs],
        [_value_info(_tensor(value)) for value in outputs],
        [numpy_helper.from_array(_constant(value), _name(value)) for value in constants],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in sorted(model.opset_imports.items())]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version, producer_name="ptqlab")
    return bytes(proto.SerializeToString(deterministic=True))


def _leaves(value: ir.Value, inside: set[ir.Node]) -> bool:
    return value.is_graph_output() or any(usage.node not in inside for usage in value.uses())


def _parse_cpu_model(data: bytes | None, name: str) -> onnx.GraphProto:
    if data is None:
        raise ContainerError(f"CPU segment {name}: its ONNX section is missing")
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError) as error:
        raise ContainerError(f"CPU segment {name}: its section is not an ONNX model") from error
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        raise ContainerError(f"CPU segment {name}: refers to data outside the file")
    try:
        check_texts(model)
        check_tensors(model)
    except ValueError as error:
        raise ContainerError(f"CPU segment {name}: {error}") from error
    return model.graph


def _merge_constants(known: dict[str, onnx.TensorProto], added: Iterable[onnx.TensorProto]) -> None:
    for tensor in added:
        before = known.setdefault(tensor.name, tensor)
        if before.SerializeToString(deterministic=True) != tensor.SerializeToString(deterministic=True):
            raise ContainerError(f"constant {tensor.name} has different values in two segments")


def _build_model(
    record: GraphRecord, nodes: Sequence[onnx.NodeProto], initializers: Mapping[str, onnx.TensorProto]
) -> ir.Model:
    graph = helper.make_graph(
        nodes,
        record.name,
        [_value_info(tensor) for tensor in record.inputs],
        [_value_info(tensor) for tensor in record.outputs],
        list(initializers.values()),
        value_info=[_value_info(tensor) for tensor in record.values],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in record.opsets.items()]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=record.ir_version, producer_name="ptqlab")
    helper.set_model_props(proto, dict(record.metadata))
    try:
        onnx.checker.check_model(proto)
        return ir.from_proto(proto)
    except (onnx.checker.ValidationError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise ContainerError(f"graph {record.name}: not a valid graph: {error}") from error


def _segments(model: ir.Model, record: GraphRecord, counts: Sequence[int]) -> tuple[Segment, ...]:
    nodes = list(model.graph)
    segments, start = [], 0
    for segment, count in zip(record.segments, counts, strict=True):
        segments.append(Segment(segment.device, tuple(nodes[start : start + count])))
        start += count
    return tuple(segments)


def _tensor(value: ir.Value) -> TensorRecord:
    if value.dtype is None or value.shape is None or not value.shape.is_static():
        raise ModelError(
            f"tensor {value.name}: its type and shape must be known, but they are {value.dtype} {value.shape}"
        )
    shape = tuple(dim for dim in value.shape if isinstance(dim, int))
    return TensorRecord(name=_name(value), dtype=_dtype(value), shape=shape)


def _dtype(value: ir.Value) -> Any:
    """Name of the element type; the record refuses what a container cannot hold."""
    return value.dtype.numpy().name if value.dtype is not None else None


def _value_info(tensor: TensorRecord) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_value_info(tensor.name, element, tensor.shape)


def _constant(value: ir.Value) -> NDArray[Any]:
    if value.const_value is None:
        raise ModelError(f"tensor {value.name} is not a constant")
    return value.const_value.numpy()


def _name(value: ir.Value) -> str:
    return value.name or ""


def _unique(values: Iterable[ir.Value]) -> list[ir.Value]:
    return list(dict.fromkeys(values))
