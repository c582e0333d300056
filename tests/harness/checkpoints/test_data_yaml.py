"""YAML files that describe data for ultralytics."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError, OutputError
from harness.checkpoints.data_yaml import read_data_yaml
from harness.datasets.annotations import LabelFormat
from harness.onboarding.sources import find_source


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.yaml").write_text(text)
    return folder / "data.yaml"


def test_images_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "val"):
        (tmp_path / "set" / "images" / name).mkdir(parents=True)
    text = "train: images/train\nval: images/val\nnames: {0: cat, 1: dog}\n"
    found = read_data_yaml(written(tmp_path / "set", text))
    assert (found.folder, found.split) == (tmp_path / "set" / "images" / "val", "val")
    assert found.names == ("cat", "dog")
    elsewhere = written(tmp_path / "other", f"path: {tmp_path / 'set'}\ntrain: [images/train]\nnc: 2\nnames: [a, b]\n")
    found = read_data_yaml(elsewhere)
    assert (found.folder, found.split, found.names) == (tmp_path / "set" / "images" / "train", "train", ("a", "b"))
    monkeypatch.chdir(tmp_path)
    assert read_data_yaml(written(tmp_path / "other", "path: set\nval: images/val\n")).folder == (
        tmp_path / "set" / "images" / "val"
    )
    beside = read_data_yaml(written(tmp_path / "set", "val: ../images/val\n"))  # as Roboflow writes it
    assert beside.folder == tmp_path / "set" / "images" / "val"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "expected the keys path, train, val and names"),
        ("names: [a]", "has no key val, test or train"),
        ("val: images", r"val: images: no such folder \(tried .*\); correct path, or give --images DIR"),
        ("val: list.txt", r"val: list.txt: no such file \(tried .*\); correct path, or give --images DIR"),
        ("val: [., b]", r"val: b: no such folder \(tried .*\); correct path, or give --images DIR"),
        ("val: [., .]", r"val: .*: no images; correct path, or give --images DIR"),
        ("val: {a: b}", r"val: .*: expected folders of images, or text files that list them"),
        ("val: [1]", r"val: \[1\]: expected folders of images, or text files that list them"),
        ("val: .\nnames: {1: a}", "names: expected the numbers 0 to 0, each with a name"),
        ("val: .\nnames: cat", "names: expected a list of names, or numbers with names"),
        ("val: .\nnc: 3\nnames: [a]", "nc is 3, but names has 1"),
    ],
)
def test_mistakes_have_one_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_data_yaml(written(tmp_path, text))


def image(path: Path, label: str = "") -> Path:
    """A file with the name of an image, and the text file with its boxes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(path.as_posix().encode())
    if label:
        text = Path(path.as_posix().replace("/images/", "/labels/")).with_suffix(".txt")
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text(label)
    return path


def test_several_folders_become_one_with_links(tmp_path: Path) -> None:
    """Two folders of one name in different places, below path; labels lie where ultralytics looks for them."""
    first = image(tmp_path / "set" / "a" / "images" / "1.jpg", "0 0.5 0.5 0.1 0.1")
    second = image(tmp_path / "set" / "b" / "images" / "1.jpg", "1 0.5 0.5 0.1 0.1")
    image(tmp_path / "set" / "b" / "images" / "2.png")
    found = read_data_yaml(written(tmp_path, "path: set\nval: [a/images, b/images]\nnames: [x, y]\n"))
    assert (found.folder, len(found.images), found.names) == (None, 3, ("x", "y"))
    folder = found.in_one_folder(tmp_path / "links")
    assert folder == found.in_one_folder(tmp_path / "links")
    assert folder.parent.parent == tmp_path / "links"
    assert (folder / "a" / "images" / "1.jpg").read_bytes() == first.read_bytes()
    assert (folder / "b" / "images" / "1.jpg").read_bytes() == second.read_bytes()
    source = find_source(folder)
    assert source.kind is LabelFormat.YOLO
    labelled = {each.path.relative_to(folder.resolve()).as_posix(): each.boxes for each in source.annotations.images}
    assert {name: [box.label for box in boxes or ()] for name, boxes in labelled.items()} == {
        "a/images/1.jpg": [0],
        "b/images/1.jpg": [1],
        "b/images/2.png": [],
    }


def test_lists_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths from the list's folder, with or without ./, from where we are, and absolute ones; other lines are left."""
    place = tmp_path / "set"
    absolute = image(tmp_path / "far" / "images" / "4.jpg", "2 0.5 0.5 0.1 0.1")
    for name in ("1.jpg", "2.jpg"):
        image(place / "images" / name)
    image(tmp_path / "here" / "3.jpg")
    monkeypatch.chdir(tmp_path)
    lines = ["./images/1.jpg", "images/2.jpg", "here/3.jpg", str(absolute), "", "readme.md", "./images/1.jpg"]
    (place / "val.txt").write_text("\n".join(lines))
    found = read_data_yaml(written(place, "val: val.txt\n"))
    wanted = [place / "images" / "1.jpg", place / "images" / "2.jpg", tmp_path / "here" / "3.jpg", absolute]
    assert [path.resolve() for path in found.images] == wanted
    both = read_data_yaml(written(place, "val: [val.txt, images]\n"))
    assert len(both.images) == 4
    folder = found.in_one_folder(tmp_path / "links")
    assert (folder.parent / "labels" / "far" / "images" / "4.txt").read_text().startswith("2 ")
    (place / "val.txt").write_text("./images/1.jpg\n./images/9.jpg\n")
    with pytest.raises(ConfigError, match=r"val.txt: lists 1 image\(s\) that are not there, such as ./images/9.jpg"):
        read_data_yaml(written(place, "val: val.txt\n"))


def test_links_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    image(tmp_path / "a" / "1.jpg")
    image(tmp_path / "b" / "1.jpg")
    found = read_data_yaml(written(tmp_path, "val: [a, b]\n"))
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        found.in_one_folder(tmp_path / "file")
