"""Digests of a trial's files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.trials.sums import SUMS_FILE, DamagedError, check_all, read_checked, write_sums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "nodes.csv").write_text("a,b\n")
    write_sums(tmp_path)
    return tmp_path


def test_files_are_read_as_they_were_written(folder: Path) -> None:
    assert read_checked(folder / "result.json") == b"{}"
    check_all(folder)
    checked = subprocess.run(["/usr/bin/sha256sum", "--check", "--strict", SUMS_FILE], cwd=folder, capture_output=True)
    assert checked.returncode == 0


def test_changed_missing_and_unlisted_files(folder: Path) -> None:
    (folder / "nodes.csv").write_text("a,c\n")
    with pytest.raises(DamagedError, match=r"nodes\.csv: is damaged: its SHA-256 differs; run the suite again"):
        check_all(folder)
    (folder / "nodes.csv").unlink()
    with pytest.raises(FileNotFoundError):
        check_all(folder)
    (folder / "new.txt").touch()
    with pytest.raises(DamagedError, match=r"new\.txt"):
        read_checked(folder / "new.txt")


@pytest.mark.parametrize("text", ["", "0123", "0123  a/b\n"])
def test_a_list_that_is_none(folder: Path, text: str) -> None:
    (folder / SUMS_FILE).write_text(text)
    with pytest.raises(DamagedError, match=f"{SUMS_FILE}: is damaged"):
        check_all(folder)


def test_a_folder_without_digests_is_taken_as_it_is(folder: Path) -> None:
    (folder / SUMS_FILE).unlink()
    (folder / "nodes.csv").write_text("a,c\n")
    check_all(folder)
    assert read_checked(folder / "nodes.csv") == b"a,c\n"
