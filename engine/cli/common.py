"""What the original's commands share: ``-h``, ``--version``, and switches whose value is written out."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import typer

from engine.cli.console import say
from engine.cli.unverified import note_of
from engine.version import installed_version


class Truth(StrEnum):
    """Value of a switch that is written out, as ``-s True``, ``--enable_dump 1``."""

    TRUE = "true"
    FALSE = "false"
    ONE = "1"
    ZERO = "0"

    def __bool__(self) -> bool:
        return self in (Truth.TRUE, Truth.ONE)


class _NotedApp(typer.Typer):
    """An application whose help says what of a command nobody has verified (:mod:`engine.cli.unverified`)."""

    def command(self, name: str | None = None, **options: Any) -> Any:
        """See :meth:`typer.Typer.command`."""
        of_app = str(self.info.name)

        def register(function: Any) -> Any:
            note = note_of(of_app, f"{of_app} {name or function.__name__}")
            return super(_NotedApp, self).command(name, epilog=note, **options)(function)

        return register


def command_app(name: str, text: str | None, *, no_args_is_help: bool = False) -> typer.Typer:
    """An application under a name of the original's: plain help, also as ``-h``; no completion."""
    return _NotedApp(
        name=name,
        help=text,
        epilog=note_of(name),
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
