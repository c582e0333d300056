"""Heads with an answer per pixel or per step."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.terms import Layout
from harness.metrics import open_metric
from harness.onboarding.heads import guess_head
from harness.onboarding.map_heads import lines_of_text, map_per_class
from harness.onboarding.network_file import NetworkFile, OutputTensor
from harness.terms import Fit
from harness.zoo.cards import TaskKind


def network(shape: tuple[int, ...], size: tuple[int, int], whole: bool = False, producer: str = "") -> NetworkFile:
    output = OutputTensor("out", shape, whole, producer)
    return NetworkFile(Path("net.onnx"), "image", Layout.NCHW, size, 3, "test", False, (output,), {})


@pytest.mark.parametrize(
    ("shape", "whole", "form", "classes"),
    [
        ((1, 19, 512, 1024), False, None, 19),
        ((1, 19, 64, 128), False, None, 19),
        ((1, 21, 65, 129), False, None, 21),
        ((1, 512, 1024, 19), False, "nhwc", 19),
        ((1, 512, 1024), True, "classes", 255),
        ((1, 1, 512, 1024), True, "classes", 255),
    ],
)
def test_segmentation(shape: tuple[int, ...], whole: bool, form: str | None, classes: int) -> None:
    head = guess_head(network(shape, (512, 1024), whole))
    assert (head.task, head.metric, head.classes, head.fit) == (TaskKind.SEGMENTATION, "miou", classes, Fit.STRETCH)
    assert head.options.get("form") == form
    open_metric(head.metric, head.options)


@pytest.mark.parametrize("shape", [(1, 3, 64, 64), (1, 1, 64, 64)])
def test_what_may_be_an_image_is_no_segmentation_unless_there_are_masks(shape: tuple[int, ...]) -> None:
    given = network(shape, (64, 64))
    assert guess_head(given).kind == "unknown"
    assert guess_head(given, TaskKind.SEGMENTATION).metric == "miou"
    assert guess_head(given, labelled=TaskKind.SEGMENTATION).metric == "miou"


def test_one_map_is_an_object_or_text() -> None:
    given = network((1, 1, 64, 64), (64, 64), producer="Sigmoid")
    found = guess_head(given, labelled=TaskKind.SEGMENTATION)
    assert (found.kind, found.options) == ("one map", {"classes": 2, "form": "binary", "threshold": 0.5})
    assert not found.is_sure
    assert guess_head(given, TaskKind.RECOGNITION).metric == "hmean"
    assert guess_head(given, labelled=TaskKind.DETECTION).kind == "text map"
    logits = guess_head(network((1, 1, 64, 64), (64, 64)), TaskKind.SEGMENTATION)
    assert logits.options["threshold"] == 0.0


def test_steps_of_text() -> None:
    head = guess_head(network((1, 40, 6625), (48, 320)))
    assert (head.kind, head.task, head.classes, head.fit, head.is_sure) == (
        "CTC", TaskKind.RECOGNITION, 6625, Fit.LINE, True,
    )  # fmt: skip
    square = network((1, 40, 6625), (224, 224))
    assert guess_head(square).task is TaskKind.DETECTION
    assert (guess_head(square, TaskKind.RECOGNITION).kind, guess_head(square, TaskKind.RECOGNITION).is_sure) == (
        "CTC", False,
    )  # fmt: skip


def test_rows_take_their_own_outputs_only() -> None:
    assert lines_of_text(network((1, 40, 6625), (224, 224))) is None
    assert map_per_class(network((1, 40, 6625), (48, 320))) is None
    assert map_per_class(network((1, 19, 5, 9), (224, 224))) is None
