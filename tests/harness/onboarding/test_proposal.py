"""From a file and a folder to all that cards need."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import CalibrationDataError
from engine.terms import InputType
from harness.datasets import Colour
from harness.metrics import Score
from harness.onboarding.heads import guess_head
from harness.onboarding.judging import Basis
from harness.onboarding.proposal import card_name, chance_note, label_classes, labels_fit, propose
from harness.onboarding.sources import find_source
from harness.zoo.cards import Labels, TaskKind
from tests.harness.datasets.test_annotations import picture
from tests.harness.onboarding.networks import (
    colour_classifier,
    colour_images,
    digit_images,
    digit_network,
    scene_detector,
    scene_images,
)
from tests.harness.onboarding.test_heads import network


def test_a_classifier_with_labels(tmp_path: Path) -> None:
    found = propose(colour_classifier(tmp_path / "net.onnx", (2, 1, 0)), colour_images(tmp_path / "images"))
    assert (found.name, found.head.kind, found.labels) == ("net", "class scores", Labels.DATA)
    assert found.decision.basis is Basis.LABELS
    assert found.decision.best.colour is InputType.BGR
    assert found.score.value == 1.0
    assert (found.data.calibration, found.data.evaluation) == (6, 18)
    assert found.notes == ()


def test_a_classifier_without_labels(tmp_path: Path) -> None:
    folder = digit_images(tmp_path / "digits", 40)
    for index, path in enumerate(sorted(folder.glob("*/*"))):
        path.rename(folder / f"{index}.png")
    found = propose(digit_network(), folder)
    assert found.labels is Labels.FLOAT
    assert found.decision.basis is Basis.MIRROR
    assert (found.data.colour, found.score.value) == (Colour.GRAY, 1.0)


def test_a_detector_with_labels_and_without(tmp_path: Path) -> None:
    """Trained on 0..1: with labels the score says so, without it is what such networks usually take."""
    model, images = scene_detector(tmp_path / "yolo.onnx"), scene_images(tmp_path / "data", 40)
    found = propose(model, images)
    assert (found.head.kind, found.head.classes, found.labels) == ("YOLOv5", 10, Labels.DATA)
    assert (found.decision.basis, found.decision.best.name) == (Basis.LABELS, "0..1")
    assert found.score.value > 0.93
    assert label_classes(found.source) == 10
    (tmp_path / "data" / "labels").rename(tmp_path / "data" / "away")
    bare = propose(model, images)
    assert (bare.labels, bare.decision.basis, bare.decision.best.name) == (Labels.FLOAT, Basis.CONVENTION, "0..1")
    assert bare.score.value == 1.0


def test_a_network_of_unknown_outputs_is_compared(tmp_path: Path) -> None:
    found = propose(colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images"), task=TaskKind.OTHER)
    assert (found.head.metric, found.labels, found.decision.basis) == ("cosine", Labels.FLOAT, Basis.CONVENTION)
    assert found.score.value == pytest.approx(1.0, abs=1e-6)


def test_labels_that_do_not_fit_are_not_used(tmp_path: Path) -> None:
    for name in ("ant/a.png", "bee/b.png"):
        picture(tmp_path / name)
    source = find_source(tmp_path)
    assert labels_fit(source, guess_head(network((1, 2)))) == (True, ())
    assert labels_fit(source, guess_head(network((1, 3)))) == (True, ())  # a background in front
    fits, (note,) = labels_fit(source, guess_head(network((1, 1000))))
    assert not fits
    assert "2 classes with names (ant, bee, …), the network has 1000" in note
    picture(tmp_path / "5" / "a.png").rename(tmp_path / "bee/c.png")
    (tmp_path / "labels.csv").write_text("ant/a.png 5\n")
    fits, (note,) = labels_fit(find_source(tmp_path), guess_head(network((1, 5))))
    assert not fits
    assert "labels go up to 5, the network has 5 classes" in note


def test_one_image_is_too_few(tmp_path: Path) -> None:
    picture(tmp_path / "images/a.png")
    with pytest.raises(CalibrationDataError, match="holds one image"):
        propose(colour_classifier(tmp_path / "net.onnx"), tmp_path / "images")


def test_chance_level_is_said() -> None:
    head, targets = guess_head(network((1, 4))), np.arange(40) % 4
    poor = Score(0.3, 0.07, np.zeros(40))
    (note,) = chance_note(head, poor, targets)
    assert "float top1 0.300 is at chance level (0.250)" in note
    detector = guess_head(network((1, 84, 8400), size=(640, 640)))
    assert "are these its outputs (YOLOv8)?" in chance_note(detector, Score(0.0, 0.0, np.zeros(4)), [])[0]
    assert chance_note(detector, Score(0.3, 0.0, np.zeros(4)), []) == ()
    assert chance_note(head, Score(0.7, 0.07, np.zeros(40)), targets) == ()


def test_names_of_cards() -> None:
    assert card_name(Path("a/My Net (v2).onnx")) == "My_Net_v2"
    assert card_name(Path("§§.onnx")) == "network"
