"""Files of ``hb_eval_preprocess``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from engine.errors import CalibrationDataError
from harness.cli.eval_preprocess import EvalModel, FileFormat, app, listed_images, prepared, steps


@pytest.fixture
def images(tmp_path: Path) -> Path:
    pytest.importorskip("cv2", reason="the extra images is not installed")
    folder = tmp_path / "images"
    folder.mkdir()
    for name, gray in (("a", 60), ("b", 200)):
        Image.new("RGB", (320, 280), (gray,) * 3).save(folder / f"{name}.png")
    return folder


def test_a_file_per_image_in_nv12(images: Path, tmp_path: Path) -> None:
    arguments = ["-m", "resnet50", "-i", str(images), "-o", str(tmp_path / "out")]
    finished = CliRunner().invoke(app, arguments)
    assert finished.exit_code == 0, finished.output
    assert {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()} == {"a.bin": 75264, "b.bin": 75264}


def test_gray_has_no_chroma(images: Path) -> None:
    packed = prepared(images / "a.png", EvalModel.RESNET18)
    assert packed.shape == (336, 224)
    assert len(np.unique(packed[:224])) == 1
    assert np.abs(packed[224:].astype(int) - 128).max() <= 1


def test_a_list_chooses_and_orders(images: Path, tmp_path: Path) -> None:
    (tmp_path / "val.txt").write_text("b.png 7\na.png 3\n")
    assert [path.name for path in listed_images(images, tmp_path / "val.txt")] == ["b.png", "a.png"]
    (tmp_path / "val.txt").write_text("c.png 7\n")
    with pytest.raises(CalibrationDataError, match=r"1 of the listed images are missing, such as c\.png"):
        listed_images(images, tmp_path / "val.txt")


@pytest.mark.parametrize("model", EvalModel)
def test_every_model_has_its_steps(model: EvalModel) -> None:
    assert steps(model)


def test_files_of_other_formats(images: Path, tmp_path: Path) -> None:
    Image.new("RGB", (40, 40), (10, 20, 200)).save(images / "c.png")
    bgr = prepared(images / "c.png", EvalModel.SSD, FileFormat.BGR)
    assert (bgr.shape, bgr[0, 0].tolist()) == ((300, 300, 3), [200, 20, 10])
    np.testing.assert_array_equal(prepared(images / "c.png", EvalModel.SSD, FileFormat.RGB), bgr[..., ::-1])
    gray = prepared(images / "c.png", EvalModel.SSD, FileFormat.GRAY)
    assert (gray.shape, np.unique(gray).tolist()) == ((300, 300, 1), [38])  # 0.299 * 10 + 0.587 * 20 + 0.114 * 200
    arguments = ["-m", "yolov2_darknet19", "-i", str(images), "-o", str(tmp_path / "out"), "-t", "rgb"]
    finished = CliRunner().invoke(app, arguments)
    assert finished.exit_code == 0, finished.output
    assert (tmp_path / "out/c.bin").stat().st_size == 608 * 608 * 3
