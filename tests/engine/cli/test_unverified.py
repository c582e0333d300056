"""What nobody verified is said in the help of its commands and on the site's first page, from one table."""

from __future__ import annotations

import ast
from importlib import import_module
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from engine.cli.unverified import UNVERIFIED, note_of, table
from tests.conftest import ROOT
from tests.test_help import COMMANDS

NAMES = sorted({name.partition(" --")[0] for each in UNVERIFIED for name in each.commands})


def app_of(command: str) -> Any:
    module, _, app = COMMANDS[command].partition(":")
    return getattr(import_module(module), app)


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_the_command_says_so(name: str) -> None:
    command, *words = name.split()
    shown = CliRunner().invoke(app_of(command), [*words, "--help"])
    assert shown.exit_code == 0
    text = " ".join(shown.output.split())
    for each in UNVERIFIED:
        if any(other.partition(" --")[0] == name for other in each.commands):
            assert each.subject in text
            assert each.instead in text


def test_the_options_that_are_named_exist() -> None:
    for name in (name for each in UNVERIFIED for name in each.commands if " --" in name):
        command, option = name.split()
        shown = CliRunner().invoke(app_of(command), ["--help"])
        assert option in shown.output


def test_what_was_verified_has_no_note() -> None:
    assert note_of("vec_diff") is None
    assert note_of("hb_mapper", "hb_mapper checker") is None
    help_of_checker = CliRunner().invoke(app_of("hb_mapper"), ["checker", "--help"]).output
    assert "Not verified" not in help_of_checker


def test_the_first_page_has_the_table() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert table() in page, f"write this into docs/index.md:\n{table()}"


def test_every_command_of_the_boards_is_in_the_table() -> None:
    source = (ROOT / "engine" / "cli" / "start.py").read_text(encoding="utf-8")
    scripts = {
        node.targets[0].id
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call)
    }
    of_files = {script for script in scripts if script.startswith(("hb_", "hrt_"))}
    assert of_files <= {name.split()[0] for name in NAMES}
    assert isinstance(typer.main.get_command(app_of("hrt_model_exec")), typer.core.TyperGroup)
