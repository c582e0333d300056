"""Where cards were found, and how they are found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cards.folders import CardFolders
from harness.files import paths


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PTQLAB_SUITES", "PTQLAB_DATASETS", "PTQLAB_CODE"):
        monkeypatch.setenv(name, "")


def test_folders_of_this_process_are_kept_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PTQLAB_SUITES", "lab")
    assert CardFolders.here() == CardFolders(suites=(tmp_path / "lab",), code=(tmp_path,))


def test_kept_folders_come_first_or_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("PTQLAB_SUITES", str(first))
    CardFolders(suites=(second,), datasets=(second,), code=(tmp_path,)).search_first()
    assert paths.suites()[:-1] == (second, first)
    assert (paths.datasets()[:-1], paths.code()) == ((second,), (tmp_path,))
    CardFolders(suites=(first,)).search_first()
    assert paths.suites()[:-1] == (first, second), "what is known already comes first too"
    CardFolders(suites=(first,)).search_only()
    assert (paths.suites()[:-1], paths.datasets()[:-1], paths.code()) == ((first,), (), ())
