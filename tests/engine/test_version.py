"""The installed version, whichever distribution brought the engine."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import pytest

from engine import version


def test_it_is_that_of_the_installation() -> None:
    assert version.installed_version() == version_of("ptqlab")


def test_an_engine_without_the_lab_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_engine(name: str) -> str:
        if name == "ptqlab":
            raise PackageNotFoundError(name)
        return f"{name} 9"

    monkeypatch.setattr(metadata, "version", only_engine)
    version.installed_version.cache_clear()
    try:
        assert version.installed_version() == "ptqlab-engine 9"
    finally:
        version.installed_version.cache_clear()
