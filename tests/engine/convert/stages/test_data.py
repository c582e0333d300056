"""The stage that opens the calibration data: when it does, and what it says of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from engine.config import Config, InputSpec
from engine.convert.stages.data import OPEN_DATA, open_data
from tests.engine.calibrate.models import residual
from tests.engine.convert.work import configured, ran

SPECS = (InputSpec(name="x"),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for index in range(3):
        np.full((1, 3, 6, 5), index, np.float32).tofile(tmp_path / f"{index}.bin")
    return tmp_path


def of(kind: str, folder: Path | None) -> Config:
    given = None if folder is None else str(folder)
    return configured(
        calibration__calibration_type=kind,
        calibration__cal_data_dir=given,
        calibration__cal_data_type=None if folder is None else "float32",
    )


@pytest.mark.parametrize(
    ("kind", "given", "opened"), [("max", True, 3), ("load", True, 3), ("load", False, None), ("skip", True, None)]
)
def test_when_data_are_opened(folder: Path, kind: str, given: bool, opened: int | None) -> None:
    found = ran(OPEN_DATA, of(kind, folder if given else None), source=residual(), specs=SPECS)["data"]
    assert (None if found is None else len(found)) == opened


def test_what_the_log_says_of_them(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "engine.convert"):
        open_data(of("max", folder), residual(), SPECS)
    digest = hashlib.md5((folder / "0.bin").read_bytes()).hexdigest()
    assert "There are 3 samples in the calibration data set." in caplog.text
    assert f"md5 of the first calibration file {folder / '0.bin'}: {digest}" in caplog.text
