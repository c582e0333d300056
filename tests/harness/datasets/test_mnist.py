"""MNIST: what a split holds."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.datasets import Colour, open_dataset
from harness.datasets.mnist import Mnist, MnistOptions, load_mnist
from harness.datasets.stratified import stratified_splits


class TestMnist:
    def test_splits_share_no_image(self) -> None:
        images, classes = load_mnist()
        per_class = {"train": 350, "calibration": 30, "evaluation": 120}
        indices = stratified_splits(classes, per_class, MnistOptions().seed)
        assert sorted(np.concatenate(list(indices.values()))) == list(range(5000))
        dataset = Mnist(MnistOptions())
        for name, chosen in indices.items():
            np.testing.assert_array_equal(dataset.split(name).images(), images[chosen])

    def test_every_prefix_is_balanced(self) -> None:
        classes = open_dataset("mnist").split("evaluation").targets(0, 50)
        assert np.bincount(np.asarray(classes)).tolist() == [5] * 10

    def test_split_needs_more_than_there_is(self) -> None:
        with pytest.raises(ConfigError, match="a class has 500"):
            open_dataset("mnist", {"train": 400})

    def test_arrays_cannot_be_written_to(self) -> None:
        with pytest.raises(ValueError, match="read-only"):
            load_mnist()[0][0] = 0

    def test_defaults_share_out_all_images(self) -> None:
        dataset = open_dataset("mnist")
        assert {name: len(split) for name, split in dataset.splits.items()} == {
            "train": 3500,
            "calibration": 300,
            "evaluation": 1200,
        }
        assert (dataset.image_format.shape, dataset.image_format.colour) == ((28, 28, 1), Colour.GRAY)

    def test_ink_is_white(self) -> None:
        images, classes = load_mnist()
        assert (images.dtype, images.shape, images.max()) == (np.uint8, (5000, 28, 28, 1), 255)
        assert not images[:, 0].any()
        assert np.bincount(classes).tolist() == [500] * 10

    @pytest.mark.parametrize("seed", [-1, 2**32])
    def test_seeds_that_numpy_does_not_take(self, seed: int) -> None:
        with pytest.raises(ConfigError, match=f"seed: {seed}"):
            open_dataset("mnist", {"seed": seed})
