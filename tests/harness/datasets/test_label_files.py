"""What readers of labels share."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CalibrationDataError
from harness.datasets.label_files import (
    NamedImages,
    asked_column,
    file_column,
    instead_of_images,
    numbered,
    pictures,
    read_label_text,
    samples_in,
)
from tests.harness.datasets.test_annotations import picture


def test_names_are_numbered_in_their_order() -> None:
    assert numbered(["b", "a", "b"]) == ({"a": 0, "b": 1}, ("a", "b"))
    assert numbered(["3", "11"]) == ({"3": 3, "11": 11}, ())


def test_pictures_are_listed_by_name_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b/a.PNG", "a.jpg", ".cache/c.png"):
        picture(tmp_path / name)
    (tmp_path / "note.txt").write_text("")
    assert [path.relative_to(tmp_path).as_posix() for path in pictures(tmp_path)] == ["a.jpg", "b/a.PNG"]


def test_images_below_the_labels_are_no_samples(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"")
    array, mask = tmp_path / "a.npy", picture(tmp_path / "masks/a.png")
    assert samples_in(tmp_path, mask.parent) == [array]
    assert samples_in(tmp_path) == samples_in(tmp_path, tmp_path) == [mask]
    assert samples_in(mask.parent, mask.parent) == [mask]
    image = picture(tmp_path / "a.jpg")
    assert samples_in(tmp_path, mask.parent) == [image]


def test_images_are_found_by_what_labels_call_them(tmp_path: Path) -> None:
    for name in ("a.jpg", "x/b.PNG", "x/a.jpg"):
        picture(tmp_path / name)
    there = NamedImages(tmp_path)
    names = ("a.jpg", "a", "x/a", "images\\x\\a.jpg", "/data/b.PNG", "b", "../c.jpg", "")
    found = [path and path.relative_to(tmp_path).as_posix() for path in map(there.find, names)]
    assert found == ["a.jpg", "a.jpg", "x/a.jpg", "x/a.jpg", "x/b.PNG", "x/b.PNG", None, None]


def test_folders_of_labels_stand_in_for_the_last_folder_of_images() -> None:
    assert instead_of_images(Path("/images/x/images/train"), "labels") == Path("/images/x/labels/train")
    assert instead_of_images(Path("/photos/train"), "labels") is None


def test_texts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffä".encode())
    assert read_label_text(tmp_path / "a.txt") == "ä"
    for name in ("gone.txt", "bad.txt"):
        (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(CalibrationDataError, match=f"{name}: cannot be read as a text file of labels"):
            read_label_text(tmp_path / name)


def test_the_column_of_images_is_the_one_that_names_some(tmp_path: Path) -> None:
    for name in ("a.jpg", "3.jpg"):
        picture(tmp_path / name)
    there = NamedImages(tmp_path)
    assert file_column(["name", "photo"], [["shark", "a.jpg"]], there) == 1
    assert file_column(["label", "file"], [["3", "3.jpg"]], there) == 1  # 3 would be found too
    assert file_column(["label", "image"], [["3", "gone.jpg"]], NamedImages(tmp_path / "none")) == 1
    assert file_column(["a", "b"], [["x", "y"]], there) is None
    assert asked_column(tmp_path, ["file", "kind"], " Kind") == 1
