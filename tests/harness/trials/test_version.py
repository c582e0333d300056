"""What computed a result."""

from __future__ import annotations

import os
import subprocess
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.fingerprint import digest_of
from harness.backends import pipeline
from harness.trials import version


@pytest.fixture(autouse=True)
def fresh() -> None:
    version.engine_version.cache_clear()
    version.git_commit.cache_clear()


def test_the_version_covers_every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = {"module": "digest"}
    monkeypatch.setattr(pipeline, "fingerprints", lambda: stages)
    assert version.engine_version() == f"{metadata.version('ptqlab')}+{digest_of(stages)[:12]}"
    assert len(version.engine_version().partition("+")[2]) == 12
    version.engine_version.cache_clear()


@pytest.mark.parametrize(("said", "commit"), [("abc123-dirty\n", "abc123-dirty"), ("\n", None)])
def test_the_commit_is_what_git_says(said: str, commit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **options: Any) -> SimpleNamespace:
        assert command[:2] == ["git", "-C"]
        assert {"describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"} <= set(command)
        assert options["check"]
        assert options["timeout"] == 10
        return SimpleNamespace(stdout=said)

    monkeypatch.setattr(subprocess, "run", run)
    assert version.git_commit() == commit


@pytest.mark.parametrize(
    "error", [FileNotFoundError("git"), subprocess.CalledProcessError(128, "git"), subprocess.TimeoutExpired("git", 10)]
)
def test_without_git_there_is_no_commit(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    assert version.git_commit() is None


def test_the_commit_is_that_of_the_users_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        asked.append(command[2])
        if command[2].endswith("plain"):
            raise subprocess.CalledProcessError(128, "git")
        return SimpleNamespace(stdout="abc\n")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("PTQLAB_SUITES", f"{tmp_path}/plain{os.pathsep}{tmp_path}/models")
    assert version.git_commit() == "abc"
    assert asked == [f"{tmp_path}/plain", f"{tmp_path}/models"]
    version.git_commit.cache_clear()
    monkeypatch.setenv("PTQLAB_SUITES", f"{tmp_path}/plain")
    assert version.git_commit() is None, "that of ptqlab says nothing of the models"
    version.git_commit.cache_clear()
