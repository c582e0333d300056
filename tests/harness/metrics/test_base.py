"""What all metrics share: checks of outputs and targets, standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from engine.errors import InferenceError
from harness.metrics.base import Score, check_outputs, scene_targets
from tests.harness.metrics.scenes import scene


def test_a_mean_has_the_standard_error_of_a_mean() -> None:
    values = np.array([0.0, 1.0, 3.0, 4.0, 9.0])
    score = Score.mean(values)
    assert (score.value, score.resampled) == (pytest.approx(3.4), None)
    assert score.stderr == pytest.approx(stats.sem(values))
    assert Score.mean(values[:1]).stderr == 0


def test_any_other_metric_has_that_of_the_bootstrap() -> None:
    """Near the closed form for a mean, and the same every time."""
    hits = (np.arange(400) % 5 == 0).astype(np.float64)
    first, again = (Score.of(lambda weights: weights @ hits / weights.sum(axis=1), hits) for _ in range(2))
    assert first.value == pytest.approx(0.2)
    assert first.stderr == again.stderr == pytest.approx(np.sqrt(0.2 * 0.8 / 400), rel=0.1)


def test_none_stands_for_any_size() -> None:
    check_outputs([np.zeros((2, 7, 5)), np.zeros((2, 3))], [(2, None, 5), (2, 3)])


@pytest.mark.parametrize("shapes", [[(2, 3, 5)], [(3, 3, 4)], [(2, 3)], [(2, 3, 4), (2,)], []])
def test_outputs_of_other_shapes_are_refused(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(InferenceError) as raised:
        check_outputs([np.zeros(shape) for shape in shapes], [(2, None, 4)])
    assert str(raised.value) == f"outputs have shapes {shapes}, the metric and the targets need [(2, None, 4)]"


def test_every_target_must_be_a_scene() -> None:
    scenes = [scene([], []), scene([(0, 0, 4, 4)], [1])]
    assert [id(one) for one in scene_targets(scenes)] == [id(one) for one in scenes]
    for wrong in (np.array([1, 2]), ["a"], [], [scenes[0], "a"]):
        with pytest.raises(InferenceError, match="boxes and masks for every image, and at least one image"):
            scene_targets(wrong)  # type: ignore[arg-type]
