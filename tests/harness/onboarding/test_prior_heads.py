"""Detectors with prior boxes, by shapes and by what stands behind the last layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from harness.metrics import open_metric
from harness.metrics.decoders import pyramid_grids
from harness.metrics.priors import PriorLevel
from harness.onboarding import prior_heads
from harness.onboarding.heads import guess_head
from harness.onboarding.network_file import NetworkFile, read_network
from harness.terms import Fit
from tests.harness.onboarding.networks import save_network
from tests.harness.onboarding.test_heads import network

GRIDS = pyramid_grids((512, 512))
POSITIONS = 9 * sum(rows * columns for rows, columns in GRIDS)
CELLS = POSITIONS // 9
CLASS_MAPS, BOX_MAPS = [(1, 720, *grid) for grid in GRIDS], [(1, 36, *grid) for grid in GRIDS]


def ending_in(given: NetworkFile, tails: dict[int, tuple[str, ...]], is_separable: bool = False) -> NetworkFile:
    """``given`` with operators behind the last layers of some outputs."""
    outputs = [
        replace(output, tail=tails.get(index, ()), is_separable=is_separable)
        for index, output in enumerate(given.outputs)
    ]
    return replace(given, outputs=tuple(outputs))


@pytest.mark.parametrize(
    ("shapes", "size", "kind", "classes", "boxes"),
    [
        ([(1, POSITIONS, 91), (1, POSITIONS, 4)], 512, "RetinaNet (torchvision)", 91, [1]),
        ([(1, POSITIONS, 4), (1, POSITIONS, 91)], 512, "RetinaNet (torchvision)", 91, [0]),
        ([*CLASS_MAPS, *BOX_MAPS], 512, "RetinaNet (Detectron2)", 80, [5, 6, 7, 8, 9]),
        ([each for pair in zip(CLASS_MAPS, BOX_MAPS, strict=True) for each in pair], 512, "RetinaNet (Detectron2)", 80,
         [1, 3, 5, 7, 9]),
        ([(1, 8732, 4), (1, 8732, 21)], 300, "SSD300 on PASCAL VOC", 20, [0]),
        ([(1, 8732, 4), (1, 8732, 91)], 300, "SSD300 on COCO", 90, [0]),
        ([(1, 3000, 21), (1, 3000, 4)], 300, "SSD of pytorch-ssd", 20, [1]),
        ([(1, 1917, 4), (1, 1917, 21)], 300, "MobileNet-SSD", 20, [0]),
        ([(1, 3234, 4), (1, 3234, 91)], 320, "SSDLite of torchvision", 90, [0]),
        ([(1, 500, 4), (1, 500, 21), (500, 4)], 300, "SSD with its priors", 20, [0]),
    ],
)  # fmt: skip
def test_raw_outputs(shapes: list[tuple[int, ...]], size: int, kind: str, classes: int, boxes: list[int]) -> None:
    head = guess_head(network(*shapes, size=(size, size)))
    assert (head.kind, head.classes, head.options["priors"]["boxes"], head.is_sure) == (kind, classes, boxes, False)
    parts = open_metric(head.metric, head.options).parts(
        [np.zeros(_for_one_image(shape), np.float32) for shape in shapes]
    )
    assert {len(parts["boxes"]), len(parts["classes"])} == {len(boxes)}


def test_published_networks_have_so_many_priors() -> None:
    found = [prior_heads.ssd300((30, 60, 111, 162, 213, 264)), prior_heads.ssdlite300(), prior_heads.mobilenet_ssd()]
    found += [
        prior_heads.ssdlite320(),
        prior_heads.efficientdet((512, 512)),
        prior_heads.torchvision_retinanet((512, 512)),
    ]
    counts = [sum(PriorLevel.model_validate(level).count for level in levels) for levels in found]
    assert counts == [8732, 3000, 1917, 3234, 49104, 49104]


def _for_one_image(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if shape[0] == 1 else (1, *shape)


@pytest.mark.parametrize("is_last", [False, True])
def test_efficientdet_has_separable_convolutions(is_last: bool) -> None:
    maps = [*CLASS_MAPS, *BOX_MAPS]
    shapes = [(1, *shape[2:], shape[1]) for shape in maps] if is_last else maps
    head = guess_head(ending_in(network(*shapes, size=(512, 512)), {}, is_separable=True))
    assert (head.kind, head.classes, head.options["priors"]["rows_first"]) == ("EfficientDet", 80, True)
    assert head.options["priors"]["layout"] == ("nhwc" if is_last else "nchw")
    open_metric(head.metric, head.options)
    tables = ending_in(
        network((1, POSITIONS, 4), (1, POSITIONS, 90), size=(512, 512)), {1: ("Sigmoid", "Reshape")}, is_separable=True
    )
    found = guess_head(tables)
    assert (found.kind, found.options["priors"]["scores"]) == ("EfficientDet", "probabilities")


def test_what_stands_behind_the_last_layers_tells_raw_outputs_from_decoded_ones() -> None:
    outputs = network((1, 3000, 21), (1, 3000, 4), size=(300, 300))
    raw = guess_head(ending_in(outputs, {0: ("Softmax", "Reshape"), 1: ("Concat", "Transpose")}))
    assert raw.options["priors"]["scores"] == "probabilities"
    decoded = guess_head(ending_in(outputs, {0: ("Softmax",), 1: ("Concat", "Exp", "Mul")}))
    assert (decoded.kind, decoded.options["decoder"]) == ("SSD", "ssd")


def test_decoded_boxes() -> None:
    yolov4 = guess_head(network((1, 10647, 1, 4), (1, 10647, 80), size=(416, 416)))
    assert (yolov4.kind, yolov4.options["decoder"], yolov4.classes, yolov4.fit) == ("YOLOv4", "yolov4", 80, Fit.STRETCH)
    fcos = guess_head(network((1, CELLS, 91), (1, CELLS, 4), (1, CELLS, 1), size=(512, 512)))
    assert (fcos.kind, fcos.options["decoder"], fcos.classes) == ("FCOS", "fcos", 91)


def test_the_end_of_a_network_is_read_from_its_graph(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["image", "depthwise"], ["a"], group=3),
        helper.make_node("Conv", ["a", "pointwise"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 3, 1]),
        helper.make_node("Conv", ["image", "pointwise"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["e"]),
    ]
    shapes = {"c": [1, 8, 8, 2], "e": [1, 2, 8, 8]}
    arrays = {"depthwise": np.ones((3, 1, 1, 1)), "pointwise": np.ones((2, 3, 1, 1))}
    read = read_network(save_network(tmp_path / "net.onnx", nodes, shapes, [1, 3, 8, 8], **arrays))
    assert [(output.tail, output.is_separable) for output in read.outputs] == [
        (("Transpose",), True),
        (("Sigmoid",), False),
    ]
