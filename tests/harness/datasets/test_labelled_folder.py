"""Folders with a ``labels.csv``: crops, checks of the table, digests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.errors import CalibrationDataError
from harness.datasets import ADAPTERS, Colour, Dataset, open_dataset
from harness.datasets.labelled_folder import LabelledFile, fingerprint, read_labels


class TestLabelledFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Two splits of two images each, where external data are looked up."""
        for split, shade in (("calib", 10), ("val", 100)):
            (tmp_path / "sample" / split).mkdir(parents=True)
            for index in range(2):
                pixels = np.full((12, 9 + index, 3), shade + index, np.uint8)
                pixels[:, -1] = 255
                Image.fromarray(pixels).save(tmp_path / "sample" / split / f"{index}.png")
            (tmp_path / "sample" / split / "labels.csv").write_text("file,label,name\n0.png,3,a\n1.png,1,b\n")
        monkeypatch.setenv("PTQLAB_DATA", str(tmp_path))
        return tmp_path / "sample"

    def open(self, **options: object) -> Dataset:
        defaults = {"folder": "sample", "folders": {"calibration": "calib", "evaluation": "val"}, "crop": 8}
        adapter = ADAPTERS["labelled_folder"]
        return adapter(adapter.Options.model_validate({**defaults, "classes": 4, **options}))

    @pytest.mark.usefixtures("folder")
    def test_centre_crop_and_labels(self) -> None:
        dataset = self.open()
        assert dataset.image_format.colour is Colour.RGB
        split = dataset.split("evaluation")
        assert split.images().shape == (2, 8, 8, 3)
        assert (split.images(0, 1) == 100).sum() == 7 * 8 * 3 + 8 * 3  # 9 columns: starts at 0, the white edge is out
        assert np.asarray(split.targets()).tolist() == [3, 1]

    def test_digest_follows_the_files_and_not_the_place(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = self.open().digest
        moved = tmp_path / "elsewhere"
        moved.mkdir()
        folder.rename(moved / "sample")
        monkeypatch.setenv("PTQLAB_DATA", str(moved))
        assert self.open().digest == before
        Image.new("RGB", (9, 12)).save(moved / "sample" / "val" / "0.png")
        assert self.open().digest != before

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ("file,label\n../calib/0.png,1\n", "'../calib/0.png' is not a file in"),
            ("file,label\nabsent.png,1\n", "'absent.png' is not a file in"),
            ("file,label\n0.png,4\n", r"label '4', expected an integer 0\.\.3"),
            ("file,label\n0.png,-1\n", "label '-1'"),
            ("file,label\n0.png\n", "label ''"),
            ("name,label\n0.png,1\n", "expected file and label"),
        ],
    )
    def test_bad_tables(self, folder: Path, table: str, message: str) -> None:
        (folder / "val" / "labels.csv").write_text(table)
        with pytest.raises(CalibrationDataError, match=message) as raised:
            self.open()
        assert "labels.csv" in str(raised.value)

    def test_bad_images(self, folder: Path) -> None:
        with pytest.raises(CalibrationDataError, match="9 x 12 pixels, expected at least 10"):
            self.open(crop=10).split("evaluation").images(0, 1)
        (folder / "val" / "0.png").write_bytes(b"no image")
        with pytest.raises(CalibrationDataError, match="not a readable image"):
            self.open().split("evaluation").images(0, 1)

    def test_absent_table(self, folder: Path) -> None:
        (folder / "val" / "labels.csv").unlink()
        with pytest.raises(CalibrationDataError, match=r"labels\.csv: cannot be read"):
            self.open()

    def test_absent_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PTQLAB_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(CalibrationDataError, match="PTQLAB_DATA"):
            open_dataset("imagenet_sample")

    def test_an_odd_remainder_stays_right_and_below(self, folder: Path) -> None:
        pixels = np.zeros((9, 11, 3), np.uint8)
        pixels[0:8, 1:9] = 200  # rows 0..7, columns 1..8 are the middle
        Image.fromarray(pixels).save(folder / "val" / "0.png")
        assert (self.open().split("evaluation").images(0, 1) == 200).all()

    @pytest.mark.parametrize("table", ["file,label\n0.png," + "1" * 5000 + "\n", "file,label\n0\0.png,1\n"])
    def test_tables_of_strangers(self, folder: Path, table: str) -> None:
        (folder / "val" / "labels.csv").write_text(table)
        with pytest.raises(CalibrationDataError, match=r"labels\.csv"):
            self.open()


def test_labels_keep_the_order_of_the_table(tmp_path: Path) -> None:
    for name in ("b.png", "a.png"):
        (tmp_path / name).touch()
    (tmp_path / "labels.csv").write_text("label,more,file\n1,x,b.png\n0,y,a.png\n1,z,a.png\n")
    found = [(sample.path.name, sample.label) for sample in read_labels(tmp_path, 2)]
    assert found == [("b.png", 1), ("a.png", 0), ("a.png", 1)]
    with pytest.raises(CalibrationDataError, match=r"labels\.csv:2: label '1', expected an integer 0\.\.0"):
        read_labels(tmp_path, 1)


def test_a_fingerprint_is_name_label_and_content(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"content")
    assert fingerprint(LabelledFile(tmp_path / "a.png", 3)) == ["a.png", 3, hashlib.sha256(b"content").hexdigest()]
    with pytest.raises(CalibrationDataError, match=r"b\.png: cannot be read"):
        fingerprint(LabelledFile(tmp_path / "b.png", 3))
