"""Command ``hb_pack``: several ``.bin`` files as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.common import version_option
from engine.cli.logs import logged

LOG = Path("hb_pack.log")

app = typer.Typer(name="hb_pack", help=__doc__, add_completion=False, rich_markup_mode=None)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    app(args=None if arguments is None else list(arguments))


@app.command()
def hb_pack(
    bin_files: Annotated[list[Path], typer.Argument(metavar="BIN_FILE...", exists=True, dir_okay=False)],
    output_name: Annotated[Path, typer.Option("-o", "--output_name", help="The packed file.")],
    _: Annotated[bool, version_option("hb_pack")] = False,
) -> None:
    """Pack several .bin files into one."""
    with logged("pack", LOG) as logger:
        from engine.compile.pack import pack

        target = pack(bin_files, output_name)
        logger.info("%d models packed into %s", len(bin_files), target)
