"""Small helpers on ``onnx_ir`` models that every stage uses: files, constants, calibration nodes, our marks."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.external_data_helper import load_external_data_for_model
from onnx_ir.serde import SerdeError

from engine.errors import ModelError, OutputError

HORIZON_DOMAIN = "horizon"
"""ONNX domain of the quantised operators, ``HzCalibration`` and the float operators that patterns collapse to."""

HORIZON_VERSION = 1

CALIBRATION_OP = "HzCalibration"
ACTIVATION_QUANT_ATTRS = 69905
"""``quant_attrs`` of activation calibration nodes, as the original writes them (reference/calibration.md 2)."""
WEIGHT_QUANT_ATTRS = 139537
"""``quant_attrs`` of weight calibration nodes."""

MARK_ON = "hz.on"
MARK_REASON = "hz.reason"
MARK_TIE = "hz.tie"
MARK_FIXED = "hz.fixed"
MARK_MARCH = "hz.march"
MARK_INPUTS = "hz.inputs"
MARK_PART_OF = "hz.part_of"
"""Name of the node that a node is a part of since placement decomposed it."""

QMAX = {"int8": 127, "int16": 32767, "uint8": 255}
"""Largest magnitude of each quantised type: scale = threshold / QMAX (reference/calibration.md 2)."""


@dataclass(frozen=True)
class Calibration:
    """What one ``HzCalibration`` node says of a tensor.

    Attributes:
        thresholds: float32, shape (1,) or (channels,); empty before calibration.
        scales: float32, same shape; ``thresholds / QMAX[qtype]`` in float32.
        qtype: ``int8``, ``int16`` or ``uint8``.
        switch: ``ON`` (quantise and dequantise) or ``OFF`` (pass through).
        axis: channel axis of ``thresholds`` where they are per channel (weights: 0, activations: 1).
        group: convolution group of a weight; 1 for activations.
    """

    thresholds: NDArray[np.float32]
    scales: NDArray[np.float32]
    qtype: str = "int8"
    switch: str = "ON"
    axis: int = 1
    group: int = 1

    @property
    def bits(self) -> int:
        """Width in bits of the quantised type."""
        return 16 if self.qtype == "int16" else 8


def load_model(path: str | os.PathLike[str]) -> ir.Model:
    """Read an ONNX file into memory.

    Raises:
        ModelError: the file is missing, is not an ONNX model, or its external data lie outside its folder.
    """
    path = Path(path)
    if not os.path.isfile(path):  # unlike Path.is_file, it takes names that no file can have
        raise ModelError(f"{path}: no such model file")
    try:
        proto = onnx.load(os.fspath(path), load_external_data=False)
        _check_parts(proto, path)
        load_external_data_for_model(proto, os.fspath(path.parent))
        check_tensors(proto)
        if not proto.HasField("graph") or not proto.graph.output:
            raise ModelError(f"{path}: not an ONNX model: it has no graph outputs")
        return ir.from_proto(proto)
    except _UNREADABLE as error:
        raise ModelError(f"{path}: Error parsing message with type 'onnx.ModelProto' ({error})") from error


_UNREADABLE = (onnx.checker.ValidationError, DecodeError, SerdeError, ValueError, TypeError, OSError, RuntimeError)
"""What the libraries raise for damaged files; ``TypeError`` for a location of external data that is no text."""


def _check_parts(proto: onnx.ModelProto, path: Path) -> None:
    """What the libraries let pass: names that are no text, external data outside the folder of ``path``.

    Links are followed; not every release of onnx does that.
    """
    folder = os.path.join(os.path.realpath(path.parent), "")
    for part in _parts(proto):
        if isinstance(part, onnx.TensorProto):
            location = next((entry.value for entry in part.external_data if entry.key == "location"), "")
            if location and not os.path.realpath(os.path.join(folder, location)).startswith(folder):
                raise ModelError(f"{path}: tensor {part.name!r}: its data {location!r} lie outside the model's folder")
            if isinstance(part.name, bytes):
                raise ModelError(f"{path}: not an ONNX model: the name of a tensor is not UTF-8: {part.name!r}")
            continue  # its other fields are data
        for field, value in part.ListFields():
            texts = (value,) if isinstance(value, bytes) else value if isinstance(value, Sequence) else ()
            if field.type == field.TYPE_STRING and any(isinstance(text, bytes) for text in texts):
                raise ModelError(f"{path}: not an ONNX model: field {field.name} is not UTF-8: {value!r}")


def check_tensors(message: Message) -> None:
    """Read every tensor in ``message`` once: the libraries look at the size of its data when it is used.

    Raises:
        ValueError: the data of one do not fit its shape and type.
    """
    for part in _parts(message):
        if isinstance(part, onnx.TensorProto):
            try:
                numpy_helper.to_array(part)
            except (LookupError, TypeError, ValueError) as error:
                raise ValueError(f"tensor {part.name!r}: its data do not fit its shape and type: {error}") from error


def _parts(message: Message) -> Iterator[Message]:
    """``message`` and all messages in it but those in tensors: graphs, nodes, tensors, attributes …"""
    yield message
    if isinstance(message, onnx.TensorProto):
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if isinstance(value, Sequence) else (value,):
                yield from _parts(part)


def file_name(name: str) -> str:
    """``name`` without what a file name must not hold."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def write_atomically(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write ``data`` to a temporary name beside ``path`` and rename, so that no half-written file is ever seen.

    Raises:
        OutputError: the file, or a folder above it, cannot be made or written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as stream:
            stream.write(data)
        temporary.replace(path)
    except OSError as error:
        _discard(temporary)
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    except BaseException:
        _discard(temporary)
        raise
    return path


