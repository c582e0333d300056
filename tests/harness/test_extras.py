"""The command that installs an extra works wherever ptqlab came from."""

from __future__ import annotations

from importlib import metadata

import pytest

from harness.extras import how_to_install


def declared(monkeypatch: pytest.MonkeyPatch, *requirements: str) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: list(requirements))


def test_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    declared(monkeypatch, "numpy>=2", 'torch==2.13.0; extra == "zoo"', "torchvision==0.28.0 ; extra == 'zoo'")
    assert how_to_install("zoo") == "pip install 'torch==2.13.0' 'torchvision==0.28.0'"


@pytest.mark.parametrize("extra", ["zoo", "dask", "images", "packages", "bench-peers", "s3"])
def test_every_extra_of_a_message_has_packages(extra: str) -> None:
    assert how_to_install(extra).startswith("pip install '")
    assert "ptqlab" not in how_to_install(extra)


def test_without_metadata_the_checkout_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    declared(monkeypatch)
    assert how_to_install("zoo") == "pip install '.[zoo]' in a checkout of ptqlab"
