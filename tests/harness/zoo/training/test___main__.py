"""``python -m harness.zoo.training``: names, what it says, exit status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs the extra zoo")

from engine.errors import ConfigError
from harness.files import paths
from harness.zoo.training import __main__ as command
from harness.zoo.training.recipes import RECIPES

CARD = SimpleNamespace(float_score=SimpleNamespace(value=0.98765, stderr=0.00321), metric=SimpleNamespace(name="top1"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """Names and folders of models that were made; ``wrong`` is refused."""
    found: list[tuple[str, Path]] = []

    def make(name: str, folder: Path, report: Callable[[str], None]) -> Any:
        if name == "wrong":
            raise ConfigError("no such model")
        report("epoch 1/1: loss 0.5")
        found.append((name, folder))
        return CARD

    monkeypatch.setattr(command, "make", make)
    return found


def run(monkeypatch: pytest.MonkeyPatch, *names: str) -> int:
    monkeypatch.setattr("sys.argv", ["training", *names])
    return command.main()


def test_named_models_are_made_where_the_bundled_ones_are(
    made: list[tuple[str, Path]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "b", "a") == 0
    folder = paths.bundled("suites") / "zoo"
    assert made == [("b", folder), ("a", folder)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "b: epoch 1/1: loss 0.5"
    assert lines[1].startswith("b: top1 0.9877 ± 0.0032, ")
    assert lines[2:] == [line.replace("b: ", "a: ") for line in lines[:2]]


def test_without_names_all_are_made(made: list[tuple[str, Path]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch) == 0
    assert [name for name, _ in made] == list(RECIPES)


def test_an_error_ends_the_command_with_its_status(
    made: list[tuple[str, Path]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "a", "wrong", "b") == ConfigError.exit_code != 0
    assert [name for name, _ in made] == ["a"]
    assert capsys.readouterr().out.splitlines()[-1] == "ERROR no such model"
