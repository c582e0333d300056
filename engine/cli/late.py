"""Commands whose parameters are read from their functions when one is called, not where they are only listed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

import typer
from typer.core import TyperCommand


def register(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Add the command ``name`` to ``app``: what ``app.command(name)(function)`` adds, but read on first use.

    A list of commands shows their names and docstrings. Reading the parameters of thirty functions takes 0.04 CPU
    seconds, more than a tenth of ``ptqlab --help``.
    """

    class Late(TyperCommand):
        @cached_property
        def whole(self) -> Any:
            """The command with its parameters."""
            alone = typer.Typer(
                add_completion=False,
                pretty_exceptions_enable=app.pretty_exceptions_enable,
                rich_markup_mode=app.rich_markup_mode,
            )
            alone.command(name)(function)
            return typer.main.get_command(alone)

        def make_context(self, *arguments: Any, **options: Any) -> Any:
            """A context of the whole command, which parses the arguments and is invoked."""
            return self.whole.make_context(*arguments, **options)

        def get_params(self, ctx: Any) -> Any:
            """The parameters, for pages and completion."""
            return self.whole.get_params(ctx)

    app.command(name, cls=Late, help=inspect.getdoc(function))(_unread)


def _unread() -> None:
    """Stands for a function whose parameters are not read yet."""
