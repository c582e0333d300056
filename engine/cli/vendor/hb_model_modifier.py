"""Command ``hb_model_modifier``: remove nodes from the ends of a ``.bin`` file."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.common import version_option
from engine.cli.logs import logged

LOG = Path("hb_model_modifier.log")

app = typer.Typer(name="hb_model_modifier", help=__doc__, add_completion=False, rich_markup_mode=None)


class Removable(StrEnum):
    """Types of nodes that may be removed."""

    QUANTIZE = "Quantize"
    TRANSPOSE = "Transpose"
    DEQUANTIZE = "Dequantize"
    CAST = "Cast"
    RESHAPE = "Reshape"
    SOFTMAX = "Softmax"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    app(args=None if arguments is None else list(arguments))


@app.command()
def hb_model_modifier(
    file: Annotated[Path | None, typer.Argument(metavar="{MODEL_FILE}", exists=True, dir_okay=False)] = None,
    model_file: Annotated[
        Path | None,
        typer.Option("--model_file", exists=True, dir_okay=False, help="The .bin file, not packed, as an option."),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option("-r", help="Name of a node to remove; repeatable.")] = None,
    all_of: Annotated[
        list[Removable] | None, typer.Option("-a", "--all", help="Remove all nodes of a type; repeatable.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", help="The modified file; default: <name>_modified.bin.")] = None,
    _: Annotated[bool, version_option("hb_model_modifier")] = False,
) -> None:
    """Remove nodes at inputs and outputs; without options list those that can be."""
    source = file or model_file
    if source is None or None not in (file, model_file):
        raise typer.BadParameter("give one .bin file, as MODEL_FILE or --model_file")
    with logged("modifier", LOG) as logger:
        from engine.compile.pack import open_single
        from engine.compile.removal import removable, remove_nodes

        compiled = open_single(source)
        if not remove and not all_of:
            logger.info("Nodes that can be deleted: %s", list(removable(compiled)))
            return
        removal = remove_nodes(compiled, remove or (), [kind.value for kind in all_of or ()])
        for node in removal.removed:
            logger.info("Node '%s' found, its OP type is '%s'", node.name, node.type)
            if node.scales:
                logger.info("scale: %s", list(node.scales))
            logger.info("Node '%s' is removed", node.name)
        for name in removal.skipped:
            logger.warning("Node '%s' is not adjacent to input or output. It can not be removed! Skipped!", name)
        target = output or source.with_name(f"{source.stem}_modified.bin")
        removal.model.save(target)
        logger.info("modified model saved as %s", target)
