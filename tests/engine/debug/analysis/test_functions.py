"""The debugger's functions: what is checked before anything runs, what is ranked and drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.debug.analysis import functions
from engine.debug.analysis.functions import (
    TOP,
    _as_list,
    _calibrations,
    _folder,
    _opened,
    _required,
    _to_rank,
    sensitivity_analysis,
)
from engine.debug.analysis.model import DebugModel
from engine.errors import CalibrationDataError, ConfigError
from tests.engine.calibrate.models import DATA, calibrated_residual

MODEL = DebugModel(calibrated_residual())


def test_pictures_go_to_a_folder(tmp_path: Path) -> None:
    assert [_folder(given) for given in (None, "", "a", tmp_path / "new")] == [
        Path(),
        Path(),
        Path("a"),
        tmp_path / "new",
    ]
    (tmp_path / "file").touch()
    for given in (3, tmp_path / "file", ["a"]):
        with pytest.raises(ConfigError, match=r"save_dir is .*; a folder is needed"):
            _folder(given)


def test_model_data_and_names_are_required() -> None:
    with pytest.raises(ConfigError, match="model_or_file is required: a calibrated model"):
        _opened(None, DATA)
    with pytest.raises((ConfigError, CalibrationDataError), match="calibrated_data"):
        _opened(calibrated_residual(), None)
    for given in (None, []):
        with pytest.raises(ConfigError, match="nodes_list is required"):
            _required(given)
    assert (_as_list("a"), _as_list(("a", "b")), _as_list(None)) == (["a"], ["a", "b"], [])


@pytest.mark.parametrize(
    ("kind", "interested", "expected"),
    [
        (None, [], ["weight", "activation"]),
        ("node", [], ["node"]),
        ("weight", ["conv0"], ["nodes of interest"]),
    ],
)
def test_what_is_ranked(kind: str | None, interested: list[str], expected: list[str]) -> None:
    found = _to_rank(MODEL, kind, interested)
    assert list(found) == expected
    if not interested:
        assert all(found.values())


def test_a_regular_node_stands_for_what_it_reads() -> None:
    assert sorted(_calibrations(MODEL, ["conv1"])) == sorted(MODEL.groups["conv1"])
    assert _calibrations(MODEL, ["w0_HzCalibration"]) == ["w0_HzCalibration"]
    assert TOP == 5


@pytest.mark.parametrize("threshold", [-0.1, 1.1, "0.5", None])
def test_a_threshold_is_a_cosine(threshold: object) -> None:
    with pytest.raises(ConfigError, match=r"pick_threshold is .*; allowed is 0 to 1"):
        sensitivity_analysis(calibrated_residual(), DATA, threshold)


def test_tables_are_printed_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.debug.analysis.plots.draw_partial_quantisation", lambda found, folder: None)
    found = sensitivity_analysis(calibrated_residual(), DATA, 1.0, verbose=True, save_dir=tmp_path)
    printed = capsys.readouterr().out
    for name, cause in found.causes.items():
        assert f"{name}: sensitive to the quantisation of its {cause}\n" in printed
    assert functions.sensitivity_analysis(calibrated_residual(), DATA, 0.0, save_dir=tmp_path).sensitive == ()
    assert capsys.readouterr().out == ""


@pytest.mark.nightly
def test_runall_tells_how_far_it_is(tmp_path: Path) -> None:
    shares: list[float] = []
    page = functions.runall(calibrated_residual(), DATA, tmp_path, most=2, watch=shares.append)
    assert "2 samples" in page.read_text()
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.2
    assert 0.8 < shares[-1] <= 1
