"""Labels and outputs under other numbers."""

from __future__ import annotations

import numpy as np

from harness.metrics import Metric, Score, open_metric
from harness.onboarding.head_guess import HeadGuess
from harness.onboarding.heads import guess_head
from harness.onboarding.numbering import numbering_note
from harness.zoo.cards import TaskKind
from tests.harness.metrics.scenes import scene
from tests.harness.onboarding.test_heads import network

POOR = Score(0.1, 0.01, np.zeros(1))


def metric_of(head: HeadGuess) -> Metric:
    return open_metric(head.metric, head.options)


def test_classes_in_another_order_or_shifted() -> None:
    head, labels = guess_head(network((1, 6))), np.arange(60) // 2 % 5
    right = np.eye(6, dtype=np.float32)
    assert numbering_note(head, metric_of(head), POOR, [right[labels]], labels) == ()
    (shifted,) = numbering_note(head, metric_of(head), POOR, [right[labels + 1]], labels)
    assert "the output's number is the label's plus 1; then 100% of the answers are right, and not 0%" in shifted
    (mixed,) = numbering_note(head, metric_of(head), POOR, [right[np.array([3, 1, 0, 2, 4])[labels]]], labels)
    assert "label 0 is output 3, label 2 is output 0, label 3 is output 2" in mixed


def test_what_only_fits_by_chance_is_not_said() -> None:
    random = np.random.RandomState(0)
    head, labels = guess_head(network((1, 100))), random.randint(100, size=100)
    assert numbering_note(head, metric_of(head), POOR, [random.normal(size=(100, 100))], labels) == ()


def test_masks_and_boxes() -> None:
    head = guess_head(network((1, 4, 8, 8), size=(8, 8)), TaskKind.SEGMENTATION)
    masks = [np.random.RandomState(seed).randint(0, 3, (8, 8)).astype(np.uint8) for seed in range(6)]
    output = np.moveaxis(np.eye(4, dtype=np.float32)[np.stack(masks) + 1], 3, 1)
    (note,) = numbering_note(head, metric_of(head), POOR, [output], [scene([], [], mask) for mask in masks])
    assert "the output's number is the label's plus 1" in note
    detector = guess_head(network((1, 6, 21), size=(32, 32)))
    rows = np.zeros((6, 6, 21), np.float32)
    rows[:, :4, 0], rows[:, 5, 0] = (8, 8, 8, 8), 0.9
    (note,) = numbering_note(detector, metric_of(detector), POOR, [rows], [scene([(4, 4, 12, 12)], [0])] * 6)
    assert "the output's number is the label's plus 1" in note


def test_boxes_of_which_there_are_none_say_nothing() -> None:
    detector = guess_head(network((1, 6, 21), size=(32, 32)))
    nothing = np.zeros((6, 6, 21), np.float32)
    assert numbering_note(detector, metric_of(detector), POOR, [nothing], [scene([(4, 4, 12, 12)], [0])] * 6) == ()
    assert numbering_note(detector, metric_of(detector), POOR, [nothing], [scene([], [])] * 6) == ()
