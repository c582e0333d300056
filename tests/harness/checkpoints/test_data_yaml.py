"""YAML files that describe data for ultralytics."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from harness.checkpoints.data_yaml import read_data_yaml


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.yaml").write_text(text)
    return folder / "data.yaml"


def test_images_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "val"):
        (tmp_path / "set" / "images" / name).mkdir(parents=True)
    text = "train: images/train\nval: images/val\nnames: {0: cat, 1: dog}\n"
    found = read_data_yaml(written(tmp_path / "set", text))
    assert (found.images, found.split) == (tmp_path / "set" / "images" / "val", "val")
    assert found.names == ("cat", "dog")
    elsewhere = written(tmp_path / "other", f"path: {tmp_path / 'set'}\ntrain: [images/train]\nnc: 2\nnames: [a, b]\n")
    found = read_data_yaml(elsewhere)
    assert (found.images, found.split, found.names) == (tmp_path / "set" / "images" / "train", "train", ("a", "b"))
    monkeypatch.chdir(tmp_path)
    assert read_data_yaml(written(tmp_path / "other", "path: set\nval: images/val\n")).images.name == "val"
    beside = read_data_yaml(written(tmp_path / "set", "val: ../images/val\n"))  # as Roboflow writes it
    assert beside.images == tmp_path / "set" / "images" / "val"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "expected the keys path, train, val and names"),
        ("names: [a]", "has no key val, test or train"),
        ("val: images", r"val: images: no such folder \(tried .*\); correct path, or give --images DIR"),
        ("val: list.txt", "val: 'list.txt': expected one folder of images; give the folder above them: --images DIR"),
        ("val: [a, b]", "val: a list of several folders: expected one folder of images"),
        ("val: .\nnames: {1: a}", "names: expected the numbers 0 to 0, each with a name"),
        ("val: .\nnames: cat", "names: expected a list of names, or numbers with names"),
        ("val: .\nnc: 3\nnames: [a]", "nc is 3, but names has 1"),
    ],
)
def test_mistakes_have_one_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_data_yaml(written(tmp_path, text))
