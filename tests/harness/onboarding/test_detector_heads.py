"""Detectors by the shapes of their outputs; the table itself is tested in ``test_heads``."""

from __future__ import annotations

from harness.onboarding import detector_heads
from tests.harness.onboarding.test_heads import network


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
