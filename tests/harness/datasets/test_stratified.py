"""Assignment to splits: seeded, disjoint, classes in rotation."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.datasets.stratified import stratified_splits

CLASSES = np.array([7, 2, 2, 7, 7, 2, 2, 7, 7], np.int64)
"""Four samples of class 2, five of class 7."""


def test_each_class_is_shuffled_once_and_cut_in_the_order_of_the_splits() -> None:
    random = np.random.RandomState(5)
    two, seven = random.permutation([1, 2, 5, 6]), random.permutation([0, 3, 4, 7, 8])
    found = stratified_splits(CLASSES, {"train": 1, "none": 0, "calibration": 3}, 5)
    assert {name: chosen.tolist() for name, chosen in found.items()} == {
        "train": [two[0], seven[0]],
        "none": [],
        "calibration": [two[1], seven[1], two[2], seven[2], two[3], seven[3]],
    }


def test_another_seed_gives_another_order() -> None:
    orders = {tuple(stratified_splits(CLASSES, {"all": 4}, seed)["all"]) for seed in range(10)}
    assert len(orders) > 5


def test_a_class_with_too_few_samples_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"splits of {'train': 3, 'calibration': 2} samples per class need 5; a class has 4"
    ):
        stratified_splits(CLASSES, {"train": 3, "calibration": 2}, 0)
