"""Commands that are read when they are called: the same help, arguments and pages as commands that are read at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from engine.cli.late import register
from tests.conftest import ROOT


def weigh(
    name: Annotated[str, typer.Argument(help="Of what is weighed.")],
    times: Annotated[int, typer.Option("--times", "-t", min=1, help="How often.")] = 1,
) -> None:
    """Weigh something.

    More than once if asked to.
    """
    typer.echo(" ".join([name] * times))


def none() -> None:
    """Do nothing."""


@pytest.fixture(params=["late", "at once"])
def app(request: pytest.FixtureRequest) -> typer.Typer:
    found = typer.Typer(name="scales", help="Scales.", no_args_is_help=True, pretty_exceptions_enable=False)
    for name, function in (("weigh", weigh), ("none", none)):
        if request.param == "late":
            register(found, name, function)
        else:
            found.command(name)(function)
    return found


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["--help"], 0, ["weigh", "Weigh something.", "none", "Do nothing."]),
        (
            ["weigh", "--help"],
            0,
            ["scales weigh [OPTIONS]", "More than once", "Of what is weighed.", "--times", "x>=1"],
        ),
        (["weigh", "flour", "-t", "2"], 0, ["flour flour"]),
        (["weigh"], 2, ["scales weigh [OPTIONS]", "Missing argument"]),
        (["weigh", "flour", "-t", "0"], 2, ["Invalid value", "'--times'"]),
        (["none", "--often"], 2, ["No such option"]),
        (["weight"], 2, ["No such command"]),
    ],
)
def test_commands_work(app: typer.Typer, arguments: list[str], exit_code: int, words: list[str]) -> None:
    found = CliRunner().invoke(app, arguments, prog_name="scales")
    assert found.exit_code == exit_code, found.output
    assert [word for word in words if word not in found.output] == []


def test_pages_have_the_parameters(app: typer.Typer) -> None:
    from typer.cli import get_docs_for_click

    command = typer.main.get_command(app)
    page = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="scales"), name="scales")
    assert "-t, --times" in page
    assert "Of what is weighed." in page


@pytest.mark.nightly
def test_a_list_reads_no_parameters(tmp_path: Path) -> None:
    """An annotation that cannot be read is no obstacle to the list of commands."""
    (tmp_path / "listed.py").write_text(
        "from __future__ import annotations\nimport typer\nfrom engine.cli.late import register\n"
        "def broken(value: Missing) -> None:\n    'Fail.'\n"
        "app = typer.Typer()\nregister(app, 'one', broken)\nregister(app, 'two', broken)\napp()\n"
    )
    command = [sys.executable, str(tmp_path / "listed.py")]
    listed = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert (listed.returncode, "Fail." in listed.stdout) == (0, True), listed.stderr
    called = subprocess.run([*command, "one"], cwd=ROOT, capture_output=True, text=True)
    assert called.returncode != 0
    assert "Missing" in called.stderr
