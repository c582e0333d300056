"""The typed records of the GRAPH section: what a ``.bin`` says of the graph, without the numbers it computes with.

Numbers (weights, biases, tables, long attribute lists, every float) lie in the DATA section; a :class:`BlobRecord` says
where and in which layout. Records are validated when a file is read, so that a crafted file ends in a
:class:`~engine.errors.ContainerError`.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from engine.compile.packing import ElementOrder
from engine.errors import ContainerError
from engine.limits import beyond, limit
from engine.terms import Device

Name = Annotated[str, Field(max_length=65_536)]
Size = Annotated[int, Field(ge=0, le=1 << 40)]
Count = Annotated[int, Field(ge=0, le=1 << 60)]
"""What is counted per frame: sums of such still are exact as floats' exponents go."""


def _of_a_tensor(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > limit("TENSOR_ELEMENTS"):
        raise ValueError(f"shape {shape} has {beyond('TENSOR_ELEMENTS')}")
    return shape


Shape = Annotated[tuple[Size, ...], Field(max_length=16), AfterValidator(_of_a_tensor)]
Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Dtype = Literal[
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bool"
]
"""Element types that a container can hold."""


class Record(BaseModel):
    """Base of all records: immutable, unknown keys are errors. Validators are built with the first file."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class BlobRecord(Record):
    """Where the elements of one array lie in the DATA section; ``offset`` and ``length`` in bytes."""

    offset: Size
    length: Size
    dtype: Dtype
    shape: Shape
    layout: ElementOrder = ElementOrder.LINEAR


class TensorRecord(Record):
    """Name, element type and static shape of a tensor that is fed or computed."""

    name: Name
    dtype: Dtype
    shape: Shape


def _fed(tensor: TensorRecord) -> TensorRecord:
    if 0 in tensor.shape:
        raise ValueError(f"{tensor.name!r} of shape {tensor.shape} has no elements")
    return tensor


FedTensor = Annotated[TensorRecord, AfterValidator(_fed)]
"""An input: there is something to feed."""


class AttributeKind(StrEnum):
    """Type of an attribute, in the words of ONNX."""

    INT = "INT"
    INTS = "INTS"
    FLOAT = "FLOAT"
    FLOATS = "FLOATS"
    STRING = "STRING"
    STRINGS = "STRINGS"
    TENSOR = "TENSOR"


class AttributeRecord(Record):
    """One attribute: short integers and strings in ``value``, everything else in ``blob``; strings in Latin-1."""

    kind: AttributeKind
    value: Int64 | Name | tuple[Int64, ...] | tuple[Name, ...] | None = None
    blob: BlobRecord | None = None


class NodeRecord(Record):
    """One node of a BPU subgraph."""

    name: Name
    op_type: Name
    domain: Name
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    attributes: dict[Name, AttributeRecord]
    marks: dict[Name, Name] = {}


class SegmentRecord(Record):
    """One segment; the nodes of the k-th CPU segment are in section CPUM[k]."""

    device: Device
    name: Name
    nodes: tuple[NodeRecord, ...] = ()


class BlockRecord(Record):
    """Multiples that packed weights are padded to, see :class:`~engine.compile.packing.Block`."""

    out_channels: Annotated[int, Field(ge=1, le=4096)]
    in_channels: Annotated[int, Field(ge=1, le=4096)]
    depthwise_channels: Annotated[int, Field(ge=0, le=4096)]
    depthwise_taps: Annotated[int, Field(ge=1, le=4096)]


class GraphRecord(Record):
    """The whole graph, segments in running order.

    Attributes:
        block: multiples that weights are padded to.
        values: every tensor inside the graph whose type is known.
        constants: initializers of BPU nodes and of the graph's outputs, by name.
    """

    name: Name
    ir_version: Annotated[int, Field(ge=1, le=1000)]
    opsets: dict[Name, Annotated[int, Field(ge=1, le=1000)]]
    block: BlockRecord
    inputs: tuple[FedTensor, ...]
    outputs: tuple[TensorRecord, ...]
    values: tuple[TensorRecord, ...]
    constants: dict[Name, BlobRecord]
    segments: tuple[SegmentRecord, ...]
    metadata: dict[Name, Name] = {}


class RemovedNode(Record):
    """What a ``.bin`` remembers of a node that was removed from it.

    Attributes:
        name: of the node.
        type: ``Quantize``, ``Dequantize``, ``Transpose``, …
        input_shape, output_shape: of the tensor that it read and gave.
        input_name: tensor that it read: an output now, where it stood at one.
        scales: of a Quantize or Dequantize node, one value or one per channel.
        axis: channel axis of ``scales``.
    """

    name: Name
    type: Name
    input_shape: Shape
    output_shape: Shape
    input_name: Name = ""
    scales: tuple[float, ...] = ()
    axis: Annotated[int, Field(ge=0, le=16)] = 1


R = TypeVar("R", bound=BaseModel)


def encode_record(record: BaseModel) -> bytes:
    """Compact JSON, the same bytes for equal records."""
    return record.model_dump_json(exclude_defaults=True).encode()


def decode_record(kind: type[R], data: bytes, where: str) -> R:
    """Inverse of :func:`encode_record`.

    Raises:
        ContainerError: ``data`` is not JSON or not such a record; ``where`` names the section.
    """
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ContainerError(f"{where}: invalid {kind.__name__} at {place or 'its start'}: {first['msg']}") from error
