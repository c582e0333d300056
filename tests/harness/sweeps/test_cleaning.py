"""What ``ptqlab gc`` removes, and what it leaves."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from engine.errors import OutputError
from harness.files.cache import Cache
from harness.sweeps.cleaning import removable, remove
from tests.harness import fakes

DAY = 86_400.0


def old(path: Path, days: float, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - days * DAY,) * 2)
    if path.parent.name.startswith("."):
        os.utime(path.parent, (time.time() - days * DAY,) * 2)
    return path


def test_old_results_and_leftovers_go_and_the_rest_stays(tmp_path: Path) -> None:
    gone = [
        old(tmp_path / "cache/score/a.npz", 40, 1000),
        old(tmp_path / "cache/score/.b.npz.lock", 3),
        old(tmp_path / "cache/score/.c.npz.0123", 3),
        old(tmp_path / ".fresh-1/score/x.npz", 3),
        old(tmp_path / ".recheck-1/x", 3),
        old(tmp_path / "running/key", 3),
        old(tmp_path / "trials/.key.xyz/result.json", 3),
        old(tmp_path / ".mlflow.db.lock", 3),
        old(tmp_path / ".mlflow.db.k2j3/mlflow.db", 3),
        old(tmp_path / "unfinished/0123.new", 3),
        old(tmp_path / "earlier/mine-20260102-030405/report.html", 40),
        old(tmp_path / f"environments/.abc.json.{'0f' * 16}", 3),
        old(tmp_path / f".m_quantized_model.onnx.{'0f' * 16}", 3),  # of a conversion
    ]
    kept = [
        old(tmp_path / "cache/score/new.npz", 1),
        old(tmp_path / ".fresh-2/x", 0.1),
        old(tmp_path / "trials/key/result.json", 400),
        old(tmp_path / "mlflow.db", 400),
        old(tmp_path / ".git/objects/0f", 400),
        old(tmp_path / ".hidden", 400),
        old(tmp_path / "unfinished/0123.json", 400),
        old(tmp_path / f".m.onnx.{'0f' * 16}", 0.1),
        old(tmp_path / "sweeps/mine/report.html", 400),
        old(tmp_path / "earlier/mine-20260103-030405/report.html", 1),
    ]
    os.utime(tmp_path / "earlier/mine-20260102-030405", (time.time() - 40 * DAY,) * 2)
    for folder in (".fresh-1", ".recheck-1", "trials/.key.xyz", ".fresh-1/score"):
        os.utime(tmp_path / folder, (time.time() - 3 * DAY,) * 2)
    found = removable(tmp_path, 30)
    assert {each.kind for each in found} == {"cache: score", "earlier reports", "leftovers"}
    assert next(each.bytes for each in found if each.kind == "cache: score") == 1000
    remove(found)
    assert not [path for path in gone if path.exists()]
    assert all(path.exists() for path in kept)


def test_trials_that_no_sweep_refers_to_go_where_that_is_asked(tmp_path: Path) -> None:
    path = old(tmp_path / "trials/key/result.json", 400)
    os.utime(path.parent, (time.time() - 400 * DAY,) * 2)
    assert removable(tmp_path, 30) == []
    (found,) = removable(tmp_path, 30, trials=True)
    assert (found.kind, found.path) == ("trials", path.parent)


def test_what_was_used_lately_stays(tmp_path: Path) -> None:
    path = old(tmp_path / "cache/score/a.txt", 40)
    assert Cache(tmp_path / "cache").get("score", "a", fakes.TEXT, lambda: "new") == "x" * 10
    assert removable(tmp_path, 30) == []
    assert path.exists()


def test_what_cannot_be_removed_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old(tmp_path / "cache/score/a.npz", 40)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OutputError, match="cannot be removed: Permission denied"):
        remove(removable(tmp_path, 30))
