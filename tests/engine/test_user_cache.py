"""Files below the user's cache folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.user_cache import read_kept, user_cache, write_kept


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ptqlab"


def test_what_is_kept_is_read(folder: Path) -> None:
    assert read_kept("a/b") is None
    write_kept("a/b", b"1")
    write_kept("a/b", b"2")
    assert read_kept("a/b") == b"2"
    assert [path.name for path in (folder / "a").iterdir()] == ["b"]


def test_it_lies_below_home_where_nothing_else_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache("a") == tmp_path / ".cache" / "ptqlab" / "a"


def test_a_folder_that_cannot_be_made_keeps_nothing(folder: Path) -> None:
    folder.parent.parent.joinpath("cache").write_text("a file")
    write_kept("a", b"1")
    assert read_kept("a") is None


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    write_kept("a", b"1")
    assert user_cache("a") is None
    assert read_kept("a") is None
