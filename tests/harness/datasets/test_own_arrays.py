"""Arrays of one folder, drawn into splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from engine.errors import CalibrationDataError
from harness.datasets import ArrayFormat, one_by_one
from harness.datasets.base import Split
from harness.datasets.own_arrays import OwnArrays, OwnArraysOptions, array_folders

IMAGE = ArrayFormat(shape=(3, 4, 6))
LEFT, RIGHT = ArrayFormat(shape=(2, 3)), ArrayFormat(shape=(4,), dtype="int64")


def save(folder: Path, count: int, part: ArrayFormat, batch: tuple[int, ...] = ()) -> None:
    """File ``i`` holds ``i`` everywhere."""
    folder.mkdir(parents=True)
    for index in range(count):
        np.save(folder / f"{index}.npy", np.full((*batch, *part.shape), index, part.dtype))


def drawn(split: Split) -> list[dict[str, int]]:
    """The number that each part of each sample holds."""
    return [{name: int(values.flat[0]) for name, values in sample.items()} for sample in one_by_one(split.take())]


def test_samples_are_drawn_once_and_keep_their_parts_together(tmp_path: Path) -> None:
    save(tmp_path / "arrays/left", 9, LEFT, batch=(1,))
    save(tmp_path / "arrays/right", 9, RIGHT)
    options = OwnArraysOptions(
        folder=tmp_path / "arrays", parts={"left": LEFT, "right": RIGHT}, calibration=3, evaluation=5
    )
    dataset = OwnArrays(options)
    assert dataset.parts == {"left": LEFT, "right": RIGHT}
    calibration, evaluation = drawn(dataset.split("calibration")), drawn(dataset.split("evaluation"))
    assert (len(calibration), len(evaluation)) == (3, 5)
    assert all(sample["left"] == sample["right"] for sample in calibration + evaluation)
    numbers = [sample["left"] for sample in calibration + evaluation]
    assert len(set(numbers)) == 8
    assert dataset.split("calibration").take()["left"].shape == (3, 2, 3)
    assert [sample["left"] for sample in drawn(OwnArrays(options).split("calibration"))] == numbers[:3]
    other = OwnArrays(options.model_copy(update={"seed": 1}))
    assert drawn(other.split("calibration")) + drawn(other.split("evaluation")) != calibration + evaluation


def test_the_digest_follows_what_is_drawn_and_not_where_it_lies(tmp_path: Path) -> None:
    for place in ("here/arrays", "there/arrays"):
        save(tmp_path / place, 4, LEFT)
    options = OwnArraysOptions(folder=tmp_path / "here/arrays", parts={"x": LEFT}, calibration=2, evaluation=2)
    moved = options.model_copy(update={"folder": tmp_path / "there/arrays"})
    assert OwnArrays(options).digest == OwnArrays(moved).digest
    np.save(tmp_path / "there/arrays/0.npy", np.zeros((2, 3), np.float32) + 7)
    assert OwnArrays(options).digest != OwnArrays(moved).digest


def test_one_part_lies_in_the_folder_or_in_one_of_its_name(tmp_path: Path) -> None:
    assert array_folders(tmp_path, ["x"]) == {"x": tmp_path}
    (tmp_path / "x").mkdir()
    assert array_folders(tmp_path, ["x"]) == {"x": tmp_path / "x"}
    assert array_folders(tmp_path, ["x", "y"]) == {"x": tmp_path / "x", "y": tmp_path / "y"}


def labelled(folder: Path, **options: object) -> OwnArrays:
    return OwnArrays(
        OwnArraysOptions(folder=folder / "arrays", parts={"x": IMAGE}, calibration=1, evaluation=2, **options)
    )


def test_labels_are_kept_with_their_samples(tmp_path: Path) -> None:
    save(tmp_path / "arrays", 4, IMAGE)
    (tmp_path / "labels.csv").write_text("file,label\n3.jpg,1\n1.npy,2\n0,4\n")
    dataset = labelled(tmp_path, format="csv", labels=tmp_path / "labels.csv", first_class=-1)
    split = dataset.split("evaluation")
    given = {3: 0, 1: 1, 0: 3}
    assert split.targets().tolist() == [given[sample["x"]] for sample in drawn(split)]
    other = labelled(tmp_path, format="csv", labels=tmp_path / "labels.csv")
    assert other.digest != dataset.digest != labelled(tmp_path).digest


def test_labels_of_other_files_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "arrays", 3, IMAGE)
    save(tmp_path / "arrays/more", 5, IMAGE)
    message = r"arrays: 3 labelled file\(s\), such as more/3\.npy, are not read: expected are \.npy files in the folder"
    (tmp_path / "labels.csv").write_text("file,label\nmore/3,1\narrays/0.npy,1\nmore/4,1\nmore/1,1\n")
    with pytest.raises(CalibrationDataError, match=message):
        labelled(tmp_path, format="csv", labels=tmp_path / "labels.csv")


def test_class_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="arrays lie in one folder, not in one per class"):
        labelled(tmp_path, format="class_folders")


def test_boxes_and_masks_are_in_pixels_of_the_arrays(tmp_path: Path) -> None:
    save(tmp_path / "arrays", 3, IMAGE)
    for kind in ("yolo", "masks", "voc"):
        (tmp_path / kind).mkdir()
    box = "<xmin>1</xmin><ymin>1</ymin><xmax>6</xmax><ymax>4</ymax>"
    for index in range(3):
        (tmp_path / f"yolo/{index}.txt").write_text("1 0.5 0.5 0.5 1\n")
        Image.fromarray(np.full((4, 6), index, np.uint8)).save(tmp_path / f"masks/{index}.png")
        text = f"<annotation><object><name>a</name><bndbox>{box}</bndbox></object></annotation>"
        (tmp_path / f"voc/{index}.xml").write_text(text)
    (scene, _) = labelled(tmp_path, format="yolo", labels=tmp_path / "yolo").split("evaluation").targets()
    np.testing.assert_array_equal(scene.boxes, [[1.5, 0, 4.5, 4]])
    (scene, _) = labelled(tmp_path, format="voc", labels=tmp_path / "voc").split("evaluation").targets()
    np.testing.assert_array_equal(scene.boxes, [[0, 0, 6, 4]])
    split = labelled(tmp_path, format="masks", labels=tmp_path / "masks").split("evaluation")
    assert [int(scene.mask.max()) for scene in split.targets()] == [sample["x"] for sample in drawn(split)]
    for index in range(3):
        Image.fromarray(np.zeros((8, 12), np.uint8)).save(tmp_path / f"masks/{index}.png")
        (tmp_path / f"voc/{index}.xml").write_text(text.replace("<xmax>6", "<xmax>12"))
    with pytest.raises(CalibrationDataError, match=r"is 8x12, the array \d.npy 4x6: expected a class per pixel"):
        split.targets()
    with pytest.raises(CalibrationDataError, match=r"lies outside the array of 4x6: boxes are in pixels of the arrays"):
        labelled(tmp_path, format="voc", labels=tmp_path / "voc").split("evaluation").targets()


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    def opened(folder: Path, *parts: str) -> OwnArrays:
        return OwnArrays(OwnArraysOptions(folder=folder, parts=dict.fromkeys(parts, LEFT), calibration=2, evaluation=2))

    with pytest.raises(CalibrationDataError, match=r"no folder .*gone: put the arrays there"):
        opened(tmp_path / "gone", "x")
    save(tmp_path / "a/x", 3, LEFT)
    with pytest.raises(CalibrationDataError, match=r"2 \+ 2 samples requested, but it holds 3"):
        opened(tmp_path / "a", "x")
    with pytest.raises(CalibrationDataError, match=r"no folder .*a/y: expected one per part of a sample: x, y"):
        opened(tmp_path / "a", "x", "y")
    (tmp_path / "a/y").mkdir()
    (tmp_path / "a/y/notes.txt").write_text("")
    with pytest.raises(CalibrationDataError, match="x has 3, y 0, and 0, 1, 2 not in both"):
        opened(tmp_path / "a", "x", "y")
    with pytest.raises(CalibrationDataError, match=r"a/y: holds no \.npy files"):
        opened(tmp_path / "a", "y")
