"""Cards of networks that are fed with arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.chips import March
from engine.errors import CalibrationDataError
from harness.files.paths import find_beside
from harness.onboarding.array_proposal import propose_arrays
from harness.onboarding.own_cards import write_cards
from harness.suites.suite import open_suite
from harness.zoo.cards import Labels, TaskKind, load_card
from harness.zoo.float_baseline import float_score
from tests.harness.onboarding.networks import (
    CHARACTERS,
    array_files,
    colour_segmenter,
    fusing_network,
    line_reader,
    segmented_images,
    sound_classifier,
)


@pytest.fixture(autouse=True)
def no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a suite brings with it is forgotten after the test."""
    for variable in ("PTQLAB_SUITES", "PTQLAB_DATASETS"):
        monkeypatch.setenv(variable, "")


def test_class_scores_are_compared_by_their_largest(tmp_path: Path) -> None:
    model = sound_classifier(tmp_path / "net.onnx", [1, 4, 10, 8])
    arrays = array_files(tmp_path / "arrays", (4, 10, 8), 12)
    contents, notes = propose_arrays(model, arrays)
    assert (contents.head.metric, contents.labels, notes) == ("top1", Labels.FLOAT, ())
    assert contents.score.value == 1.0
    assert contents.input_parameters["input_type_train"] == "featuremap"
    assert (contents.data.calibration, contents.data.evaluation) == (3, 9)
    asked, _ = propose_arrays(model, arrays, TaskKind.OTHER)
    assert (asked.head.metric, asked.head.options) == ("cosine", {"agreement": "top1"})


@pytest.mark.parametrize("task", [None, TaskKind.OTHER])
def test_what_is_written_is_a_suite_that_gives_the_same_score(tmp_path: Path, task: TaskKind | None) -> None:
    model = fusing_network(tmp_path / "net.onnx")
    for name in ("left", "right"):
        array_files(tmp_path / "arrays" / name, (3, 8, 8), 6)
    contents, _ = propose_arrays(model, tmp_path / "arrays", task)
    suite = write_cards(contents, tmp_path / "own", March("bayes-e"))
    find_beside(suite)
    assert open_suite(str(suite)).models == ("net",)
    card = load_card("net")
    assert card.metric.name == "cosine"
    assert float_score(card).value == pytest.approx(card.float_score.value, abs=1e-6)
    split = card.open_dataset().split("evaluation")
    fed = card.float_inputs(split.take(0, 1))
    np.testing.assert_array_equal(fed["left"], split.take(0, 1)["left"])
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["datasets", "net.yaml", "zoo"]
    assert (tmp_path / "own/datasets/net_arrays.yaml").is_file()


def test_arrays_of_images_have_the_heads_of_images(tmp_path: Path) -> None:
    model = colour_segmenter(tmp_path / "net.onnx")
    contents, _ = propose_arrays(model, array_files(tmp_path / "arrays", (3, 32, 32), 8))
    assert (contents.head.metric, contents.score.value) == ("miou", 1.0)


def test_labels_that_name_arrays_are_scored_with(tmp_path: Path) -> None:
    model, arrays = colour_segmenter(tmp_path / "net.onnx"), tmp_path / "arrays"
    arrays.mkdir()
    images = segmented_images(tmp_path / "data", 8)
    for path in images.iterdir():
        np.save(arrays / f"{path.stem}.npy", np.asarray(Image.open(path), np.float32).transpose(2, 0, 1) / 255)
    contents, notes = propose_arrays(model, arrays, labels=tmp_path / "data/masks")
    assert (contents.head.metric, contents.labels, notes) == ("miou", Labels.DATA, ())
    assert contents.score.value == 1.0
    suite = write_cards(contents, tmp_path / "own", March("bayes-e"))
    find_beside(suite)
    assert float_score(load_card("net")).value == 1.0
    first = segmented_images(tmp_path / "from_one", 8, first=1).parent / "masks"
    contents, _ = propose_arrays(model, arrays, labels=first)
    assert (contents.data.options["first_class"], contents.score.value) == (-1, 1.0)
    first.rename(arrays / "masks")
    contents, _ = propose_arrays(model, arrays, labels=arrays / "masks")
    assert (contents.data.options["first_class"], contents.score.value) == (-1, 1.0)


def test_labels_of_another_task_are_not_used(tmp_path: Path) -> None:
    model = colour_segmenter(tmp_path / "net.onnx")
    arrays = array_files(tmp_path / "arrays", (3, 32, 32), 8)
    (tmp_path / "labels.csv").write_text("".join(f"{index}.npy,{index % 2}\n" for index in range(8)))
    contents, notes = propose_arrays(model, arrays, labels=tmp_path / "labels.csv")
    assert (contents.labels, notes) == (Labels.FLOAT, ("csv labels do not fit segmentation: labels are not used",))
    contents, notes = propose_arrays(model, arrays, task=TaskKind.OTHER, labels=tmp_path / "labels.csv")
    said = "csv labels do not fit outputs that are compared by cosine: labels are not used"
    assert (contents.labels, notes) == (Labels.FLOAT, (said,))


def test_lines_of_text_need_their_characters(tmp_path: Path) -> None:
    model = line_reader(tmp_path / "net.onnx")
    arrays = array_files(tmp_path / "arrays", (3, 32, 128), 8)
    contents, notes = propose_arrays(model, arrays)
    assert contents.head.metric == "cosine"
    assert "no dictionary of 10 or 9 characters" in notes[0]
    (tmp_path / "dict.txt").write_text("\n".join(CHARACTERS))
    contents, notes = propose_arrays(model, arrays)
    assert (contents.head.metric, notes) == ("edit_similarity", ())


def test_one_sample_is_too_few(tmp_path: Path) -> None:
    model = sound_classifier(tmp_path / "net.onnx", [1, 4, 10, 8])
    with pytest.raises(CalibrationDataError, match="holds one sample; calibration and evaluation need one each"):
        propose_arrays(model, array_files(tmp_path / "arrays", (4, 10, 8), 1))
