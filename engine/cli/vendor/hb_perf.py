"""Command ``hb_perf``: pages and JSON files on how fast a ``.bin`` file will run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.common import command_app, version_option
from engine.cli.logs import logged
from engine.version import installed_version

RESULT_FOLDER = Path("hb_perf_result")
LOG = Path("hb_perf.log")

app = command_app("hb_perf", __doc__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    app(args=None if arguments is None else list(arguments))


@app.command()
def hb_perf(
    bin_file: Annotated[Path, typer.Argument(metavar="BIN_FILE", exists=True, dir_okay=False, help="A .bin file.")],
    model: Annotated[str | None, typer.Option("-m", help="Name of one model of a packed file.")] = None,
    _packed: Annotated[bool, typer.Option("-p", help="The file is packed; detected without this option.")] = False,
    _: Annotated[bool, version_option("hb_perf")] = False,
) -> None:
    """Analyse the performance of a .bin file; results go to hb_perf_result."""
    with logged("hb_perf", LOG) as logger:
        from engine.compile.pack import open_models
        from engine.perf.report import write_report

        logger.info("Start hb_perf....")
        logger.info("hb_perf version %s", installed_version())
        for compiled in open_models(bin_file, model):
            if not compiled.options.debug:
                logger.warning("bpu model don't have per-layer perf info.")
                logger.warning(
                    "if you need per-layer perf info please enable[compiler_parameters.debug:True] when use makertbin."
                )
            page = write_report(compiled, RESULT_FOLDER)
            logger.info("get perf info of %s: %s", compiled.name, page)
        logger.info("End hb_perf....")
