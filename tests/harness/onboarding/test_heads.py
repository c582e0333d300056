"""Heads by the shapes of outputs."""

from __future__ import annotations

from pathlib import Path

from engine.terms import Layout
from harness.onboarding.heads import guess_head
from harness.onboarding.network_file import NetworkFile, OutputTensor
from harness.terms import Fit
from harness.zoo.cards import TaskKind


def network(*shapes: tuple[int, ...], size: tuple[int, int] = (224, 224), **metadata: str) -> NetworkFile:
    outputs = tuple(OutputTensor(f"out{index}", shape) for index, shape in enumerate(shapes))
    return NetworkFile(Path("net.onnx"), "image", Layout.NCHW, size, 3, "test", False, outputs, metadata)


def test_class_scores() -> None:
    for shape in ((1, 1000), (1, 1000, 1, 1), (1, 1, 1, 1000)):
        head = guess_head(network(shape))
        assert (head.kind, head.metric, head.classes, head.fit) == ("class scores", "top1", 1000, Fit.CROP)
    assert guess_head(network((1, 10), size=(28, 28))).fit is Fit.STRETCH
    assert guess_head(network((1, 10), size=(96, 192))).fit is Fit.STRETCH


def test_outputs_of_no_known_meaning_are_compared() -> None:
    for shapes in (((1, 7), (1, 3)), ((1, 12, 5, 9),), ((1,),)):
        head = guess_head(network(*shapes))
        assert (head.kind, head.task, head.metric, head.is_sure) == ("unknown", TaskKind.OTHER, "cosine", False)
    asked = guess_head(network((1, 1000)), TaskKind.OTHER)
    assert (asked.kind, asked.is_sure) == ("unknown", True)
