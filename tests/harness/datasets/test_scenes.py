"""Scenes: the same everywhere, targets that describe them, splits apart."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.datasets import SceneTarget, mnist, open_dataset
from harness.datasets.mnist import MnistOptions, load_mnist
from harness.datasets.scenes import SceneOptions, Scenes, _covered, _resize_bilinear
from harness.datasets.stratified import stratified_splits


def pixels(images: np.ndarray) -> str:
    return hashlib.sha256(images.tobytes()).hexdigest()[:16]


class TestScenes:
    def test_the_same_pixels_everywhere(self) -> None:
        """If this fails on another machine or numpy, scores of scene models are no longer comparable."""
        found = {name: pixels(split.images(0, 8)) for name, split in open_dataset("scenes").splits.items()}
        assert found == {
            "train": "eb3986ab34dfc33b",
            "calibration": "b481a83b3dbac805",
            "evaluation": "93c74f1f87f1a283",
        }

    def test_an_image_does_not_depend_on_how_many_there_are(self) -> None:
        many, few = open_dataset("scenes"), open_dataset("scenes", {"evaluation": 5})
        np.testing.assert_array_equal(many.split("evaluation").images(0, 5), few.split("evaluation").images())

    def test_targets_describe_the_image(self) -> None:
        split = open_dataset("scenes").split("train")
        for image, target in zip(split.images(0, 60), split.targets(0, 60), strict=True):
            assert isinstance(target, SceneTarget)
            assert 1 <= len(target.boxes) == len(target.classes) <= 4
            assert (target.boxes[:, :2] >= 0).all()
            assert (target.boxes[:, 2:] <= 96).all()
            sides = (target.boxes[:, 2:] - target.boxes[:, :2]).max(axis=1)
            assert (sides >= 22).all()
            assert (sides <= 46).all()
            in_boxes = np.zeros((96, 96), bool)
            for left, top, right, bottom in target.boxes.astype(int):
                in_boxes[top:bottom, left:right] = True
            assert not target.mask[~in_boxes].any()
            assert set(np.unique(target.mask)) - {0} <= set(target.classes + 1)
            assert image.std() > 0

    @pytest.mark.parametrize("name", ["train", "calibration", "evaluation"])
    def test_splits_use_digits_of_their_own(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without the MNIST images of the other splits, the scenes of a split are the same."""
        expected = open_dataset("scenes").split(name).images(0, 40)
        images, classes = load_mnist()
        per_class = {"train": 350, "calibration": 30, "evaluation": 120}
        own = stratified_splits(classes, per_class, MnistOptions().seed)[name]
        blanked = np.zeros_like(images)
        blanked[own] = images[own]
        monkeypatch.setattr(mnist, "load_mnist", lambda: (blanked, classes))
        scenes = Scenes(SceneOptions())
        np.testing.assert_array_equal(scenes.split(name).images(0, 40), expected)

    def test_sizes_are_checked(self) -> None:
        with pytest.raises(ConfigError, match="smallest 50 <= largest 46"):
            open_dataset("scenes", {"smallest": 50})

    def test_the_same_targets_everywhere(self) -> None:
        """Boxes, classes and masks of the images above."""
        found = {
            name: hashlib.sha256(
                b"".join(part.tobytes() for t in split.targets(0, 8) for part in (t.boxes, t.classes, t.mask))
            ).hexdigest()[:16]
            for name, split in open_dataset("scenes").splits.items()
        }
        assert found == {
            "train": "18e4e4fa0aba0089",
            "calibration": "700e0b9e6f40d199",
            "evaluation": "96d0ed1763452fe9",
        }

    @pytest.mark.parametrize(
        ("options", "allowed"),
        [
            ({"smallest": 46}, True),
            ({"smallest": 47}, False),
            ({"largest": 95}, True),
            ({"largest": 96}, False),
            ({"size": 31}, False),
            ({"seed": 2**32}, False),
            ({"seed": -1}, False),
        ],
    )
    def test_limits_of_the_options(self, options: dict[str, int], allowed: bool) -> None:
        if allowed:
            assert SceneOptions.model_validate(options).model_dump(include=set(options)) == options
        else:
            with pytest.raises(ConfigError):
                open_dataset("scenes", options)

    def test_overlap_is_measured_on_the_smaller_box(self) -> None:
        assert _covered((0, 0, 10, 10), (5, 5, 25, 25)) == 25 / 100
        assert _covered((5, 5, 25, 25), (0, 0, 10, 10)) == 25 / 100
        assert _covered((0, 0, 10, 10), (10, 0, 20, 10)) == 0

    def test_enlarging_is_bilinear_at_half_pixel_centres(self) -> None:
        found = _resize_bilinear(np.array([[0.0, 8.0], [16.0, 24.0]]), 4, 4)
        np.testing.assert_array_equal(found[0], [0, 2, 6, 8])
        np.testing.assert_array_equal(found[:, 0], [0, 4, 12, 16])
