"""Statistics kept in a folder between conversions."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest

from engine.calibrate import ArrayData, CalibrationOptions, Statistics, collect_for, open_folders, run_calibration
from engine.calibrate.statistics.cache import FOLDER_VARIABLE
from engine.config import InputSpec
from engine.errors import CalibrationDataError
from engine.ir import to_bytes
from engine.place import PlacementOptions, place
from engine.terms import CalibrationType
from tests.engine.calibrate.models import residual

X = np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)
MODEL = residual()
PLACED = place(MODEL, "bayes-e", PlacementOptions()).model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "statistics"))
    return tmp_path / "statistics"


def collected(x: np.ndarray = X, model=MODEL, **options: object) -> str:
    return collect_for(model, [PLACED], ArrayData({"x": x}), CalibrationOptions.model_validate(options)).digest()


def test_the_second_conversion_runs_no_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = CalibrationOptions(calibration_type=CalibrationType.KL, per_channel=True)
    first = run_calibration(MODEL, PLACED, ArrayData({"x": X}), options)
    monkeypatch.delattr("engine.calibrate.statistics.cache.collect")
    again = run_calibration(MODEL, PLACED, ArrayData({"x": X}), options, threads=1)
    assert to_bytes(again) == to_bytes(first)
    assert [path.suffix for path in folder.iterdir()] == [".npz"]


def test_what_changes_statistics_changes_the_key(folder: Path) -> None:
    changed = X.copy()
    changed[0, 0, 0, 0] += 1
    variants = [
        collected(),
        collected(changed),
        collected(model=residual(seed=1)),
        collected(calibration_type="kl"),
        collected(max_percentile=0.99),
        collected(per_channel=True),
    ]
    assert len(list(folder.iterdir())) == len(variants)
    collected(max_percentile=0.99)
    assert len(list(folder.iterdir())) == len(variants)


def test_damaged_files_are_written_anew(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = collected()
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    assert collected() == wanted
    assert "collected anew" in caplog.text
    caplog.clear()
    assert collected() == wanted
    assert "collected anew" not in caplog.text


def test_nothing_is_kept_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    collected()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bit", [1, *(pytest.param(bit, marks=pytest.mark.nightly) for bit in (0, 6))])
def test_no_damaged_byte_does_harm(folder: Path, bit: int) -> None:
    wanted = collected()
    (path,) = folder.iterdir()
    content = path.read_bytes()
    for index in range(bit, len(content), 3):
        path.write_bytes(content[:index] + bytes([content[index] ^ 1 << bit]) + content[index + 1 :])
        with contextlib.suppress(CalibrationDataError):
            assert Statistics.load(path).digest() == wanted


def test_other_files_of_numpy_are_written_anew(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = collected()
    (path,) = folder.iterdir()
    with path.open("wb") as stream:
        np.save(stream, X)
    assert collected() == wanted
    assert "not an archive of arrays" in caplog.text


@pytest.mark.parametrize("name", ["file", "file/below", "x" * 300])
def test_a_folder_that_cannot_be_written_costs_the_cache_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine.calibrate.statistics.progress.SECONDS", 0.0)
    (tmp_path / "file").touch()
    wanted = collected()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / name))
    assert collected() == wanted
    assert "the progress of the pass is not saved" in caplog.text
    assert "the statistics are not saved" in caplog.text


def test_names_of_files_do_not_count(folder: Path, tmp_path: Path) -> None:
    keys = []
    for names in (["a.bin", "b.bin"], [b"c.bin", b"\xff.bin"]):
        data = tmp_path / f"data{len(keys)}"
        data.mkdir()
        for name, sample in zip(names, X, strict=False):
            (data / os.fsdecode(name)).write_bytes(sample.tobytes())
        keys.append(open_folders(MODEL, [InputSpec(name="x")], [data]).digest())
    assert len(set(keys)) == 1
