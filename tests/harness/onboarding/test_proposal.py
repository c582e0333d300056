"""From a file and a folder to all that cards need."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from engine.errors import CalibrationDataError, ConfigError
from engine.terms import InputType
from harness.datasets import Colour, SceneTarget
from harness.metrics import Score
from harness.onboarding.heads import guess_head
from harness.onboarding.judging import Basis
from harness.onboarding.network_file import OutputTensor
from harness.onboarding.proposal import card_name, chance_note, label_classes, labels_fit, moved, propose, split_sizes
from harness.onboarding.sources import find_source
from harness.terms import Fit
from harness.zoo.cards import Labels, TaskKind
from tests.harness.datasets.test_annotations import picture
from tests.harness.metrics.scenes import scene
from tests.harness.onboarding.networks import (
    CHARACTERS,
    colour_classifier,
    colour_images,
    colour_segmenter,
    digit_images,
    digit_network,
    line_images,
    line_reader,
    scene_detector,
    scene_images,
    segmented_images,
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


@pytest.mark.nightly
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
    (tmp_path / "labels.csv").write_text("ant/a.png 6\n")
    fits, (note,) = labels_fit(find_source(tmp_path), guess_head(network((1, 5))))
    assert not fits
    assert "labels go up to 6, the network has 5 classes" in note


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


@pytest.mark.parametrize("tail", ["", "argmax", "nhwc", "half"])
def test_a_segmentation_with_masks(tail: str, tmp_path: Path) -> None:
    found = propose(colour_segmenter(tmp_path / "net.onnx", tail), segmented_images(tmp_path / "data"))
    assert (found.head.metric, found.labels, found.decision.basis) == ("miou", Labels.DATA, Basis.LABELS)
    assert found.score.value > (0.7 if tail == "half" else 0.9)
    assert found.source.reason == "masks holds a mask per image"


def test_masks_that_count_from_1(tmp_path: Path) -> None:
    """As ADE20K has them: 0 is no class."""
    found = propose(colour_segmenter(tmp_path / "net.onnx"), segmented_images(tmp_path / "data", first=1))
    assert (found.decision.first_class, found.score.value > 0.9) == (-1, True)


def test_a_reader_of_lines_with_texts(tmp_path: Path) -> None:
    images = line_images(tmp_path / "data")
    dictionary = tmp_path / "chars_dict.txt"
    dictionary.write_text("\n".join(CHARACTERS))
    for last in (False, True):
        found = propose(line_reader(tmp_path / "net.onnx", last), images)
        assert (found.head.metric, found.labels, found.data.fit) == ("edit_similarity", Labels.DATA, Fit.LINE)
        assert found.head.options.get("blank", 0) == (10 if last else 0)
        assert (found.score.value, found.decision.best.name) == (1.0, "-1..1")
    crnn = propose(line_reader(tmp_path / "crnn.onnx", steps_first=True), images)
    assert (crnn.network.outputs[0].shape, crnn.head.kind, crnn.score.value) == ((32, 1, 11), "CTC", 1.0)
    dictionary.unlink()
    bare = propose(tmp_path / "net.onnx", images)
    assert (bare.head.metric, bare.labels) == ("cosine", Labels.FLOAT)
    assert any("give --dictionary FILE" in note for note in bare.notes)


def test_a_dictionary_of_a_network_that_does_not_read(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("a")
    model, images = colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images")
    with pytest.raises(ConfigError, match=r"--dictionary .*d.txt: .*net.onnx does not read text"):
        propose(model, images, dictionary=tmp_path / "d.txt")


def test_labels_from_1_are_moved() -> None:
    assert np.asarray(moved(np.array([1, 2]), -1)).tolist() == [0, 1]
    (target,) = moved([scene([(0, 0, 1, 1)], [3], np.array([[0, 1, 255]], np.uint8))], -1)
    assert isinstance(target, SceneTarget)
    assert (target.classes.tolist(), target.mask.tolist()) == ([2], [[255, 0, 255]])
    assert moved(["a"], 1) == ["a"]


def test_splits_are_fixed_by_the_data() -> None:
    """However busy the machine is, the same images are drawn."""
    outputs = (OutputTensor("scores", (1, 1000)),)
    assert split_sizes(400, outputs) == (100, 300)
    assert split_sizes(2000, outputs) == (100, 400)
    assert split_sizes(2, outputs) == (1, 1)
    assert split_sizes(400, (OutputTensor("maps", (1, 21, 1024, 1024)),)) == (8, 8)
    parameters = set(inspect.signature(split_sizes).parameters)
    assert parameters == {"found", "outputs"}


def test_what_takes_long_is_said_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, images = colour_classifier(tmp_path / "net.onnx"), colour_images(tmp_path / "images")
    told: list[str] = []
    propose(model, images, tell=told.append)
    assert told == []
    monkeypatch.setattr("harness.onboarding.proposal._LONG", 0.0)
    propose(model, images, tell=told.append)
    (text,) = told
    assert text.startswith("the float model runs 210 times, about ")
    assert text.endswith(" s: 192 to tell the normalisation, 18 evaluation images")
