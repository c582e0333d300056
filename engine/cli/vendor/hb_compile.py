"""Command ``hb_compile``: check and convert models in the newer dialect, all in one command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.common import command_app
from engine.cli.console import say
from engine.cli.lab.options import read_march
from engine.cli.logs import logged
from engine.cli.named import INPUT_SHAPE, join_pairs, read_shapes
from engine.cli.vendor.hb_mapper import AsOriginal, run_check, run_conversion
from engine.version import installed_version

LOG = Path("hb_compile.log")

app = command_app("hb_compile", __doc__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    app(args=join_pairs(sys.argv[1:] if arguments is None else arguments))


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"hb_compile, version {installed_version()}")
        raise typer.Exit


@app.command()
def hb_compile(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", exists=True, dir_okay=False, help="Parameters of a conversion, YAML."),
    ] = None,
    fast_perf: Annotated[
        bool, typer.Option("--fast-perf", help="Convert --model for the best performance, without data.")
    ] = False,
    march: Annotated[str | None, typer.Option("--march", help="BPU architecture, without --config.")] = None,
    model: Annotated[
        Path | None, typer.Option("--model", exists=True, dir_okay=False, help="Model to check, without --config.")
    ] = None,
    proto: Annotated[
        Path | None, typer.Option("--proto", exists=True, dir_okay=False, help="Prototxt of a Caffe model.")
    ] = None,
    input_shape: Annotated[
        list[str] | None,
        typer.Option(INPUT_SHAPE, "-i", metavar="NAME SHAPE", help="Shape of an input; repeatable."),
    ] = None,
    as_original: AsOriginal = False,
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Convert as --config says; without it, check --model or, with --fast-perf, convert it."""
    _check_options(config, fast_perf, march, model, proto, input_shape)
    with logged("hb_compile", LOG) as logger:
        from engine.config import load_config
        from engine.convert import Draft
        from engine.convert.original import HB_COMPILE

        logger.info("Start hb_compile....")
        logger.info("hb_compile version %s", installed_version())
        if config is not None:
            run_conversion(load_config(config, newer_dialect=True), logger, HB_COMPILE, as_original)
        elif model is not None and march is not None:
            wanted = read_march(march)
            if fast_perf:
                from engine.cli.vendor.fast_perf import write_config

                run_conversion(load_config(write_config(model, proto, wanted)), logger, HB_COMPILE, as_original)
            else:
                shapes = read_shapes(input_shape)
                draft = Draft(wanted, shapes, resize=True, prototxt=proto)
                run_check(model, draft, logger, HB_COMPILE, as_original)


def _check_options(
    config: Path | None,
    fast_perf: bool,
    march: str | None,
    model: Path | None,
    proto: Path | None,
    input_shape: list[str] | None,
) -> None:
    """--config stands alone; everything else needs --model and --march."""
    others: dict[str, object] = {"--march": march, "--model": model}
    if config is None:
        for name, value in others.items():
            if value is None:
                raise typer.BadParameter("is needed without --config", param_hint=name)
        if fast_perf and input_shape:
            raise typer.BadParameter("cannot be combined with --fast-perf", param_hint=INPUT_SHAPE)
        return
    for name, value in {**others, "--proto": proto, INPUT_SHAPE: input_shape, "--fast-perf": fast_perf or None}.items():
        if value is not None:
            raise typer.BadParameter("cannot be combined with --config", param_hint=name)
