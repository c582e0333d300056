"""What exporters write into an ONNX file about the network: who wrote it, its task, its classes, the size of its input.

========================  ============================================================================================
exporter                  what it writes
========================  ============================================================================================
Ultralytics (8.x)         metadata ``author``, ``task`` (``detect``, ``segment``, ``classify``, ``pose``, ``obb``),
                          ``names`` (a Python dictionary as text), ``imgsz`` (a list as text), ``args``,
                          ``end2end``
YOLOv5's ``export.py``    metadata ``stride`` and ``names`` (a dictionary or a list as text)
RapidOCR, RapidLayout     metadata ``character``: what is told apart, one per line: characters, or classes of regions
paddle2onnx               producer ``PaddlePaddle`` or none, domain ``Paddle``, dimensions named ``p2o.…``
tf2onnx, keras2onnx       the producer
torch.onnx                the producer ``pytorch``
Caffe converters          a producer with ``caffe`` in its name
========================  ============================================================================================

Values are read as literals (:func:`ast.literal_eval`, JSON), never evaluated.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from harness.zoo.cards import TaskKind

if TYPE_CHECKING:
    import onnx

CHARACTER_KEYS = ("character", "characters", "dict", "dictionary", "alphabet")
"""Metadata under which files hold their characters; RapidOCR's has the first."""
_CLASS_KEYS = ("names", "classes", "class_names", "labels")
_MOST_TEXT = 1 << 20
"""Characters of a text that is read as a literal."""


class Exporter(StrEnum):
    """What wrote a file, or the framework that the network comes from."""

    ULTRALYTICS = "Ultralytics"
    YOLOV5 = "YOLOv5's export.py"
    PADDLE = "paddle2onnx"
    TENSORFLOW = "a converter of TensorFlow"
    CAFFE = "a converter of Caffe"
    PYTORCH = "PyTorch"
    UNKNOWN = ""


TASKS: Mapping[str, TaskKind] = {
    "detect": TaskKind.DETECTION,
    "classify": TaskKind.CLASSIFICATION,
    "segment": TaskKind.OTHER,
    "pose": TaskKind.OTHER,
    "obb": TaskKind.OTHER,
}
"""Ultralytics' tasks; the last three are boxes with masks, points or angles, for which there is no metric."""


@dataclass(frozen=True)
class Exported:
    """What an exporter says of a network.

    Attributes:
        task: in its own words; empty where it says none.
        classes: names in the order of their numbers; empty where there are none.
        size: height and width of the input; None where it is not said.
        characters: number of lines under a key that holds characters; 0 where there is none.
        is_end_to_end: whether a detector gives one box per object; None where it is not said.
    """

    task: str = ""
    classes: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    characters: int = 0
    is_end_to_end: bool | None = None

    @property
    def kind(self) -> TaskKind | None:
        """What the network is for; None where the file does not say it."""
        return TASKS.get(self.task)

    @property
    def words(self) -> str:
        """Task and classes, as the file says them; empty where it says nothing."""
        said = [f"task {self.task}"] if self.task else []
        said += [f"{len(self.classes)} classes"] if self.classes else []
        return " and ".join(said)


def read_exported(metadata: Mapping[str, str]) -> Exported:
    """What the metadata of a file say; what they hold in another form is left out."""
    classes = next((found for key in _CLASS_KEYS if (found := class_names(metadata.get(key, "")))), ())
    lines = next((metadata[key].removesuffix("\n").split("\n") for key in CHARACTER_KEYS if key in metadata), [])
    if not classes and _are_words(lines):
        classes = tuple(lines)
    return Exported(
        task=metadata.get("task", "").strip().lower(),
        classes=classes,
        size=_size(metadata.get("imgsz", "")),
        characters=len(lines),
        is_end_to_end={"true": True, "false": False}.get(metadata.get("end2end", "").strip().lower()),
    )


def _are_words(lines: list[str]) -> bool:
    """Whether lines that may be characters are names: most are longer than any character is written."""
    return bool(lines) and sum(len(line) > _LONGEST_CHARACTER for line in lines) > len(lines) / 2


_LONGEST_CHARACTER = 3
"""Letters of what counts as a character; some alphabets need several code points for one."""


def class_names(text: str) -> tuple[str, ...]:
    """Names of classes from a dictionary by number or a list, as Python or JSON write them; empty for other texts."""
    found = _literal(text)
    if isinstance(found, Mapping):
        try:
            numbers = {int(key): str(name) for key, name in found.items()}
        except (TypeError, ValueError):
            return ()
        is_whole = set(numbers) == set(range(len(numbers)))
        return tuple(numbers[number] for number in range(len(numbers))) if is_whole else ()
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()


def _size(text: str) -> tuple[int, int] | None:
    found = _literal(text)
    sides = [found, found] if isinstance(found, int) else found
    if not isinstance(sides, list | tuple) or len(sides) != 2:
        return None
    if not all(isinstance(side, int) and side > 0 for side in sides):
        return None
    return int(sides[0]), int(sides[1])


def _literal(text: str) -> Any:
    """The value that ``text`` writes down, as Python or JSON; None where it writes none."""
    if not text or len(text) > _MOST_TEXT:
        return None
    for read in (ast.literal_eval, json.loads):
        try:
            return read(text.strip())
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return None


def exporter_of(model: onnx.ModelProto) -> Exporter:
    """What wrote ``model``, by its metadata, its domains, the names of its dimensions and its producer."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if "ultralytics" in (metadata.get("author", "") + metadata.get("description", "")).lower():
        return Exporter.ULTRALYTICS
    if {"stride", "names"} <= set(metadata):
        return Exporter.YOLOV5
    domains = {entry.domain.lower() for entry in model.opset_import}
    dims = (dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    if "paddle" in domains or any(name.startswith("p2o.") for name in dims):
        return Exporter.PADDLE
    producer = model.producer_name.lower()
    return next((exporter for word, exporter in _PRODUCERS.items() if word in producer), Exporter.UNKNOWN)


_PRODUCERS: Mapping[str, Exporter] = {
    "paddle": Exporter.PADDLE,
    "tf2onnx": Exporter.TENSORFLOW,
    "keras": Exporter.TENSORFLOW,
    "tensorflow": Exporter.TENSORFLOW,
    "caffe": Exporter.CAFFE,
    "pytorch": Exporter.PYTORCH,
}
"""Words of the producer's name."""


class Family(StrEnum):
    """Architectures of Keras' applications, by the names of their layers, which converters keep."""

    VGG = "VGG"
    RESNET = "ResNet"
    RESNET_V2 = "ResNetV2"
    DENSENET = "DenseNet"
    XCEPTION = "Xception"
    INCEPTION = "Inception"
    MOBILENET = "MobileNet"
    UNKNOWN = ""


_LAYERS: Mapping[str, Family] = {
    "_sepconv": Family.XCEPTION,
    "/block1_conv1": Family.VGG,
    "/conv2_block1_preact": Family.RESNET_V2,
    "/conv2_block1_concat": Family.DENSENET,
    "/conv2_block1_1_conv": Family.RESNET,
    "/mixed0": Family.INCEPTION,
    "/mixed_5b": Family.INCEPTION,
    "/expanded_conv": Family.MOBILENET,
    "/conv_dw_1": Family.MOBILENET,
}
"""What names of layers hold; the first that one holds counts."""


def family_of(model: onnx.ModelProto) -> Family:
    """The architecture that the names of the nodes tell."""
    names = [f"/{node.name}" for node in model.graph.node]
    return next((family for part, family in _LAYERS.items() if any(part in name for name in names)), Family.UNKNOWN)
