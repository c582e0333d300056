"""Metrics against independent implementations: pycocotools, scikit-learn."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.metrics import jaccard_score, top_k_accuracy_score

from harness.datasets import SceneTarget
from harness.metrics import open_metric
from harness.metrics.detection import Detections, score_detections

SEEDS = range(6)
RECALLS = 10_001
"""Points of recall at which pycocotools reads the curve; with its usual 101 the area would be rough."""


def draw_boxes(random: np.random.RandomState, count: int) -> np.ndarray:
    corners, sides = random.uniform(0, 40, (count, 2)), random.uniform(5, 25, (count, 2))
    return np.concatenate([corners, corners + sides], axis=1).astype(np.float32)


def draw_images(seed: int, images: int = 12, classes: int = 3) -> tuple[list[Detections], list[SceneTarget]]:
    """Targets, and detections of which about half are targets moved a little; some images have none."""
    random = np.random.RandomState(seed)
    found, scenes = [], []
    for _ in range(images):
        targets = draw_boxes(random, random.randint(0, 6))
        labels = random.randint(classes, size=len(targets)).astype(np.int64)
        scenes.append(SceneTarget(targets, labels, np.zeros((64, 64), np.uint8)))
        moved = targets + random.normal(0, 2.5, targets.shape).astype(np.float32)
        moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 1)
        boxes = np.concatenate([moved, moved[::2], draw_boxes(random, random.randint(0, 5))])
        guesses = np.concatenate([labels, labels[::2], random.randint(classes, size=len(boxes))])[: len(boxes)]
        scores = np.sort(random.permutation(10_000)[: len(boxes)])[::-1] / np.float32(10_000)
        order = random.permutation(len(boxes))
        found.append(Detections(boxes[order], scores.astype(np.float32), guesses[order].astype(np.int64)))
    return found, scenes


def coco_map50(found: Sequence[Detections], scenes: Sequence[SceneTarget], classes: int) -> float:
    """mAP at IoU 0.5 as pycocotools computes it, with a finely read curve."""
    coco = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    evaluation = pytest.importorskip("pycocotools.cocoeval")

    def entries(boxes: np.ndarray, labels: np.ndarray, image: int) -> list[dict[str, object]]:
        sizes = boxes[:, 2:] - boxes[:, :2]
        return [
            {"image_id": image, "category_id": int(label), "bbox": [*map(float, box[:2]), *map(float, size)]}
            for box, size, label in zip(boxes, sizes, labels, strict=True)
        ]

    targets = [entry for image, one in enumerate(scenes) for entry in entries(one.boxes, one.classes, image)]
    for number, target in enumerate(targets, start=1):
        width, height = target["bbox"][2:]
        target.update(id=number, iscrowd=0, area=width * height)
    results = [
        {**entry, "score": float(score)}
        for image, one in enumerate(found)
        for entry, score in zip(entries(one.boxes, one.classes, image), one.scores, strict=True)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO()
        truth.dataset = {
            "info": {},
            "images": [{"id": image} for image in range(len(scenes))],
            "annotations": targets,
            "categories": [{"id": label} for label in range(classes)],
        }
        truth.createIndex()
        run = evaluation.COCOeval(truth, truth.loadRes(results), "bbox")
        run.params.iouThrs, run.params.recThrs = np.array([0.5]), np.linspace(0, 1, RECALLS)
        run.evaluate()
        run.accumulate()
    curves = run.eval["precision"][0, :, :, 0, -1]  # of all sizes, at most 100 detections; -1 where no target is
    return float(np.mean([curve.mean() for curve in curves.T if curve[0] >= 0]))


@pytest.mark.parametrize("seed", SEEDS)
def test_map50_is_that_of_pycocotools(seed: int) -> None:
    found, scenes = draw_images(seed)
    expected = coco_map50(found, scenes, 3)
    assert 0.1 < expected < 0.9
    assert score_detections(found, scenes, 3).value == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_miou_is_scikit_learns_jaccard_score(seed: int) -> None:
    random = np.random.RandomState(seed)
    masks = random.randint(0, 4, (5, 8, 9)).astype(np.uint8)  # class 4 occurs in outputs only
    logits = random.normal(size=(5, 5, 8, 9)).astype(np.float32)
    scenes = [SceneTarget(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), mask) for mask in masks]
    score = open_metric("miou", {"classes": 5}).score([logits], scenes)
    labels = logits.argmax(axis=1)
    assert score.value == pytest.approx(jaccard_score(masks.ravel(), labels.ravel(), average="macro"))
    for image in range(5):
        expected = jaccard_score(masks[image].ravel(), labels[image].ravel(), average="macro")
        assert score.per_sample[image] == pytest.approx(expected)


@pytest.mark.parametrize(("name", "k"), [("top1", 1), ("top5", 5)])
@pytest.mark.parametrize("seed", SEEDS)
def test_top_k_is_scikit_learns(name: str, k: int, seed: int) -> None:
    random = np.random.RandomState(seed)
    scores, classes = random.normal(size=(200, 12)), random.randint(12, size=200)
    expected = top_k_accuracy_score(classes, scores, k=k, labels=np.arange(12))
    assert open_metric(name).score([scores], classes).value == pytest.approx(expected)
