"""Small helpers on ``onnx_ir`` models that every stage uses: files, constants, calibration nodes, our marks."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.external_data_helper import load_external_data_for_model
from onnx_ir.passes.common import RemoveInitializersFromInputsPass
from onnx_ir.serde import SerdeError

from engine.errors import ConfigError, ModelError, OutputError
from engine.model_bounds import check_bounds

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
MARK_LATE = "hz.late"
"""On a CPU node whose inputs are quantised all the same."""
MARK_FLOATS = "hz.floats"
"""On a movement that leaves the BPU when floats are quantised, so that scales are as if it stayed."""
MARK_RULE = "hz.rule"
"""Ids of the rules that decided what a node is, separated by commas."""
MARK_DECLINED = "hz.declined"
"""Ids of the rules of the original that a node does not follow, separated by commas: ``compatibility: clean``."""
MARK_MADE = "hz.made"
"""Name of the optimisation pass that made a node."""
MARK_CONVOLUTION = "hz.convolution"
"""On a factor per channel of a map that a round of optimisation left: as good as a convolution."""
MARK_ORDERED = "hz.ordered"
"""On a sum or product of two tensors that are both broadcast, once they have changed places."""
MARK_SWAPPED = "hz.swapped"
"""On a difference that stands for that with its operands exchanged, too."""
MARK_SHARED = "hz.shared"
"""On an operator whose weight or bias was multiplied by the factors of others that read it, too."""
MARK_STATE = "hz.state"
"""On a GRU: the name of its last state."""
MARK_OLD_RESIZE = "hz.old_resize"
"""On a Resize whose pixels lie otherwise than in the operator set of its source."""
MARK_STEPS = "hz.steps"
"""On a GlobalAveragePool that the BPU takes in steps, as no windows divide its map."""
MARK_MARCH = "hz.march"
MARK_SUMMAND = "hz.summand"
"""On a sum: the index of the operand whose convolution computes it; of the one that is computed last without."""
MARK_INPUTS = "hz.inputs"
MARK_PART_OF = "hz.part_of"
"""Name of the node that a node is a part of since placement decomposed it."""

QMAX = {"int8": 127, "int16": 32767, "uint8": 255}
"""Largest magnitude of each quantised type: scale = threshold / QMAX (reference/calibration.md 2)."""
UNSIGNED = "uint8"
OFFSET = 128
"""What an unsigned integer exceeds the signed one by that the BPU holds for it."""


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

    @property
    def narrowed(self) -> Calibration:
        """This calibration, in int8 where it is int16."""
        if self.qtype != "int16":
            return self
        scales = self.scales.astype(np.float64) * QMAX["int16"] / QMAX["int8"]
        return replace(self, qtype="int8", scales=scales.astype(np.float32))

    @property
    def widened(self) -> Calibration:
        """This calibration, in int16 where it is int8."""
        if self.qtype == "int16":
            return self
        scales = self.scales.astype(np.float64) * QMAX["int8"] / QMAX["int16"]
        return replace(self, qtype="int16", scales=scales.astype(np.float32))

    @property
    def offset(self) -> int:
        """What the integer that the BPU holds falls short of the quantised one by."""
        return OFFSET if self.qtype == UNSIGNED else 0


NOTICE = b"# ptqlab: "
"""Start of the first line of a file that has the name of a format of the original and is not of that format."""


_MOST_NOTICE = 1024
"""Most bytes of that line."""


def with_notice(data: bytes, text: str) -> bytes:
    """``data`` behind a first line that says what they are."""
    return NOTICE + text.encode() + b"\n" + data


def notice_length(stream: BinaryIO) -> int:
    """Bytes of the line of :func:`with_notice` that a file begins with; 0 where it has none."""
    stream.seek(0)
    line = stream.readline(_MOST_NOTICE)
    return len(line) if line.startswith(NOTICE) else 0


def without_notice(data: bytes) -> bytes:
    """``data`` without the line of :func:`with_notice`, where they have one."""
    return data.partition(b"\n")[2] if data.startswith(NOTICE) else data


def load_model(path: str | os.PathLike[str]) -> ir.Model:
    """Read an ONNX file into memory; a first line of :func:`with_notice` is skipped.

    Raises:
        ModelError: the file is missing or not an ONNX model, or its external data are missing or outside its folder.
    """
    path = Path(path)
    proto = read_proto(path)
    try:
        check_texts(proto)
        _check_external_data(proto, path)
        check_bounds(proto, path)
        load_external_data_for_model(proto, os.fspath(path.parent))
        check_tensors(proto)
        if not proto.HasField("graph") or not proto.graph.output:
            raise ModelError(f"{path}: not an ONNX model: it has no graph outputs")
        return ir.from_proto(proto)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


def read_proto(path: Path) -> onnx.ModelProto:
    """The content of an ONNX file, nothing checked and without external data; a first line of :func:`with_notice` is
    skipped.

    Raises:
        ModelError: the file is missing, empty or not an ONNX model.
    """
    if not os.path.isfile(path):  # unlike Path.is_file, it takes names that no file can have
        raise ModelError(f"{path}: no such model file")
    try:
        data = path.read_bytes()
        if not data:
            raise ModelError(f"{path}: the file is empty: copy it again, or export it again")
        return onnx.load_model_from_string(without_notice(data))
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ModelError:
    """What is wrong with a file that is no ONNX model or a damaged one, and what to do."""
    reason = _OTHER_FILES.get(path.suffix.lower()) or _by_content(path)
    if not reason and isinstance(error, DecodeError):
        reason = _DAMAGED
    reason = reason or str(error).removeprefix(_UNPARSED).removeprefix(": ")
    return ModelError(f"{path}: {_UNPARSED}" + (f" ({reason})" if reason else ""))


def _by_content(path: Path) -> str:
    """What a file that is no ONNX model is, as its first bytes tell; empty where they tell nothing."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD).lstrip(b"\xef\xbb\xbf \r\n\t")
    except OSError:
        return ""
    return next((what for begin, what in _CONTENTS.items() if head[: len(begin)].lower() == begin), "")


