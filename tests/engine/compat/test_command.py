"""``ptqlab compat``: what is written into a folder, and taken away again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.compat.command import install, uninstall
from engine.compat.installed import packages


def test_what_install_wrote_uninstall_removes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.py").touch()
    install(tmp_path)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "other.py"]
    assert capsys.readouterr().out == (
        f"{', '.join(packages())}: {len(written)} files written; ptqlab compat uninstall removes them\n"
    )
    uninstall(tmp_path)
    assert capsys.readouterr().out.startswith("removed: ")
    assert [path.name for path in tmp_path.iterdir()] == ["other.py"]
    uninstall(tmp_path)
    assert capsys.readouterr().out == "ptqlab has installed nothing there\n"
