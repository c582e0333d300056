"""Command ``hb_pack``: several ``.bin`` files as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.common import command_app, version_option
from engine.cli.logs import logged

LOG = Path("hb_pack.log")

app = command_app("hb_pack", __doc__)


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
        from engine.ir import refuse_overwriting

        refuse_overwriting([output_name], bin_files)
        target = pack(bin_files, output_name)
        logger.info("%d models packed into %s", len(bin_files), target)
