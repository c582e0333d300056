"""Caffe files to layers: which ones run at test time, what they are connected to, their blobs.

Nothing here trusts the files: sizes are bounded before anything is allocated, and every fault of a file is a
:class:`~engine.errors.ModelError`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.frontend.caffe.schema import message_class

logger = logging.getLogger(__name__)

Shape = tuple[int, ...]

MAX_PROTOTXT_BYTES = 16 << 20
MAX_CAFFEMODEL_BYTES = (2 << 30) - 1
"""The most that a protobuf message can have."""
MAX_ELEMENTS = (1 << 31) - 1
"""The most elements that a blob of Caffe can have."""
MAX_AXES = 32
"""The most dimensions that a blob of Caffe can have."""

_V1_TYPES: Mapping[str, str] = {
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "IM2COL": "Im2col",
    "LRN": "LRN",
    "MVN": "MVN",
    "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
"""Types of the older ``layers`` whose newer name is not the older one in camel case."""


@dataclass(frozen=True)
class CaffeLayer:
    """One layer of a network at test time.

    Attributes:
        name: as in the prototxt.
        type: name of the layer type, in the newer form (``Convolution``).
        bottoms, tops: names of what it reads and writes; a name may be written again by a later layer.
        parameters: its message, for the ``…_param`` fields.
        blobs: its weights, float32, in Caffe's order.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    parameters: Message
    blobs: tuple[NDArray[np.float32], ...] = ()

    def __str__(self) -> str:
        return f"layer name={self.name} type={self.type}"


@dataclass(frozen=True)
class CaffeNetwork:
    """A network at test time.

    Attributes:
        name: as in the prototxt.
        inputs: declared shape by name; ``None`` where it is left to the data (``Data`` layers).
        layers: all other layers, in the order of the file.
    """

    name: str
    inputs: Mapping[str, Shape | None]
    layers: tuple[CaffeLayer, ...]


def read_prototxt(path: str | os.PathLike[str]) -> CaffeNetwork:
    """Read the structure of a network.

    Raises:
        ModelError: the file is missing, too large, no prototxt, or breaks one of Caffe's rules.
    """
    path = Path(path)
    message = _parse_text(_read(path, MAX_PROTOTXT_BYTES, "prototxt"), path)
    state = message.state
    layers = [_layer(item) for item in (*message.layer, *message.layers) if _runs_at_test_time(item, state)]
    inputs = _declared_inputs(message, path)
    for layer in layers:
        if layer.type in _INPUT_SHAPES:
            inputs.update(_INPUT_SHAPES[layer.type](layer, path))
    return CaffeNetwork(
        name=message.name or path.stem,
        inputs=inputs,
        layers=tuple(layer for layer in layers if layer.type not in _INPUT_SHAPES),
    )


def read_blobs(path: str | os.PathLike[str]) -> Mapping[str, tuple[NDArray[np.float32], ...]]:
    """Read the weights of a ``.caffemodel``: float32 blobs by layer name, layers without blobs left out.

    Raises:
        ModelError: the file is missing, too large, damaged, or a blob's data do not fill its shape.
    """
    path = Path(path)
    message = message_class("NetWeights")()
    try:
        message.ParseFromString(_read(path, MAX_CAFFEMODEL_BYTES, "caffemodel"))
    except DecodeError as error:
        raise ModelError(f"{path}: Error parsing message with type 'caffe.NetParameter' ({error})") from error
    return {
        layer.name: tuple(_blob(blob, f"{path}: layer {layer.name!r}") for blob in layer.blobs)
        for layer in (*message.layer, *message.layers)
        if layer.blobs
    }


def checked_shape(dims: Sequence[int], where: str) -> Shape:
    """``dims`` as a shape that Caffe can hold.

    Raises:
        ModelError: a dimension below 1, too many dimensions or elements.
    """
    if len(dims) > MAX_AXES:
        raise ModelError(f"{where}: {len(dims)} dimensions, at most {MAX_AXES} are allowed")
    count = 1
    for dim in dims:
        count *= int(dim)
        if dim < 1 or count > MAX_ELEMENTS:
            raise ModelError(
                f"{where}: shape {'x'.join(map(str, dims))} must have positive dimensions and at most {MAX_ELEMENTS} "
                "elements"
            )
    return tuple(int(dim) for dim in dims)


def tensor_shape(dims: Sequence[int], where: str) -> Shape:
    """As :func:`checked_shape`; without any dimension, which no layer here works on, it is refused too."""
    if not dims:
        raise ModelError(f"{where}: a tensor needs one dimension or more")
    return checked_shape(dims, where)


