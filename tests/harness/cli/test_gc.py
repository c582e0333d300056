"""``ptqlab gc`` says how much it removes."""

from __future__ import annotations

import os
from pathlib import Path

from typer.testing import CliRunner

from harness.cli.gc import gc
from harness.cli.main import app


def test_old_results_are_reported_then_removed(tmp_path: Path) -> None:
    assert gc.__doc__
    path = tmp_path / "cache" / "score" / "a.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 2_000_000)
    os.utime(path, (0, 0))
    arguments = ["gc", "--workdir", str(tmp_path)]
    said = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert "1 files and folders would be removed, 2.0 MB" in said.output
    assert "cache: score" in said.output
    assert path.exists()
    assert "1 files and folders removed, 2.0 MB" in CliRunner().invoke(app, arguments).output
    assert not path.exists()
    assert "0 files and folders removed" in CliRunner().invoke(app, arguments).output
