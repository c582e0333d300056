"""The installed version, whichever distribution brought the engine."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import pytest

from engine import version


def test_it_is_that_of_the_installation() -> None:
    assert version.installed_version() == version_of("ptqlab")


@pytest.mark.parametrize("installed", ["ptqlab-minimal", "ptqlab-engine"])
def test_an_installation_of_a_part_has_one_too(installed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_this(name: str) -> str:
        if name != installed:
            raise PackageNotFoundError(name)
        return f"{name} 9"

    monkeypatch.setattr(metadata, "version", only_this)
    version.installed_version.cache_clear()
    try:
        assert version.installed_version() == f"{installed} 9"
    finally:
        version.installed_version.cache_clear()
