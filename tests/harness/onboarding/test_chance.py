"""What a network scores that knows nothing."""

from __future__ import annotations

import numpy as np
import pytest

from harness.metrics import Score
from harness.onboarding.chance import NOTHING_FOUND, chance_level, is_at_chance
from tests.harness.metrics.scenes import scene


def test_by_the_labels_alone() -> None:
    assert chance_level("top1", np.array([0, 0, 0, 1])) == 0.75
    mask = np.array([[0, 0, 0, 1], [255, 255, 255, 255]], np.uint8)
    assert chance_level("miou", [scene([], [], mask)]) == pytest.approx(3 / 4 / 2)
    assert chance_level("edit_similarity", ["ab", "ac", "xy"]) == pytest.approx(0.5 / 3)
    assert chance_level("word_accuracy", ["ab", "ab", "xy"]) == pytest.approx(1 / 3)
    assert chance_level("map50", [scene([], [], mask)]) == NOTHING_FOUND


def test_two_standard_errors() -> None:
    per_sample = np.zeros(100)
    assert is_at_chance(Score(0.33, 0.01, per_sample), 0.25, 100)
    assert not is_at_chance(Score(0.34, 0.01, per_sample), 0.25, 100)
    assert not is_at_chance(Score(0.05, 0.01, per_sample), NOTHING_FOUND, 4)
