"""Command ``hb_model_info``: what a ``.bin`` file was made from and with."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.common import version_option
from engine.errors import PtqlabError

if TYPE_CHECKING:
    from engine.compile import CompiledModel

DELETED_NODES_FILE = Path("deleted_nodes_info.txt")

app = typer.Typer(name="hb_model_info", help=__doc__, add_completion=False, rich_markup_mode=None)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    app(args=None if arguments is None else list(arguments))


@app.command()
def hb_model_info(
    model_file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A .bin file, plain or packed.")],
    name: Annotated[str | None, typer.Option("-m", help="Name of one model of a packed file.")] = None,
    _: Annotated[bool, version_option("hb_model_info")] = False,
) -> None:
    """Show the parameters, versions, inputs and outputs of a .bin file."""
    from engine.compile.pack import open_models

    typer.echo("Start hb_model_info....")
    typer.echo(f"hb_model_info version {version('ptqlab')}")
    try:
        models = open_models(model_file, name)
    except PtqlabError as error:
        typer.echo(f"ERROR {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    for model in models:
        _show(model)
    deleted = [node for model in models for node in model.removed]
    if deleted:
        from engine.ir import write_atomically

        lines = [node.model_dump_json() for node in deleted]
        write_atomically(DELETED_NODES_FILE, ("\n".join(lines) + "\n").encode())


def _show(model: CompiledModel) -> None:
    typer.echo(f"******** {model.name} info *********")
    typer.echo("############# model deps info #############")
    typer.echo(f"ptqlab version : {version('ptqlab')}")
    typer.echo(f"BPU march : {model.march}")
    for group, parameters in model.parameters.items():
        typer.echo(f"############# {group} info #############")
        width = max(map(len, parameters), default=0)
        for key, text in parameters.items():
            typer.echo(f"{key:<{width}} : {text}")
    if "compiler_parameters" not in model.parameters:
        typer.echo("############# compiler_parameters info #############")
        for key, option in model.options.model_dump(mode="json").items():
            typer.echo(f"{key} : {option}")
    typer.echo("--------- input/output types -")
    for kind, values in (("input", model.model.graph.inputs), ("output", model.model.graph.outputs)):
        for value in values:
            shape = "x".join(str(dim) for dim in value.shape or ())
            dtype = "" if value.dtype is None else value.dtype.numpy().name
            typer.echo(f"model {kind} {value.name} : {shape} {dtype}")
    if model.removed:
        typer.echo("--------- deleted nodes -")
        for node in model.removed:
            typer.echo(f"deleted nodes: {node.name}")
