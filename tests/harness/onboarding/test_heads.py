"""Heads by the shapes of outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.terms import Layout
from harness.metrics import open_metric
from harness.onboarding.heads import guess_head
from harness.onboarding.network_file import NetworkFile, OutputTensor
from harness.terms import Fit
from harness.zoo.cards import TaskKind


def network(*shapes: tuple[int, ...], size: tuple[int, int] = (224, 224), **metadata: str) -> NetworkFile:
    outputs = tuple(OutputTensor(f"out{index}", shape) for index, shape in enumerate(shapes))
    return NetworkFile(Path("net.onnx"), "image", Layout.NCHW, size, 3, "test", False, outputs, metadata)


def test_class_scores() -> None:
    for shape in ((1, 1000), (1, 1000, 1, 1), (1, 1, 1, 1000)):
        head = guess_head(network(shape))
        assert (head.kind, head.metric, head.classes, head.fit) == ("class scores", "top1", 1000, Fit.CROP)
    assert guess_head(network((1, 10), size=(28, 28))).fit is Fit.STRETCH
    assert guess_head(network((1, 10), size=(96, 192))).fit is Fit.STRETCH


def test_outputs_of_no_known_meaning_are_compared() -> None:
    for shapes in (((1, 7), (1, 3)), ((1, 12, 5, 9),), ((1,),)):
        head = guess_head(network(*shapes))
        assert (head.kind, head.task, head.metric, head.is_sure) == ("unknown", TaskKind.OTHER, "cosine", False)
    asked = guess_head(network((1, 1000)), TaskKind.OTHER)
    assert (asked.kind, asked.is_sure) == ("unknown", True)


@pytest.mark.parametrize(
    ("shapes", "kind", "classes", "is_sure"),
    [
        ([(1, 84, 8400)], "YOLOv8", 80, True),
        ([(1, 25200, 85)], "YOLOv5", 80, True),
        ([(1, 8400, 85)], "YOLOX", 80, True),
        ([(1, 300, 6)], "end-to-end YOLO", 80, False),
        ([(1, 144, 80, 80), (1, 144, 40, 40), (1, 144, 20, 20)], "YOLOv8 raw heads", 80, False),
        ([(1, 65, 80, 80), (1, 65, 40, 40), (1, 65, 20, 20)], "YOLOv8 raw heads", 1, True),
        ([(1, d, s, s) for s in (80, 40, 20) for d in (64, 7)], "YOLOv8 raw heads", 7, True),
        ([(1, 255, 80, 80), (1, 255, 40, 40), (1, 255, 20, 20)], "YOLOv5 raw heads", 80, False),
        ([(1, 255, 20, 20), (1, 255, 40, 40), (1, 255, 80, 80)], "YOLOv3 raw heads", 80, False),
        ([(1, 3000, 21), (1, 3000, 4)], "SSD", 20, False),
        ([(1, 100, 92), (1, 100, 4)], "DETR", 91, False),
        ([(1, 80, 160, 160), (1, 2, 160, 160), (1, 2, 160, 160)], "CenterNet", 80, True),
    ],
)
def test_detectors(shapes: list[tuple[int, ...]], kind: str, classes: int, is_sure: bool) -> None:
    head = guess_head(network(*shapes, size=(640, 640)))
    assert (head.kind, head.task, head.classes, head.is_sure) == (kind, TaskKind.DETECTION, classes, is_sure)
    open_metric(head.metric, head.options)
    assert guess_head(network(*shapes, size=(640, 640)), TaskKind.CLASSIFICATION).kind == "unknown"


def test_labels_tell_heads_of_one_shape_apart() -> None:
    maps = [(1, 66, side, side) for side in (80, 40, 20)]
    assert guess_head(network(*maps, size=(640, 640)), classes=2).kind == "YOLOv8 raw heads"
    assert guess_head(network(*maps, size=(640, 640)), classes=17).kind == "YOLOv5 raw heads"


ULTRALYTICS = {"author": "Ultralytics", "task": "detect", "names": str({i: f"class {i}" for i in range(18)})}


def test_metadata_go_before_labels_and_shapes() -> None:
    """A YOLOv8 with 18 classes on images with 1000 was taken for CTC: 2100 positions are more than 18."""
    outputs = ((1, 22, 2100),)
    head = guess_head(network(*outputs, size=(320, 320), **ULTRALYTICS), None, 1000, TaskKind.CLASSIFICATION)
    assert (head.kind, head.task, head.classes, head.is_sure) == ("YOLOv8", TaskKind.DETECTION, 18, True)
    assert head.reason.endswith("the metadata of the file say task detect and 18 classes")
    assert guess_head(network(*outputs, size=(320, 320)), None, 1000, TaskKind.CLASSIFICATION).kind == "CTC"


@pytest.mark.parametrize(
    ("task", "shapes"),
    [
        ("pose", [(1, 56, 8400)]),  # 4 + 1 class + 17 points of 3: it looks like 52 classes
        ("obb", [(1, 20, 8400)]),
        ("segment", [(1, 116, 8400), (1, 32, 160, 160)]),
    ],
)
def test_tasks_without_a_metric_are_compared(task: str, shapes: list[tuple[int, ...]]) -> None:
    head = guess_head(network(*shapes, size=(640, 640), **{**ULTRALYTICS, "task": task}))
    assert (head.kind, head.metric) == ("unknown", "cosine")
    assert head.reason.startswith(f"the file says task {task} and 18 classes, for which there is no metric")


def test_classes_of_the_file_that_no_head_has() -> None:
    """RT-DETR's one output of 300 x (4 + 80) is not YOLOv5's 5 + 79."""
    names = str({i: str(i) for i in range(80)})
    head = guess_head(network((1, 300, 84), size=(640, 640), **{**ULTRALYTICS, "names": names}))
    assert head.kind == "unknown"
    assert "the file says task detect and 80 classes, but no known head has outputs" in head.reason
    v5 = guess_head(network((1, 25200, 23), size=(640, 640), stride="32", names=ULTRALYTICS["names"]))
    assert (v5.kind, v5.classes, v5.is_sure) == ("YOLOv5", 18, True)
    end = guess_head(network((1, 300, 6), size=(640, 640), **ULTRALYTICS))
    assert (end.kind, end.classes) == ("end-to-end YOLO", 18)


def test_a_user_goes_before_metadata() -> None:
    said = network((1, 18), **ULTRALYTICS)
    assert guess_head(said).kind == "unknown"
    assert guess_head(said, TaskKind.CLASSIFICATION).kind == "class scores"


def test_characters_of_the_file_tell_a_reader_from_a_detector() -> None:
    characters = "\n".join(map(chr, range(0x4E00, 0x4E00 + 98)))
    shape = (1, 40, 100)
    assert guess_head(network(shape, size=(160, 160))).kind == "YOLOv8"
    head = guess_head(network(shape, size=(160, 160), character=characters))
    assert (head.kind, head.is_sure) == ("CTC", True)
