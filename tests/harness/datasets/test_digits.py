"""scikit-learn's digits: levels, borders, splits."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.datasets import open_dataset
from harness.datasets.digits import Digits, DigitsOptions


class TestDigits:
    def test_enlarging(self) -> None:
        from sklearn.datasets import load_digits

        levels = load_digits().images
        image = open_dataset("digits").split("train").images(0, 1)[0, :, :, 0]
        assert not image[[0, 1, 26, 27]].any()
        assert not image[:, [0, 1, 26, 27]].any()
        inner = image[2:26, 2:26].reshape(8, 3, 8, 3)
        assert (inner == inner[:, :1, :, :1]).all()
        small = inner[:, 0, :, 0]
        assert (np.rint(levels * 255 / 16) == small).all(axis=(1, 2)).sum() == 1

    @pytest.mark.parametrize("size", [8, 15, 16, 33])
    def test_other_sizes(self, size: int) -> None:
        assert open_dataset("digits", {"size": size}).split("train").images(0, 2).shape == (2, size, size, 1)

    def test_levels_become_grays_rounded_to_even(self) -> None:
        """8 of 16 is 127.5."""
        levels = {round(255 * level / 16) for level in range(17)}
        grays = set(np.unique(open_dataset("digits").split("train").images()).tolist())
        assert grays == levels
        assert 128 in grays

    def test_an_odd_border_is_wider_right_and_below(self) -> None:
        images = open_dataset("digits", {"size": 15}).split("train").images()[..., 0]
        rows, columns = (np.flatnonzero(images.any(axis=axis)) for axis in ((0, 2), (0, 1)))
        assert (rows.min(), rows.max()) == (3, 10)
        assert (columns.min(), columns.max()) == (3, 10)

    def test_defaults_use_all_that_the_rarest_digit_has(self) -> None:
        dataset = Digits(DigitsOptions())
        assert dataset.image_format.shape == (28, 28, 1)  # as MNIST's
        assert {name: len(split) for name, split in dataset.splits.items()} == {
            "train": 1000,
            "calibration": 240,
            "evaluation": 500,
        }
        with pytest.raises(ConfigError, match="a class has 174"):
            open_dataset("digits", {"train": 101})

    @pytest.mark.parametrize("options", [{"size": 7}, {"size": 513}, {"seed": -1}, {"seed": 2**32}, {"evaluation": 0}])
    def test_options_out_of_range(self, options: dict[str, int]) -> None:
        (name,) = options
        with pytest.raises(ConfigError, match=f"options of dataset digits: {name}"):
            open_dataset("digits", options)

    def test_splits_are_disjoint(self) -> None:
        images = [image.tobytes() for split in open_dataset("digits").splits.values() for image in split.images()]
        assert len(set(images)) == len(images)
