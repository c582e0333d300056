"""Mean intersection over union against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import ConfigError, InferenceError
from harness.metrics import open_metric
from harness.metrics.resampling import weightings
from harness.metrics.segmentation import Miou, MiouOptions, bilinear
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
        with pytest.raises(InferenceError, match=r"\(1, 4, 8, 8\)"):
            Miou(MiouOptions(classes=3)).score([np.zeros((1, 4, 8, 8), np.float32)], [scene([], [])])
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
        assert score.resampled is not None
        np.testing.assert_allclose(score.resampled, [values[int(first)] for first in weightings(2)[:, 0]])
        assert score.stderr == pytest.approx(np.std(score.resampled, ddof=1))

    def test_an_image_without_a_class_is_right_if_none_is_found(self) -> None:
        """The second mask is not counted at all, the third is background throughout, as is the output."""
        masks = [np.array([[1, 0]], np.uint8), np.full((1, 2), 255, np.uint8), np.zeros((1, 2), np.uint8)]
        outputs = np.zeros((3, 2, 1, 2), np.float32)
        outputs[0, 1, 0, 0] = 1
        score = Miou(MiouOptions(classes=2)).score([outputs], [scene([], [], mask) for mask in masks])
        assert (score.value, score.per_sample.tolist()) == (1.0, [1.0, 1.0, 1.0])
        assert score.informative is not None
        assert score.informative.tolist() == [True, False, False]

    @pytest.mark.parametrize(("classes", "allowed"), [(1, False), (2, True), (256, True), (257, False)])
    def test_classes_are_those_of_a_mask_of_bytes(self, classes: int, allowed: bool) -> None:
        if allowed:
            assert open_metric("miou", {"classes": classes}).name == "miou"
        else:
            with pytest.raises(ConfigError, match=f"options of metric miou: classes: {classes}"):
                open_metric("miou", {"classes": classes})


class TestForms:
    MASK = np.array([[0, 1, 1, 2], [0, 0, 1, 2], [2, 2, 2, 0], [2, 2, 0, 0]], np.uint8)

    def logits(self) -> np.ndarray:
        return np.moveaxis(np.eye(3, dtype=np.float32)[self.MASK], -1, 0)[np.newaxis]

    @pytest.mark.parametrize("form", ["nchw", "nhwc", "classes"])
    def test_logits_of_either_order_and_numbers_of_classes(self, form: str) -> None:
        wrong = self.MASK.copy()
        wrong[0, 0] = 1
        logits = np.moveaxis(np.eye(3, dtype=np.float32)[wrong], -1, 0)[np.newaxis]
        output = {"nchw": logits, "nhwc": np.moveaxis(logits, 1, 3), "classes": wrong[np.newaxis]}[form]
        metric = open_metric("miou", {"classes": 3, "form": form})
        wanted = np.mean([5 / 6, 3 / 4, 1.0])
        assert metric.score([output], [scene([], [], self.MASK)]).value == pytest.approx(wanted)
        (said,) = metric.labels([output])  # type: ignore[misc]
        np.testing.assert_array_equal(said.mask, wrong)

    def test_classes_with_a_channel_in_front_or_behind(self) -> None:
        metric = open_metric("miou", {"classes": 3, "form": "classes"})
        for output in (self.MASK[np.newaxis, np.newaxis], self.MASK[np.newaxis, ..., np.newaxis].astype(np.float32)):
            assert metric.score([output], [scene([], [], self.MASK)]).value == 1.0
        with pytest.raises(InferenceError, match=r"the output holds class 7, expected 0\.\.2"):
            metric.score([self.MASK[np.newaxis] + 5], [scene([], [], self.MASK)])

    def test_one_channel_and_a_threshold(self) -> None:
        mask = (self.MASK == 1).astype(np.uint8)
        probability = np.where(mask, 0.7, 0.2).astype(np.float32)[np.newaxis, np.newaxis]
        metric = open_metric("miou", {"classes": 2, "form": "binary"})
        assert metric.score([probability], [scene([], [], mask)]).value == 1.0
        strict = open_metric("miou", {"classes": 2, "form": "binary", "threshold": 0.8})
        assert strict.score([probability], [scene([], [], mask)]).value == pytest.approx(13 / 16 / 2)
        with pytest.raises(ConfigError, match="form 'binary' tells 2 classes apart, not 3"):
            open_metric("miou", {"classes": 3, "form": "binary"})

    def test_pixels_of_255_are_not_counted(self) -> None:
        mask, output = self.MASK.copy(), self.logits()
        mask[0] = 255
        metric = open_metric("miou", {"classes": 3})
        assert metric.score([output], [scene([], [], mask)]).value == 1.0
        assert metric.score([output], [scene([], [], np.full((4, 4), 255, np.uint8))]).value == 1.0
        mask[0] = 9
        with pytest.raises(
            InferenceError, match=r"a mask holds class 9, the output has 3 classes \(0\.\.2; 255 is not counted\)"
        ):
            metric.score([output], [scene([], [], mask)])

    @pytest.mark.parametrize("size", [(16, 24), (13, 7), (3, 4)])
    def test_smaller_logits_are_resized_as_torch_does(self, size: tuple[int, int]) -> None:
        """``torch.nn.functional.interpolate(mode="bilinear", align_corners=False)``, as DeepLab in torchvision."""
        torch = pytest.importorskip("torch", reason="extra zoo")
        logits = np.random.RandomState(3).normal(size=(1, 5, 6, 8)).astype(np.float32)
        wanted = torch.nn.functional.interpolate(torch.from_numpy(logits), size, mode="bilinear", align_corners=False)
        np.testing.assert_allclose(bilinear(logits[0], size), wanted[0].numpy(), rtol=1e-5, atol=1e-6)
        mask = wanted[0].numpy().argmax(axis=0).astype(np.uint8)
        metric = open_metric("miou", {"classes": 5})
        assert metric.score([logits], [scene([], [], mask)]).value > 0.95  # ties of rounding at the edges

    def test_other_forms_are_refused(self) -> None:
        with pytest.raises(InferenceError, match=r"shapes \[\(1, 4, 4, 3\)\], form nchw needs one with 3 channels"):
            open_metric("miou", {"classes": 3}).score([np.zeros((1, 4, 4, 3), np.float32)], [scene([], [], self.MASK)])
        with pytest.raises(InferenceError, match="outputs of 2 images, targets of 1"):
            open_metric("miou", {"classes": 3}).score([np.zeros((2, 3, 4, 4), np.float32)], [scene([], [], self.MASK)])