_HEAD = 64
_CONTENTS: Mapping[bytes, str] = {
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself: run git lfs pull in its repository",
    b"<!doctype": "a web page that was saved under this name: download the file itself",
    b"<html": "a web page that was saved under this name: download the file itself",
    b"pk\x03\x04": "a zip archive, such as a PyTorch file; unpack it, or export it with torch.onnx.export",
    b"\x89hdf": "a Keras model; convert it with tf2onnx",
}
"""What files that are no ONNX models are, by what they begin with, in small letters."""
_OTHER_FILES: Mapping[str, str] = {
    ".bin": "a compiled model, which hrt_model_exec and hb_model_info take; expected an ONNX file",
    ".hbm": "a compiled model; expected an ONNX file",
    ".bc": "a quantised model of hb_compile; expected an ONNX file",
    ".caffemodel": "weights of Caffe; they need the .prototxt, which hb_mapper takes; expected an ONNX file",
    ".tflite": "a TensorFlow Lite model; convert it with tf2onnx",
    ".h5": "a Keras model; convert it with tf2onnx",
    ".keras": "a Keras model; convert it with tf2onnx",
    ".pt": "a PyTorch file; export it with torch.onnx.export",
    ".pth": "a PyTorch file; export it with torch.onnx.export",
}
"""What files that are no ONNX models are, by suffix, and what takes them."""
_UNPARSED = "Error parsing message with type 'onnx.ModelProto'"
"""What protobuf says, and the original."""
_DAMAGED = "no ONNX model, or one that was cut off: copy the file again, or write it with torch.onnx.export or tf2onnx"
_UNREADABLE = (onnx.checker.ValidationError, DecodeError, SerdeError, ValueError, TypeError, OSError, RuntimeError)
"""What the libraries raise for damaged files; ``TypeError`` for a location of external data that is no text."""


def take_initializers_out(model: ir.Model) -> None:
    """Take initializers out of the inputs of ``model``, which lists them there if it is old."""
    RemoveInitializersFromInputsPass()(model)
    model.ir_version = max(model.ir_version, 4)  # the first one that need not list them


_EXTERNAL_KEYS = frozenset({"location", "offset", "length", "checksum", "basepath"})
"""What an entry of external data may be (onnx.proto); ONNX Runtime writes others of its own."""


