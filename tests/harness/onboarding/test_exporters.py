"""What exporters write into a file, in the forms that they write it."""

from __future__ import annotations

import json

import onnx
import pytest
from onnx import TensorProto, helper

from harness.onboarding.exporters import Exporter, Family, class_names, exporter_of, family_of, read_exported
from harness.zoo.cards import TaskKind

ULTRALYTICS = {
    "description": "Ultralytics best model trained on data.yml",
    "author": "Ultralytics",
    "date": "2024-06-29T12:33:11.874221",
    "version": "8.2.46",
    "stride": "32",
    "task": "detect",
    "batch": "1",
    "imgsz": "[320, 640]",
    "names": "{0: 'person', 1: \"dog's bowl\", 2: 'a: b'}",
    "args": "{'batch': 1, 'dynamic': False, 'nms': False}",
}
"""As ``ultralytics/engine/exporter.py`` writes it: every value as ``str`` gives it."""


def model(producer: str = "", dim: str = "batch", domain: str = "", **metadata: str) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [dim, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [dim, 3, 8, 8])],
    )
    opsets = [helper.make_opsetid("", 13), *([helper.make_opsetid(domain, 1)] if domain else [])]
    made = helper.make_model(graph, producer_name=producer, opset_imports=opsets)
    helper.set_model_props(made, metadata)
    return made


def test_ultralytics() -> None:
    said = read_exported(ULTRALYTICS)
    assert (said.kind, said.size, said.words) == (TaskKind.DETECTION, (320, 640), "task detect and 3 classes")
    assert said.classes == ("person", "dog's bowl", "a: b")
    assert exporter_of(model(**ULTRALYTICS)) is Exporter.ULTRALYTICS
    for task in ("segment", "pose", "obb"):
        assert read_exported({**ULTRALYTICS, "task": task}).kind is TaskKind.OTHER
    assert read_exported({**ULTRALYTICS, "task": "classify"}).kind is TaskKind.CLASSIFICATION
    assert read_exported({**ULTRALYTICS, "task": "another"}).kind is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("['cat', 'dog']", ("cat", "dog")),  # YOLOv5 up to 6
        ("{1: 'dog', 0: 'cat'}", ("cat", "dog")),
        (json.dumps({"0": "cat", "1": "dog"}), ("cat", "dog")),
        (json.dumps(["cat", "dog"]), ("cat", "dog")),
        ("{0: 'cat', 2: 'dog'}", ()),
        ("{'cat': 0}", ()),
        ("__import__('os').getcwd()", ()),
        ("[" * 5000, ()),
        ("cat, dog", ()),
        ("", ()),
    ],
)
def test_names_of_classes_are_read_as_literals(text: str, names: tuple[str, ...]) -> None:
    assert class_names(text) == names


def test_characters_and_classes_under_one_key() -> None:
    """RapidOCR keeps characters there, RapidLayout the classes of regions."""
    reader = read_exported({"character": "a\nb\n \n中\n"})
    assert (reader.characters, reader.classes) == (4, ())
    layout = read_exported({"character": "text\ntitle\nfigure\ntable"})
    assert layout.classes == ("text", "title", "figure", "table")


def test_sizes() -> None:
    assert read_exported({"imgsz": "640"}).size == (640, 640)
    for text in ("[640]", "[0, 640]", "['a', 'b']", "big", ""):
        assert read_exported({"imgsz": text}).size is None


def test_who_wrote_a_file() -> None:
    assert exporter_of(model(stride="32", names="['a']")) is Exporter.YOLOV5
    assert exporter_of(model(dim="p2o.DynamicDimension.0")) is Exporter.PADDLE
    assert exporter_of(model(domain="Paddle")) is Exporter.PADDLE
    producers = {
        "PaddlePaddle": Exporter.PADDLE,
        "tf2onnx": Exporter.TENSORFLOW,
        "keras2onnx": Exporter.TENSORFLOW,
        "caffe-onnx": Exporter.CAFFE,
        "pytorch": Exporter.PYTORCH,
        "": Exporter.UNKNOWN,
    }
    for producer, exporter in producers.items():
        assert exporter_of(model(producer)) is exporter


@pytest.mark.parametrize(
    ("node", "family"),
    [
        ("functional_1/block1_conv1_1/BiasAdd", Family.VGG),
        ("model/conv2_block1_1_conv/Conv2D", Family.RESNET),
        ("model/conv2_block1_preact_bn/FusedBatchNormV3", Family.RESNET_V2),
        ("model/conv2_block1_concat/concat", Family.DENSENET),
        ("xception/block2_sepconv1/separable_conv2d", Family.XCEPTION),
        ("StatefulPartitionedCall/mobilenetv2_1.00_224/expanded_conv_depthwise/depthwise", Family.MOBILENET),
        ("Conv_0", Family.UNKNOWN),
    ],
)
def test_architectures_by_the_names_of_their_layers(node: str, family: Family) -> None:
    """As tf2onnx keeps them from Keras' applications."""
    made = model("tf2onnx")
    made.graph.node[0].name = node
    assert family_of(made) is family
