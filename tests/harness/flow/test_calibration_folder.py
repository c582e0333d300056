"""Calibration folders hold what the configuration reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.calibrate import open_folders
from engine.errors import CalibrationDataError, ConfigError
from engine.frontend import parse
from harness.flow.calibration_folder import write_folder
from harness.flow.preparation import Preparation, image_files, open_input
from tests.harness.flow.sample import make_sample


@pytest.mark.parametrize("kind", ["_f32", "_u8", "nash"])
def test_samples_come_back_as_they_were_prepared(tmp_path: Path, kind: str) -> None:
    path = make_sample(tmp_path, "nash-e" if kind == "nash" else "bayes-e")
    config, target = open_input(path, None)
    prepare = Preparation(target)
    files = image_files(tmp_path / "images" / "red")
    to = None if kind == "_f32" else tmp_path / f"other{kind}"
    folder = write_folder(config, prepare, files, to)
    assert folder.name == ("calibration_f32" if kind == "_f32" else f"other{kind}")
    written = sorted(folder.iterdir())
    assert [item.suffix for item in written] == [".npy" if kind == "nash" else ".bgr"] * 4
    for item, file in zip(written, files, strict=True):
        expected = prepare(file)
        if kind == "nash":
            found = np.load(item)[0]
        elif kind == "_u8":
            found, expected = np.fromfile(item, np.uint8).reshape(3, 16, 16), np.rint(expected)
        else:
            found = np.fromfile(item, np.float32).reshape(3, 16, 16)
        np.testing.assert_array_equal(found, expected)


def test_the_converter_reads_the_folder(tmp_path: Path) -> None:
    path = make_sample(tmp_path)
    config, target = open_input(path, "data")
    write_folder(config, Preparation(target), image_files(tmp_path / "images" / "red"))
    source, specs = parse(config)
    data = open_folders(source, specs, config.calibration_parameters.cal_data_dir)
    assert len(data) == 4


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    path = make_sample(tmp_path)
    config, target = open_input(path, None)
    files = image_files(tmp_path / "images" / "red")
    write_folder(config, Preparation(target), files)
    with pytest.raises(ConfigError, match="calibration_f32: is not empty"):
        write_folder(config, Preparation(target), files)


def test_a_damaged_image_leaves_no_folder(tmp_path: Path) -> None:
    path = make_sample(tmp_path)
    config, target = open_input(path, None)
    files = image_files(tmp_path / "images" / "red")
    files[-1].write_bytes(b"no image")
    with pytest.raises(CalibrationDataError, match=r"3\.png: cannot be read"):
        write_folder(config, Preparation(target), files)
    assert not list(tmp_path.glob("*calibration*"))
    assert not list(tmp_path.glob(".calibration*"))


def test_inputs_that_are_no_images_are_refused(tmp_path: Path) -> None:
    path = make_sample(tmp_path)
    with pytest.raises(ConfigError, match="image input 'x' is needed; there is data"):
        open_input(path, "x")
