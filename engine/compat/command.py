"""Install look-alikes of the original toolchain's Python packages, for scripts that import them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[
    Path | None,
    typer.Option("--target", file_okay=False, help="Folder; default: the site-packages of this interpreter."),
]


@app.command()
def install(target: Folder = None) -> None:
    """Write horizon_tc_ui, horizon_nn and hmct, so that scripts, notebooks and pytest import them."""
    from engine.compat.installed import packages, write_packages

    files = write_packages(target)
    typer.echo(f"{', '.join(packages())}: {len(files)} files written; ptqlab compat uninstall removes them")


@app.command()
def uninstall(target: Folder = None) -> None:
    """Remove the packages that install wrote; other packages stay."""
    from engine.compat.installed import remove_packages

    found = remove_packages(target)
    typer.echo(f"removed: {', '.join(map(str, found))}" if found else "ptqlab has installed nothing there")
