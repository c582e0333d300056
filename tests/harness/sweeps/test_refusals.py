"""What was refused before any trial ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from harness.sweeps.refusals import refusal_kept, refused


def test_a_refusal_is_kept_until_a_sweep_begins(tmp_path: Path) -> None:
    assert refused("mine", tmp_path) is None
    with pytest.raises(ConfigError, match="the data have changed"), refusal_kept("mine", tmp_path):
        raise ConfigError("the data have changed")
    found = refused("mine", tmp_path)
    assert found is not None
    assert (found.suite, found.message) == ("mine", "the data have changed")
    with refusal_kept("mine", tmp_path):
        pass
    assert refused("mine", tmp_path) is None


def test_a_defect_is_no_refusal(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), refusal_kept("mine", tmp_path):
        raise ZeroDivisionError
    assert refused("mine", tmp_path) is None


def test_a_refusal_makes_no_working_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError), refusal_kept("mine", tmp_path / "work"):
        raise ConfigError("unknown metric")
    assert not (tmp_path / "work").exists()


def test_a_refusal_that_cannot_be_kept_is_raised_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "sweeps").write_text("a file where the folder of reports should be")
    with pytest.raises(ConfigError, match="the data have changed"), refusal_kept("mine", tmp_path):
        raise ConfigError("the data have changed")
