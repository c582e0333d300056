"""Help of every command: plain text, without the markup of docstrings, and every command is on the site's page."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer

from tests.conftest import ROOT

TREE = ast.parse((ROOT / "docs" / "generate" / "commands.py").read_text(encoding="utf-8"))
COMMANDS: dict[str, str] = next(
    ast.literal_eval(node.value)
    for node in TREE.body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS"
)
MARKUP = ("``", ":func:", ":class:", ":meth:", ":mod:", ":data:")


def texts(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command, of its parameters and of its subcommands, by name."""
    yield name, command.help or ""
    for parameter in command.get_params(typer.Context(command)):
        yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""
    for child, inner in getattr(command, "commands", {}).items():
        yield from texts(inner, f"{name} {child}")


def test_the_page_has_every_command() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert sorted(COMMANDS) == sorted(scripts)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_plain_text(name: str) -> None:
    module, _, app = COMMANDS[name].partition(":")
    command = typer.main.get_command(getattr(import_module(module), app))
    found = dict(texts(command, name))
    assert found[name], f"{name} has no help"
    assert [where for where, text in found.items() if any(mark in text for mark in MARKUP)] == []
