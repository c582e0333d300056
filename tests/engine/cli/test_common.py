"""Options that several commands share."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from engine.cli.common import Truth, version_option


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_the_value_of_a_switch(text: str, expected: bool) -> None:
    assert bool(Truth(text)) is expected


def test_the_version_is_shown_before_anything_is_asked_for() -> None:
    app = typer.Typer()

    def command(needed: str, _: Annotated[bool, version_option("hb_tool")] = False) -> None:
        typer.echo(needed)

    command.__annotations__ = {"needed": str, "_": Annotated[bool, version_option("hb_tool")], "return": None}
    app.command()(command)

    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"hb_tool, version {version('ptqlab')}\n")
    assert CliRunner().invoke(app, ["text"]).output == "text\n"


@pytest.mark.parametrize("command", ["hb_mapper", "hb_compile", "hb_perf", "hb_pack", "hb_model_info", "hb_verifier"])
def test_h_is_help(command: str) -> None:
    app = importlib.import_module(f"engine.cli.vendor.{command}").app
    shown = [CliRunner().invoke(app, [option]) for option in ("-h", "--help")]
    assert shown[0].exit_code == 0
    assert shown[0].output == shown[1].output