def _check_external_data(proto: onnx.ModelProto, path: Path) -> None:
    """External data lie in the folder of ``path``; links are followed, which not every release of onnx does.

    Entries that ONNX does not know are taken out.
    """
    folder, unknown, is_sparse = os.path.join(os.path.realpath(path.parent), ""), set(), False
    for part in _parts(proto):
        is_sparse |= isinstance(part, onnx.SparseTensorProto)  # refused later, whether its data are there or not
        if isinstance(part, onnx.TensorProto):
            location = next((entry.value for entry in part.external_data if entry.key == "location"), "")
            if location and not os.path.realpath(os.path.join(folder, location)).startswith(folder):
                raise ModelError(f"{path}: tensor {part.name!r}: its data {location!r} lie outside the model's folder")
            is_outside = part.data_location == onnx.TensorProto.EXTERNAL and not is_sparse
            if is_outside and location and not os.path.exists(os.path.join(folder, location)):
                raise ModelError(
                    f"{path}: tensor {part.name!r}: its data are in a file {location!r}, which is missing: copy it "
                    f"into {folder}, or export the network again and take both files"
                )
            unknown |= {entry.key for entry in part.external_data} - _EXTERNAL_KEYS
            for index in reversed(range(len(part.external_data))):
                if part.external_data[index].key not in _EXTERNAL_KEYS:
                    del part.external_data[index]
    if unknown:
        shown = ", ".join(map(repr, sorted(unknown)[:3]))
        logging.getLogger(__name__).warning("%s: entries of external data that are not known: %s", path, shown)


def check_texts(proto: onnx.ModelProto) -> None:
    """Refuse names that are no text, which the libraries let pass as bytes.

    Raises:
        ValueError: one is not UTF-8.
    """
    for part in _parts(proto):
        if isinstance(part, onnx.TensorProto):
            if isinstance(part.name, bytes):
                raise ValueError(f"the name of a tensor is not UTF-8: {part.name!r}")
            continue  # its other fields are data
        for field, value in part.ListFields():
            texts = (value,) if isinstance(value, bytes) else value if isinstance(value, Sequence) else ()
            if field.type == field.TYPE_STRING and any(isinstance(text, bytes) for text in texts):
                raise ValueError(f"field {field.name} is not UTF-8: {value!r}")


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


_LONGEST_FILE_NAME = 120
"""Bytes: file systems take 255, of which suffixes and temporary names need some."""


def file_name(name: str) -> str:
    """``name``, which a stranger's file may hold, as the name of a file or folder, or the beginning of one.

    Letters, digits, ``-``, ``_`` and ``.`` stay, others become ``_``; it is never empty, hidden or ``..``. One of more
    than 120 bytes ends in a digest. For names of several files in one folder see :class:`FileNames`.
    """
    kept = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name) or "_"
    kept = f"_{kept[1:]}" if kept.startswith(".") else kept
    encoded = kept.encode()
    if len(encoded) <= _LONGEST_FILE_NAME:
        return kept
    digest = _short_digest(name)
    return f"{encoded[: _LONGEST_FILE_NAME - 1 - len(digest)].decode(errors='ignore')}_{digest}"


class FileNames:
    """:func:`file_name` of names in one folder: what another has taken, capitals or not, ends in a digest."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._taken: set[str] = set()

    def __getitem__(self, name: str) -> str:
        """File name of ``name``: the same every time, and no other name's."""
        if name not in self._found:
            plain = file = file_name(name)
            while file.casefold() in self._taken:
                file = file_name(f"{plain[: _LONGEST_FILE_NAME // 4]}_{_short_digest(f'{file}/{name}')}")
            self._found[name] = file
            self._taken.add(file.casefold())
        return self._found[name]


def file_names(names: Iterable[str]) -> dict[str, str]:
    """The :class:`FileNames` of ``names``, those before others first."""
    found = FileNames()
    return {name: found[name] for name in names}


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


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


