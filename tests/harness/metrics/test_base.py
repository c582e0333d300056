"""What all metrics share: checks of outputs and targets, the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import InferenceError
from harness.metrics.base import bootstrap_stderr, check_outputs, scene_targets
from tests.harness.metrics.scenes import scene


def test_bootstrap_is_near_the_closed_form_and_repeatable() -> None:
    hits = np.arange(400) % 5 == 0
    first = bootstrap_stderr(lambda counts: float(counts @ hits / 400), 400)
    assert first == bootstrap_stderr(lambda counts: float(counts @ hits / 400), 400)
    assert first == pytest.approx(np.sqrt(0.2 * 0.8 / 400), rel=0.15)


def test_bootstrap_is_the_spread_of_200_seeded_resamples() -> None:
    values = np.array([0.0, 1.0, 3.0, 4.0, 9.0])
    random = np.random.RandomState(0)
    means = np.array([values[random.randint(5, size=5)].mean() for _ in range(200)])
    expected = np.sqrt(((means - means.mean()) ** 2).sum() / 199)
    assert bootstrap_stderr(lambda counts: float(counts @ values / 5), 5) == pytest.approx(expected)


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
