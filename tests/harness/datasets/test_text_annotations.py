"""Texts of lines, and boxes of words."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CalibrationDataError
from harness.datasets.box_annotations import LabelledBox
from harness.datasets.text_annotations import text_boxes_of, text_file, text_lines_of
from tests.harness.datasets.test_annotations import picture


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rec_gt.txt", "a.png\tHello, world\nsub/b.png\té = x\n"),
        ("labels.csv", 'filename,words\na.png,"Hello, world"\nb.png,é = x\n'),
        ("labels.csv", "id;image;text\n1;a.png;Hello, world\n2;b.png;é = x\n"),
        ("gt.txt", "train\\a.png\tHello, world\nb.png\té = x\ngone.png\tfar\n"),
    ],
)
def test_tables_of_texts(name: str, text: str, tmp_path: Path) -> None:
    first, second = picture(tmp_path / "images/a.png"), picture(tmp_path / "images/sub/b.png")
    file = tmp_path / name
    file.write_text(text)
    assert text_file(first.parent) == file
    assert text_lines_of(first.parent, None) == ([(first, "Hello, world"), (second, "é = x")], text.count("gone"))


def test_a_table_of_classes_holds_no_texts(tmp_path: Path) -> None:
    """``name`` and the numbers beside it are of classes; ``label`` alone may be a text."""
    image = picture(tmp_path / "a.png")
    table = tmp_path / "labels.csv"
    table.write_text("file,label,name\na.png,3,shark\n")
    assert text_file(tmp_path) is None
    with pytest.raises(CalibrationDataError, match=r"expected image<TAB>text, .*--label-column names another"):
        text_lines_of(tmp_path, table)
    assert text_file(tmp_path, "name") == table
    assert text_lines_of(tmp_path, None, "name") == ([(image, "shark")], 0)
    table.write_text("file,label\na.png,3 + 4\n")
    assert text_lines_of(tmp_path, None) == ([(image, "3 + 4")], 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; expected lines of image<TAB>text"),
        ("what\tever\n", r"gt.txt:1: 'what\\tever': expected image<TAB>text, or a headline with one of file"),
        ("a.png\tx\nb.png\n", r"gt.txt:2: 'b.png': expected an image and its text"),
        ("c.png\tx\n", "names 1 images, none of them is in"),
        ("a.png\tx\na.png\ty\n", "gt.txt:2: 'a.png' occurs twice"),
    ],
)
def test_wrong_tables_are_named(text: str, message: str, tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "gt.txt").write_text(text)
    with pytest.raises(CalibrationDataError, match=message):
        text_lines_of(tmp_path, tmp_path / "gt.txt")


def test_words_on_pages_of_paddle_and_icdar(tmp_path: Path) -> None:
    image = picture(tmp_path / "pages/a.png")
    points = "[[1, 2], [9, 3], [9, 6], [1, 5]]"
    (tmp_path / "Label.txt").write_text(
        f'pages/a.png\t[{{"transcription": "x", "points": {points}}}, {{"transcription": "###", "points": {points}}}]\n'
    )
    (tmp_path / "gt").mkdir()
    (tmp_path / "gt/gt_a.txt").write_text("﻿1,2,9,3,9,6,1,5,x, and y\n1,1,2,1,2,2,1,2,###\n", encoding="utf-8")
    wanted = [(image, (LabelledBox(0, 1, 2, 9, 6),))]
    assert text_boxes_of(image.parent, tmp_path / "Label.txt").images == wanted
    assert text_boxes_of(image.parent, tmp_path / "gt").images == wanted


def test_wrong_words_are_named(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "Label.txt").write_text("a.png\tword\n")
    with pytest.raises(CalibrationDataError, match=r"Label.txt:1: 'a.png\\tword': expected image<TAB>JSON"):
        text_boxes_of(tmp_path, tmp_path / "Label.txt")
    (tmp_path / "gt_a.txt").write_text("1,2,3\n")
    with pytest.raises(CalibrationDataError, match=r"gt_a.txt:1: '1,2,3': expected x1,y1"):
        text_boxes_of(tmp_path, None)
    (tmp_path / "gt_a.txt").unlink()
    with pytest.raises(CalibrationDataError, match="names no image of"):
        text_boxes_of(tmp_path, None)