def refuse_overwriting(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse, before anything is read, to write where something is read: the same file, also through links.

    Args:
        outputs: files and folders that are written.
        inputs: files that are read, and folders all files of which are.

    Raises:
        ConfigError: an output is an input, or a file of such a folder, or a folder that holds an input.
    """
    read = [path for path in inputs if path is not None]
    for output in outputs:
        clash = next((path for path in read if output is not None and _overlap(output, path)), None)
        if clash is not None:
            raise ConfigError(f"{output} would overwrite {clash}, which is read; write to another place")


def _overlap(output: Path, given: Path) -> bool:
    written, read = Path(os.path.realpath(output)), Path(os.path.realpath(given))
    if written == read or (read.is_dir() and written.parent == read):
        return True
    if written.is_dir() and read.is_relative_to(written):
        return True
    try:
        return os.path.samefile(written, read)  # hard links, and file systems that do not tell capitals apart
    except (OSError, ValueError):
        return False


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
    """Attributes of an ``HzCalibration`` node; the threshold that all channels of an activation share is one."""
    thresholds = written_thresholds(node)
    scales = np.asarray(attribute(node, "scales", ()), np.float32)
    is_list = thresholds.size == scales.size > 1
    if is_list and constant_of(node.inputs[0]) is None and np.ptp(thresholds) == np.ptp(scales) == 0:
        thresholds, scales = thresholds[:1], scales[:1]
    return Calibration(
        thresholds=thresholds,
        scales=scales,
        qtype=attribute(node, "qtype", "int8"),
        switch=attribute(node, "switch", "ON"),
        axis=attribute(node, "axis", 1),
        group=attribute(node, "group", 1),
    )


def written_thresholds(node: ir.Node) -> NDArray[np.float32]:
    """Thresholds of an ``HzCalibration`` node as they stand there, also where all channels have the same."""
    return np.asarray(attribute(node, "thresholds", ()), np.float32)


def before_calibration(value: ir.Value) -> ir.Value:
    """``value``, or the tensor that was calibrated, once or twice, where it is the output of an ``HzCalibration``."""
    node = value.producer()
    while node is not None and is_calibration(node) and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value


def calibration_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """All ``HzCalibration`` nodes in graph order."""
    return (node for node in model.graph if is_calibration(node))


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """Static shape of ``value``.

    Raises:
        ModelError: the shape is unknown or has a symbolic dimension.
    """
    shape = static_shape(value)
    if shape is None:
        raise ModelError(f"tensor {value.name}: its shape must be known and static, it is {value.shape}")
    return shape


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """As :func:`shape_of`, but None where the shape is unknown or has a symbolic dimension, and for no value."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return tuple(dim for dim in value.shape if isinstance(dim, int))


def own_name(node: ir.Node, constant: ir.Value) -> str:
    """Name of ``constant`` once ``node`` has its own: ``<node>_<constant>`` where a later node of the graph reads it.

    The last reader keeps the constant (``yolov8_decode`` and ``yolo11``, six conversions), unless it reads it twice:
    start and axis of a Slice may be one constant.
    """
    readers = {id(use.node) for use in constant.uses()} - {id(node)}
    later = list(node.inputs).count(constant) > 1
    if readers and not later and node.graph is not None:
        order = [id(other) for other in node.graph]
        later = not readers.isdisjoint(order[order.index(id(node)) :])
    return f"{node.name}_{constant.name}" if later else str(constant.name)


def mark(node: ir.Node, key: str, text: str | None) -> None:
    """Set mark ``key`` on ``node``; ``None`` removes it."""
    if text is None:
        node.metadata_props.pop(key, None)
    else:
        node.metadata_props[key] = text


def decline(node: ir.Node, rule: str) -> None:
    """Note on ``node`` that it does not follow the rule of the original with that id."""
    declined = filter(None, (*node.metadata_props.get(MARK_DECLINED, "").split(","), rule))
    node.metadata_props[MARK_DECLINED] = ",".join(dict.fromkeys(declined))


def is_declined(node: ir.Node, rule: str) -> bool:
    """Whether ``node`` does the right thing where the original follows the rule with that id.

    Models without marks, such as files of the original, follow all.
    """
    return rule in node.metadata_props.get(MARK_DECLINED, "").split(",")


def node_by_name(model: ir.Model, names: Sequence[str]) -> dict[str, ir.Node]:
    """The nodes called ``names`` (those that exist), by name."""
    wanted = set(names)
    return {node.name: node for node in model.graph if node.name in wanted}


def set_constant(graph: ir.Graph, node: ir.Node, index: int, array: NDArray[np.float32]) -> None:
    """Let input ``index`` of ``node`` be the constant ``array`` under a name of its own; an unused old one goes."""
    old = node.inputs[index] if len(node.inputs) > index else None
    name = f"{node.name}_input_{index}" if old is None else str(old.name)
    while name in graph.initializers:
        name = f"{name}_changed"
    tensor = ir.tensor(np.asarray(array, np.float32), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    node.resize_inputs(max(index + 1, len(node.inputs)))
    node.replace_input_with(index, value)
    if old is not None and old.is_initializer() and not old.uses():
        graph.initializers.pop(str(old.name), None)