def _discard(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink()


def save_model(model: ir.Model, path: str | os.PathLike[str]) -> Path:
    """Write ``model`` as one ONNX file, atomically."""
    return write_atomically(path, to_bytes(model))


def to_bytes(model: ir.Model) -> bytes:
    """Serialise ``model`` deterministically."""
    return bytes(ir.to_proto(model).SerializeToString(deterministic=True))


def constant_of(value: ir.Value | None) -> NDArray[Any] | None:
    """The array that ``value`` holds if it is an initializer or the output of a ``Constant``; else ``None``."""
    if value is None:
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """Value of attribute ``name`` as plain Python (tuple for lists), or ``default`` where it is absent."""
    found = node.attributes.get(name)
    return default if found is None else found.value


def typed_attribute(name: str, value: Any) -> ir.Attr:
    """An attribute of a plain Python value: number, text, tensor or a list of one kind.

    As ``onnx_ir`` infers it, which asks a list for every protocol first: that takes longer than to make the node.
    """
    kinds = set(map(type, value)) if isinstance(value, list | tuple) else set()
    make = _LIST_ATTRIBUTES.get(kinds.pop()) if len(kinds) == 1 else None
    return ir.convenience.convert_attribute(name, value) if make is None else make(name, value)


_LIST_ATTRIBUTES: Mapping[type, Callable[[str, Sequence[Any]], ir.Attr]] = MappingProxyType(
    {int: ir.AttrInt64s, float: ir.AttrFloat32s, str: ir.AttrStrings}
)


def is_calibration(node: ir.Node | None) -> bool:
    """Whether ``node`` is an ``HzCalibration``."""
    return node is not None and node.op_type == CALIBRATION_OP and node.domain == HORIZON_DOMAIN


def calibration_of(value: ir.Value | None) -> Calibration | None:
    """What the ``HzCalibration`` that produces ``value`` says; ``None`` where ``value`` does not come from one."""
    node = None if value is None else value.producer()
    if node is None or not is_calibration(node):
        return None
    return read_calibration(node)


def read_calibration(node: ir.Node) -> Calibration:
    """Attributes of an ``HzCalibration`` node."""
    return Calibration(
        thresholds=np.asarray(attribute(node, "thresholds", ()), np.float32),
        scales=np.asarray(attribute(node, "scales", ()), np.float32),
        qtype=attribute(node, "qtype", "int8"),
        switch=attribute(node, "switch", "ON"),
        axis=attribute(node, "axis", 1),
        group=attribute(node, "group", 1),
    )


def before_calibration(value: ir.Value) -> ir.Value:
    """``value``, or the tensor that was calibrated where ``value`` is the output of an ``HzCalibration``."""
    node = value.producer()
    if node is not None and is_calibration(node) and node.inputs[0] is not None:
        return node.inputs[0]
    return value


def calibration_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """All ``HzCalibration`` nodes in graph order."""
    return (node for node in model.graph if is_calibration(node))


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """Static shape of ``value``.

    Raises:
        ModelError: the shape is unknown or has a symbolic dimension.
    """
    if value.shape is None or not value.shape.is_static():
        raise ModelError(f"tensor {value.name}: its shape must be known and static, it is {value.shape}")
    return tuple(dim for dim in value.shape if isinstance(dim, int))


def mark(node: ir.Node, key: str, text: str | None) -> None:
    """Set mark ``key`` on ``node``; ``None`` removes it."""
    if text is None:
        node.metadata_props.pop(key, None)
    else:
        node.metadata_props[key] = text


def node_by_name(model: ir.Model, names: Sequence[str]) -> dict[str, ir.Node]:
    """The nodes called ``names`` (those that exist), by name."""
    wanted = set(names)
    return {node.name: node for node in model.graph if node.name in wanted}
