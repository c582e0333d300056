"""What the board-side commands share: the option ``--version``, and switches whose value is written out."""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import version
from typing import Any

import typer


class Truth(StrEnum):
    """Value of a switch that is written out, as ``-s True``, ``--enable_dump 1``."""

    TRUE = "true"
    FALSE = "false"
    ONE = "1"
    ZERO = "0"

    def __bool__(self) -> bool:
        return self in (Truth.TRUE, Truth.ONE)


def version_option(command: str) -> Any:
    """The option ``--version`` of ``command``."""

    def show(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{command}, version {version('ptqlab')}")
            raise typer.Exit

    return typer.Option("--version", callback=show, is_eager=True, help="Show the version and exit.")