def _read(path: Path, limit: int, kind: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > limit:
            raise ModelError(f"{path}: {size} bytes are too many for a {kind}; at most {limit} are allowed")
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: the {kind} cannot be read: {error.strerror}") from error


def _parse_text(content: bytes, path: Path) -> Any:
    """The ``NetParameter``; fields that the schema does not have are left out with a warning."""
    try:
        text = content.decode("utf-8")
        try:
            return text_format.Parse(text, message_class("NetParameter")())
        except text_format.ParseError as error:
            message = text_format.Parse(text, message_class("NetParameter")(), allow_unknown_field=True)
            logger.warning("%s: %s; fields of unknown names have no effect", path, error)
            return message
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ModelError(f"{path}: not a valid prototxt: {reason}") from error


def _runs_at_test_time(layer: Any, state: Any) -> bool:
    """Caffe's rules: ``exclude`` drops a layer, ``include`` keeps it only where a rule fits."""
    if layer.include:
        return any(_fits(rule, state) for rule in layer.include)
    return not any(_fits(rule, state) for rule in layer.exclude)


def _fits(rule: Any, state: Any) -> bool:
    test = message_class("NetState").DESCRIPTOR.fields_by_name["phase"].default_value
    return (
        (not rule.HasField("phase") or rule.phase == test)
        and (not rule.HasField("min_level") or state.level >= rule.min_level)
        and (not rule.HasField("max_level") or state.level <= rule.max_level)
        and set(rule.stage) <= set(state.stage)
        and not set(rule.not_stage) & set(state.stage)
    )


def _layer(item: Any) -> CaffeLayer:
    kind = item.type
    if not isinstance(kind, str):
        label = item.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[kind].name
        kind = _V1_TYPES.get(label, "".join(word.capitalize() for word in label.split("_")))
    return CaffeLayer(item.name, kind, tuple(item.bottom), tuple(item.top), item)


def _declared_inputs(message: Any, path: Path) -> dict[str, Shape | None]:
    """The older form of inputs: ``input`` with ``input_shape`` or four ``input_dim`` each."""
    names, shapes = list(message.input), [tuple(shape.dim) for shape in message.input_shape]
    if not shapes and message.input_dim:
        dims = list(message.input_dim)
        shapes = [tuple(dims[start : start + 4]) for start in range(0, len(dims), 4)]
    if len(shapes) != len(names) or (not message.input_shape and len(message.input_dim) % 4):
        raise ModelError(f"{path}: {len(names)} input are declared and {len(shapes)} shapes; one shape each is needed")
    return {name: tensor_shape(shape, f"{path}: {name!r}") for name, shape in zip(names, shapes, strict=True)}


def _input_shapes(layer: CaffeLayer, path: Path) -> Mapping[str, Shape | None]:
    """An ``Input`` layer: one shape for each top, or one for all."""
    shapes = [tuple(shape.dim) for shape in _field(layer, "input_param").shape]
    if len(shapes) == 1:
        shapes *= len(layer.tops)
    if len(shapes) != len(layer.tops):
        raise ModelError(
            f"{path}: {layer}: {len(layer.tops)} tops and {len(shapes)} shapes; one for each or one for all is needed"
        )
    return {name: tensor_shape(shape, f"{path}: {layer}") for name, shape in zip(layer.tops, shapes, strict=True)}


def _data_shapes(layer: CaffeLayer, path: Path) -> Mapping[str, Shape | None]:
    """A ``Data`` layer: images of a data base, whose shape only ``input_shape`` can give; labels are not needed."""
    if not layer.tops:
        raise ModelError(f"{path}: {layer}: it needs a top")
    return {layer.tops[0]: None}


_INPUT_SHAPES = {"Input": _input_shapes, "Data": _data_shapes}


def _field(layer: CaffeLayer, name: str) -> Any:
    return getattr(layer.parameters, name)


def _blob(blob: Any, where: str) -> NDArray[np.float32]:
    """One blob; the older form has four dimensions in fields of their own."""
    shape = blob.shape.dim if blob.HasField("shape") else (blob.num, blob.channels, blob.height, blob.width)
    shape = checked_shape(shape, where)
    data = np.asarray(blob.double_data if blob.double_data else blob.data, np.float32)
    if data.size != np.prod(shape, dtype=np.int64):
        raise ModelError(f"{where}: a blob of shape {'x'.join(map(str, shape))} has {data.size} values")
    return data.reshape(shape)
