"""Labels as people have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from engine.errors import CalibrationDataError
from harness.datasets.annotations import LabelFormat, read_annotations


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)
    return path


def test_folders_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("dog/b.png", "cat/a.png", "dog/below/c.jpg", "cat/.hidden.png", "cat/notes.txt"):
        picture(tmp_path / name) if not name.endswith("txt") else (tmp_path / name).write_text("")
    found = read_annotations(LabelFormat.CLASS_FOLDERS, tmp_path, None)
    assert found.classes == ("cat", "dog")
    assert [(image.path.name, image.label) for image in found.images] == [("a.png", 0), ("b.png", 1), ("c.jpg", 1)]
    picture(tmp_path / "loose.png")
    with pytest.raises(CalibrationDataError, match=r"loose.png: is not in the folder of a class"):
        read_annotations(LabelFormat.CLASS_FOLDERS, tmp_path, None)


def test_folders_that_are_numbers_are_those_classes(tmp_path: Path) -> None:
    for name in ("10/a.png", "2/b.png"):
        picture(tmp_path / name)
    found = read_annotations(LabelFormat.CLASS_FOLDERS, tmp_path, None)
    assert found.classes == ()
    assert sorted(image.label for image in found.images) == [2, 10]


@pytest.mark.parametrize(
    "text",
    [
        "file,label,name\na.png,3,three\nb.png,7,seven\n",
        "Class;Image\n3;a.png\n7;b.png\n",
        "image_path,label,name\na.png,3,three\nb.png,7,seven\n",  # a column name is no name of an image here
        "name,label\na.png,3\nb.png,7\n",
        "a.png\t3\nb.png\t7\n",
        "a.png 3\n\nb.png 7\n",
    ],
)
def test_tables_of_any_form(text: str, tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        picture(tmp_path / name)
    (tmp_path / "labels.csv").write_text(text)
    found = read_annotations(LabelFormat.CSV, tmp_path, None)
    assert [(image.path.name, image.label) for image in found.images] == [("a.png", 3), ("b.png", 7)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("picture,kind\na.png,1\n", "columns picture, kind; expected one of file"),
        ("file,label\nmissing.png,1\n", r"labels.csv: names 1 images, none of which is in"),
        ("file,label\n../../b.png,1\n", "none of which is in"),
        ("file,label\na.png,1\n./a.png,1\n", "names a.png twice"),
        ("file,label\na.png\n", r"labels.csv:2: 'a.png': expected an image and its class"),
    ],
)
def test_wrong_tables_are_named(text: str, message: str, tmp_path: Path) -> None:
    picture(tmp_path / "images/a.png")
    picture(tmp_path / "b.png")
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(CalibrationDataError, match=message):
        read_annotations(LabelFormat.CSV, tmp_path / "images", tmp_path / "labels.csv")


def test_what_a_table_lacks_and_what_it_has_too_much_is_counted(tmp_path: Path) -> None:
    """As Kaggle's tables: names without suffix; one image has no row, one row no image."""
    for name in ("a.JPG", "b.png", "c.png"):
        picture(tmp_path / name)
    (tmp_path / "labels.csv").write_text("image_id,label\na,cat\nb,dog\ngone,dog\n")
    found = read_annotations(LabelFormat.CSV, tmp_path, None)
    assert [(image.path.name, image.label) for image in found.images] == [("a.JPG", 0), ("b.png", 1)]
    assert found.remarks == (
        "1 image(s) without labels are left out",
        "1 image(s) that labels.csv names are missing",
    )


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    with pytest.raises(CalibrationDataError, match="cannot be read as a text file of labels"):
        read_annotations(LabelFormat.CSV, tmp_path, tmp_path / "a.png")


def test_a_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(CalibrationDataError, match=r"holds no images \(.*\)$"):
        read_annotations(LabelFormat.NONE, tmp_path, None)
    (tmp_path / "0.npy").write_bytes(b"")
    with pytest.raises(CalibrationDataError, match=r"but 1 .npy file\(s\): arrays need adapter own_arrays, input_"):
        read_annotations(LabelFormat.NONE, tmp_path, None)


def test_a_column_of_labels_may_be_named(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        picture(tmp_path / name)
    table = tmp_path / "labels.csv"
    table.write_text("file,label,Kind\na.png,3,bird\nb.png,7,fish\n")
    found = read_annotations(LabelFormat.CSV, tmp_path, None, "kind")
    assert (found.classes, [image.label for image in found.images]) == (("bird", "fish"), [0, 1])
    with pytest.raises(
        CalibrationDataError, match=r"labels.csv: has no column 'sort'; its first line has file, label,"
    ):
        read_annotations(LabelFormat.CSV, tmp_path, None, "sort")
    with pytest.raises(CalibrationDataError, match="label column 'kind': labels of kind none are in no table"):
        read_annotations(LabelFormat.NONE, tmp_path, None, "kind")
