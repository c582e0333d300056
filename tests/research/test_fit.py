"""The command of the fit reports clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.fit import main


def test_command_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PTQLAB_REFERENCE", raising=False)
    assert main([]) == 255
    assert main([str(tmp_path / "none.jsonl")]) == 255
    errors = capsys.readouterr().err
    assert "PTQLAB_REFERENCE" in errors
    assert "none.jsonl" in errors
