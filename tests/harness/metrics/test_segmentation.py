"""Mean intersection over union against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import ConfigError, InferenceError
from harness.metrics import open_metric
from harness.metrics.base import bootstrap_stderr
from harness.metrics.segmentation import Miou, MiouOptions
from tests.harness.metrics.scenes import scene


class TestMiou:
    def logits_of(self, mask: np.ndarray, classes: int) -> np.ndarray:
        return np.moveaxis(np.eye(classes, dtype=np.float32)[mask], -1, 0)

    def test_by_hand(self) -> None:
        target = np.array([[0, 0, 1, 1]], np.uint8)
        output = np.array([[0, 1, 1, 1]], np.uint8)
        score = Miou(MiouOptions(classes=3)).score([self.logits_of(output, 3)[np.newaxis]], [scene([], [], target)])
        assert score.value == pytest.approx((1 / 2 + 2 / 3) / 2)  # class 2 occurs nowhere and stays out
        assert score.per_sample.tolist() == [pytest.approx(score.value)]
        assert score.stderr == pytest.approx(0, abs=1e-12)  # every resample of one image is that image

    def test_a_class_that_only_the_output_has_counts_as_zero(self) -> None:
        target = np.zeros((1, 4), np.uint8)
        output = np.array([[0, 0, 0, 2]], np.uint8)
        score = Miou(MiouOptions(classes=3)).score([self.logits_of(output, 3)[np.newaxis]], [scene([], [], target)])
        assert score.value == pytest.approx((3 / 4 + 0) / 2)

    def test_pixels_of_all_images_are_counted_together(self) -> None:
        targets = [np.array([[0, 1]], np.uint8), np.array([[1, 1]], np.uint8)]
        outputs = [np.array([[0, 1]], np.uint8), np.array([[1, 0]], np.uint8)]
        logits = np.stack([self.logits_of(output, 2) for output in outputs])
        score = Miou(MiouOptions(classes=2)).score([logits], [scene([], [], target) for target in targets])
        assert score.value == pytest.approx((1 / 2 + 2 / 3) / 2)
        assert score.per_sample.tolist() == [1.0, pytest.approx((0 + 1 / 2) / 2)]
        assert score.stderr > 0

    def test_outputs_that_do_not_fit(self) -> None:
        with pytest.raises(InferenceError, match=r"\(1, 3, 16, 16\)"):
            Miou(MiouOptions(classes=3)).score([np.zeros((1, 3, 8, 8), np.float32)], [scene([], [])])
        with pytest.raises(InferenceError, match="boxes and masks"):
            Miou(MiouOptions(classes=3)).score([np.zeros((1, 3, 8, 8), np.float32)], np.array([1]))

    def test_of_equal_logits_the_first_class_counts(self) -> None:
        target = np.array([[0, 1]], np.uint8)
        score = Miou(MiouOptions(classes=2)).score([np.zeros((1, 2, 1, 2), np.float32)], [scene([], [], target)])
        assert score.value == pytest.approx((1 / 2 + 0) / 2)

    def test_the_bootstrap_counts_pixels_of_all_drawn_images_together(self) -> None:
        """The first image is right throughout, the second wrong throughout; each has one pixel of class 0."""
        targets = [np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.uint8)]
        outputs = np.array([[[[1.0]], [[0.0]]], [[[0.0]], [[1.0]]]], np.float32)
        score = Miou(MiouOptions(classes=2)).score([outputs], [scene([], [], target) for target in targets])
        values = {0: 0.0, 1: (1 / 2 + 0) / 2, 2: 1.0}  # by how often the first image was drawn
        assert score.value == values[1]
        assert score.stderr == pytest.approx(bootstrap_stderr(lambda counts: values[int(counts[0])], 2))

    @pytest.mark.parametrize(("classes", "allowed"), [(1, False), (2, True), (256, True), (257, False)])
    def test_classes_are_those_of_a_mask_of_bytes(self, classes: int, allowed: bool) -> None:
        if allowed:
            assert open_metric("miou", {"classes": classes}).name == "miou"
        else:
            with pytest.raises(ConfigError, match=f"options of metric miou: classes: {classes}"):
                open_metric("miou", {"classes": classes})
