"""Tables at 80 columns and in pipes."""

from __future__ import annotations

import ast
import io

import pytest
from rich.console import Console

from engine.cli.console import PIPED_WIDTH, open_console, plain_table, say
from tests.conftest import ROOT

NAME = "/model.22/cv3.2/cv3.2.0/cv3.2.0.1/conv/Conv_with_a_name_of_its_own_that_goes_on_and_on_beyond_any_terminal"


def printed(width: int) -> str:
    table = plain_table("node", "on", "type", figures=("DDR bytes", "threshold"), words=("reason",))
    table.add_row(NAME, "CPU", "Softmax", "123456789", "0.12345", "the kernel is larger than the array " * 4)
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


def test_a_pipe_cuts_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert open_console().width == PIPED_WIDTH
    assert NAME in printed(PIPED_WIDTH)


def test_at_80_columns_headings_stand_upright_and_nothing_is_cut() -> None:
    text = printed(80)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    for heading in ("node", "on", "type", "DDR bytes", "threshold", "reason"):
        assert heading in lines[0]
    room = lines[0].index(" on")
    assert "".join(line[:room].strip() for line in lines[1:]) == NAME


def test_who_sets_columns_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert open_console().width == 90


def test_what_is_said_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("net\x1b]0;title\x07 \u202eback")
    say(ValueError("a\rb"), nl=False, err=True)
    assert capsys.readouterr() == ("net\\x1b]0;title\\x07 \\u202eback\n", "a\\rb")


def test_commands_print_in_this_way_alone() -> None:
    """``engine.compat`` stands beside the commands and names files of its own; a listing names what rich hands it."""
    found = set()
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "harness").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("typer.echo", "click.echo", "typer.secho"):
                found.add(path.relative_to(ROOT).as_posix())
            if isinstance(node, ast.ImportFrom) and node.module == "rich.console":
                found |= {path.relative_to(ROOT).as_posix() for name in node.names if name.name == "Console"}
    shared = {"engine/cli/console.py", "engine/cli/listing.py", "engine/cli/terminal.py"}
    assert found == {*shared, "engine/compat/command.py"}
