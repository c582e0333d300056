"""Losses: boxes, cells and anchors by hand, and a fit that the metric agrees with."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs the extra zoo")

import torch

from harness.datasets import SceneTarget, open_dataset
from harness.metrics.detection import HeadOptions, Map50Options, decode_heads, score_detections
from harness.zoo.cards import load_card
from harness.zoo.training.losses import (
    _assigned,
    _best_anchors,
    _decode,
    _generalised_iou,
    detection_loss,
    distort,
)

OPTIONS = Map50Options.model_validate(
    {"classes": 2, "heads": [{"stride": 8, "anchors": [[6, 10], [10, 6]]}, {"stride": 16, "anchors": [[20, 12]]}]}
)


def scene(*boxes: tuple[float, ...]) -> SceneTarget:
    classes = np.arange(len(boxes), dtype=np.int64) % 2
    return SceneTarget(np.array(boxes, np.float32).reshape(-1, 4), classes, np.zeros((32, 32), np.uint8))


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ([0, 0, 4, 4], 1.0),
        ([2, 0, 6, 4], 8 / 24),  # the hull is the union
        ([4, 4, 8, 8], 0 - (64 - 32) / 64),
        ([8, 0, 12, 4], 0 - (48 - 32) / 48),
        ([1, 1, 3, 3], 4 / 16),
    ],
)
def test_generalised_iou(second: list[float], expected: float) -> None:
    found = _generalised_iou(torch.tensor([[0.0, 0.0, 4.0, 4.0]]), torch.tensor([second], dtype=torch.float32))
    assert found.tolist() == [pytest.approx(expected, abs=1e-5)]


def test_the_anchor_of_the_nearest_shape_owns_a_box() -> None:
    found = _best_anchors([scene((0, 0, 6, 11), (0, 0, 12, 6), (0, 0, 19, 12)), scene()], OPTIONS)
    assert found == [[(0, 0), (0, 1), (1, 0)], []]


@pytest.mark.parametrize(
    ("centre", "cells"),
    [
        ((12.0, 12.0), {(1, 1), (0, 1), (1, 0)}),  # in the middle of a cell: the lower neighbours
        ((13.0, 11.0), {(1, 1), (2, 1), (1, 0)}),
        ((2.0, 30.0), {(0, 3), (0, 3)}),  # neighbours outside the map are left out
    ],
)
def test_the_centre_s_cell_and_its_two_nearest_neighbours_answer_for_a_box(
    centre: tuple[float, float], cells: set[tuple[int, int]]
) -> None:
    x, y = centre
    target = scene((x - 2, y - 2, x + 2, y + 2))
    rows = _assigned([target], [[(0, 1)]], 0, OPTIONS.heads[0], (4, 4))
    assert {(column, line) for _, _, line, column, _, _ in rows} == cells
    assert all((image, anchor, label) == (0, 1, 0) for image, anchor, _, _, _, label in rows)
    assert all(box == [x - 2, y - 2, x + 2, y + 2] for *_, box, _ in rows)
    assert _assigned([target], [[(1, 0)]], 0, OPTIONS.heads[0], (4, 4)) == []


def test_decoding_is_that_of_the_metric() -> None:
    random = np.random.RandomState(0)
    raw = random.normal(size=(1, 7, 1, 1)).astype(np.float32)
    raw[0, 4:] = 20
    head = HeadOptions(stride=8, anchors=((6.0, 10.0),))
    (expected,) = decode_heads([raw], Map50Options(classes=2, heads=(head,)))
    found = _decode(torch.from_numpy(raw[:, :, 0, 0]), torch.zeros(1, 2), torch.tensor([[6.0, 10.0]]), 8)
    np.testing.assert_allclose(found.numpy(), expected.boxes, rtol=1e-5)


def test_without_boxes_the_loss_is_that_of_objectness() -> None:
    """Four times ``ln 2`` per head where every logit is zero."""
    heads = [torch.zeros(1, 14, 4, 4), torch.zeros(1, 7, 2, 2)]
    assert detection_loss(heads, [scene()], OPTIONS).item() == pytest.approx(8 * np.log(2), rel=1e-5)


def test_a_box_adds_overlap_class_and_weighted_objectness() -> None:
    """One cell of a map of one: the prediction is the anchor in the middle of the cell, and so is the box."""
    options = Map50Options.model_validate({"classes": 2, "heads": [{"stride": 8, "anchors": [[4, 4]]}]})
    loss = detection_loss([torch.zeros(1, 7, 1, 1)], [scene((2, 2, 6, 6))], options)
    assert loss.item() == pytest.approx(0 + 4 * np.log(2) + 4 * 8 * np.log(2), rel=1e-4)
    shifted = detection_loss([torch.zeros(1, 7, 1, 1)], [scene((3, 2, 7, 6))], options)
    overlap = 12 / 20
    objectness = 8 * np.log(2)  # at logit zero whatever the target
    assert shifted.item() == pytest.approx(4 * (1 - overlap) + 4 * np.log(2) + 4 * objectness, rel=1e-4)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_images_are_turned_scaled_sheared_and_shifted_within_limits(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``value`` 0 and 1 are the ends of every range, 0.5 leaves the image as it is."""
    monkeypatch.setattr(torch, "rand", lambda count, generator: torch.full((count,), value))
    images = torch.from_numpy(np.random.RandomState(0).rand(2, 1, 28, 28).astype(np.float32))
    part = 2 * value - 1
    turn, scale, shear, shift = 0.25 * part, 1 + 0.15 * part, 0.2 * part, 0.12 * part
    rows = [
        [np.cos(turn) * scale, shear - np.sin(turn) * scale, shift],
        [np.sin(turn) * scale, np.cos(turn) * scale, shift],
    ]
    matrix = torch.tensor([rows] * 2, dtype=torch.float32)
    grid = torch.nn.functional.affine_grid(matrix, [2, 1, 28, 28], align_corners=False)
    expected = torch.nn.functional.grid_sample(images, grid, align_corners=False)
    found = distort(images, torch.Generator())
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)
    if value == 0.5:
        np.testing.assert_allclose(found.numpy(), images.numpy(), atol=1e-5)


@pytest.mark.nightly
def test_detection_loss_decreases_to_boxes_that_the_metric_finds() -> None:
    """Free head values, fitted to the loss alone, decode to the targets: loss and metric agree on the format."""
    options = Map50Options.model_validate(load_card("scene_yolo").metric.options)
    scenes = open_dataset("scenes").split("train").targets(0, 8)
    heads = [torch.zeros(8, 30, side, side, requires_grad=True) for side in (12, 6)]
    optimizer = torch.optim.Adam(heads, 0.2)
    for _ in range(150):
        optimizer.zero_grad()
        loss = detection_loss(heads, scenes, options)
        loss.backward()
        optimizer.step()
    found = decode_heads([head.detach().numpy() for head in heads], options)
    assert score_detections(found, scenes, options.classes).value > 0.95
