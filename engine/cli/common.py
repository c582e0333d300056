"""What the original's commands share: ``-h``, ``--version``, and switches whose value is written out."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import typer

from engine.cli.console import say
from engine.version import installed_version


class Truth(StrEnum):
    """Value of a switch that is written out, as ``-s True``, ``--enable_dump 1``."""

    TRUE = "true"
    FALSE = "false"
    ONE = "1"
    ZERO = "0"

    def __bool__(self) -> bool:
        return self in (Truth.TRUE, Truth.ONE)


def command_app(name: str, text: str | None, *, no_args_is_help: bool = False) -> typer.Typer:
    """An application under a name of the original's: plain help, also as ``-h``; no completion."""
    return typer.Typer(
        name=name,
        help=text,
        no_args_is_help=no_args_is_help,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def version_option(command: str) -> Any:
    """The option ``--version`` of ``command``."""

    def show(wanted: bool) -> None:
        if wanted:
            say(f"{command}, version {installed_version()}")
            raise typer.Exit

    return typer.Option("--version", callback=show, is_eager=True, help="Show the version and exit.")
