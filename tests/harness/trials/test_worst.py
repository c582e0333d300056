"""The worst samples: which, what is said of them, how they are drawn."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from harness.datasets import SceneTarget
from harness.trials.worst import _SIDE, decisions_of_worst, worst_picture, worst_samples
from tests.harness.trials.test_files import PREDICTIONS

EMPTY = np.zeros((20, 40), np.uint8)


def scene(*boxes: tuple[float, float, float, float], mask: np.ndarray = EMPTY, class_: int = 1) -> SceneTarget:
    return SceneTarget(np.array(boxes, np.float32).reshape(-1, 4), np.full(len(boxes), class_, np.int64), mask)


def grey(index: int) -> np.ndarray:
    return np.full((20, 40, 3), 128, np.uint8)


def drawn(predictions: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(worst_picture(predictions, grey))))


def test_the_worst_samples_come_first_then_those_least_like_float() -> None:
    assert worst_samples(PREDICTIONS)[:4].tolist() == [3, 1, 2, 0]
    assert len(worst_samples(PREDICTIONS)) == 16


def test_of_equal_scores_images_with_something_to_find_come_first() -> None:
    """Photographs without a box, however little alike their outputs are, are not the worst."""
    kept = {"per_sample": np.ones(4), "per_sample_cosine": np.array([0.5, 0.99, 0.6, 0.98])}
    assert worst_samples(kept).tolist() == [0, 2, 3, 1]
    kept["informative"] = np.array([False, True, False, True])
    assert worst_samples(kept).tolist() == [3, 1, 0, 2]


def test_of_classes_there_is_a_panel_per_sample() -> None:
    picture = Image.open(io.BytesIO(worst_picture(PREDICTIONS, lambda index: np.zeros((28, 28, 1), np.uint8))))
    assert picture.width == 4 * (_SIDE + 8)
    assert decisions_of_worst(np.zeros(3), np.zeros(3), np.zeros(3), np.arange(2)) == {}
    assert decisions_of_worst(None, None, np.zeros(3), np.arange(2)) == {}


def test_boxes_of_the_targets_and_both_models_stand_side_by_side() -> None:
    right = [scene((0, 0, 20, 10)), scene()]
    floats = [scene((0, 0, 20, 10)), scene()]
    said = [scene((20, 10, 40, 20), class_=0), scene()]
    kept = decisions_of_worst(said, floats, right, np.array([1, 0]))
    assert kept["worst.right.boxes"].tolist() == [[1, 1, 0, 0, 20, 10]]
    assert kept["worst.said.boxes"].tolist() == [[1, 0, 20, 10, 40, 20]]
    assert kept["worst.size"].tolist() == [20, 40]
    scores = {"per_sample": np.array([0.0, 0.5]), "per_sample_cosine": np.array([0.5, 0.9])}
    pixels = drawn({**scores, **kept})
    second = 3 * _SIDE + 8  # the first sample stands in the second place of the row
    coloured = (pixels[: _SIDE // 2, second:] != [128, 128, 128]).any(axis=2) & (
        pixels[: _SIDE // 2, second:] != 255
    ).any(axis=2)
    target, before, now = (coloured[:, at * _SIDE : (at + 1) * _SIDE] for at in range(3))
    assert (target == before).all()
    assert target[:34, :70].sum() > 100
    assert now[:30, :65].sum() == 0
    assert now[38:70, 75:140].sum() > 100


def test_masks_are_laid_over_the_image() -> None:
    mask = np.zeros((600, 300), np.uint8)
    mask[:, :150] = 2
    kept = decisions_of_worst(
        [scene(mask=mask * 0)], [scene(mask=mask)], [scene((0, 0, 5, 5), mask=mask)], np.array([0])
    )
    assert kept["worst.float.masks"].shape == (1, 200, 100)
    assert "worst.right.boxes" not in kept, "targets with boxes too are drawn as what the network decides"
    pixels = drawn({"per_sample": np.zeros(1), "per_sample_cosine": np.zeros(1), **kept})
    wanted, before, now = (pixels[10:60, at * _SIDE : at * _SIDE + 60] for at in range(3))
    assert (wanted == before).all()
    assert (now == 128).all()
    assert (wanted[:, 5] != 128).any()


def test_pixels_that_are_not_counted_have_gray_stripes() -> None:
    mask = np.full((100, 100), 255, np.uint8)
    kept = decisions_of_worst([scene(mask=mask * 0 + 1)], [scene(mask=mask * 0 + 1)], [scene(mask=mask)], np.array([0]))
    predictions = {"per_sample": np.zeros(1), "per_sample_cosine": np.zeros(1), **kept}
    sheet = Image.open(io.BytesIO(worst_picture(predictions, lambda _: np.zeros((100, 100, 3), np.uint8))))
    target = np.asarray(sheet)[10:60, :60]
    assert set(np.unique(target).tolist()) == {0, 128}
    assert 0.4 < (target == 128).mean() < 0.6


def test_texts_are_in_the_caption() -> None:
    kept = decisions_of_worst(["on"], ["one"], ["one"], np.array([0]))
    assert {name: array.tolist() for name, array in kept.items()} == {
        "worst": [0],
        "worst.said.texts": ["on"],
        "worst.float.texts": ["one"],
        "worst.right.texts": ["one"],
    }
    scores = {"per_sample": np.zeros(1), "per_sample_cosine": np.zeros(1)}
    without, within = drawn(scores), drawn({**scores, **kept})
    assert (without != within).any()
