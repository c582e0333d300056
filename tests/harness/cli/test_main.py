"""The command ``ptqlab``: which commands there are, and how an error ends it."""

from __future__ import annotations

import errno
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.lab import COMMANDS, GROUPS
from engine.errors import NO_MEMORY, ConfigError, ModelError, OutputError, PtqlabError
from harness.cli import main as module
from harness.cli.main import EXIT_NOT_WRITTEN, app, main


def test_commands_of_harness_and_engine() -> None:
    names = {command.name for command in app.registered_commands}
    own = {"run", "nightly", "ls", "validate", "show", "compare", "why", "gc", "sync", "bench", "digest"}
    assert own | {"prepare", "evaluate", "classify", "sample"} | set(COMMANDS) <= names
    assert {group.name for group in app.registered_groups} == {*GROUPS, "compat"}
    assert len(names) == len(app.registered_commands)  # none hides another


@pytest.mark.parametrize("error", [ConfigError("wrong key"), ModelError("no model")])
def test_an_error_is_one_line_and_the_exit_code_of_its_kind(
    error: PtqlabError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(module, "app", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == error.exit_code != 0
    assert capsys.readouterr().err == f"ERROR: {error}\n"


def test_defects_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "app", fail)
    with pytest.raises(ZeroDivisionError):
        main()


def test_without_arguments_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ptqlab"])
    found = CliRunner().invoke(app, [])
    assert found.exit_code == 2
    assert "accuracy lab" in found.output


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OutputError("x: cannot be written: No space left on device"), "x: cannot be written: No space left on device"),
        (OSError(28, "No space left on device", "a/b"), "a/b: cannot be written: No space left on device"),
        (OSError(30, "Read-only file system"), "cannot be written: Read-only file system"),
    ],
)
def test_a_disk_that_takes_nothing_has_an_exit_code_of_its_own(
    error: OSError, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(module, "app", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == EXIT_NOT_WRITTEN == 16
    assert capsys.readouterr().err == f"ERROR: {message}\n"


@pytest.mark.parametrize("words", [["--version"], ["run", "--version"], ["conformance", "check", "--version"]])
def test_every_command_shows_the_version(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ptqlab", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"ptqlab, version {version('ptqlab')}\n"


@pytest.mark.parametrize("command", ["run", "nightly"])
def test_a_folder_that_is_none_ends_a_sweep_before_it_begins(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work").write_text("a file")
    monkeypatch.setattr(sys, "argv", ["ptqlab", command, "smoke", "--workdir", str(tmp_path / "work")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == EXIT_NOT_WRITTEN
    assert "cannot be written: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (MemoryError(), 255, NO_MEMORY),
        (OSError(errno.EMFILE, "Too many open files", "f"), 255, "f: Too many open files; raise the limit (ulimit -n)"),
        (OSError(errno.ENOSPC, "No space left on device", "f"), EXIT_NOT_WRITTEN, "f: cannot be written: No space"),
    ],
)
def test_what_the_system_refuses_is_one_message(
    error: Exception, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("harness.cli.main.app", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith(f"ERROR: {words}")
