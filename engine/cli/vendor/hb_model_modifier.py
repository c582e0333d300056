"""Command ``hb_model_modifier``: remove nodes from the ends of a ``.bin`` file."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from engine.cli.common import command_app, version_option
from engine.cli.logs import logged

if TYPE_CHECKING:
    from engine.compile.removal import Named, OfTypes

LOG = Path("hb_model_modifier.log")
GIVEN = "engine.cli.given"
"""Key of the context's ``meta``: names of the parameters as they were given."""

app = command_app("hb_model_modifier", __doc__)


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


class InOrder(TyperCommand):
    """A command that knows in which order its options were given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse ``args``, and leave the names of the parameters, one per occurrence, in ``ctx.meta``."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[GIVEN] = [str(parameter.name) for parameter in order]
        return super().parse_args(ctx, args)


@app.command(cls=InOrder)
def hb_model_modifier(
    context: typer.Context,
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
    """Remove nodes at inputs and outputs, in the order of the options; without options, list the removable nodes."""
    source = file or model_file
    if source is None or None not in (file, model_file):
        raise typer.BadParameter("give one .bin file, as MODEL_FILE or --model_file")
    with logged("modifier", LOG) as logger:
        from engine.compile.pack import open_single
        from engine.compile.removal import removable, remove_nodes
        from engine.errors import hint
        from engine.ir import refuse_overwriting

        refuse_overwriting([output], [source])
        compiled = open_single(source)
        if not remove and not all_of:
            logger.info("Nodes that can be deleted: %s", list(removable(compiled)))
            return
        removal = remove_nodes(compiled, _steps(context.meta[GIVEN], remove or (), all_of or ()))
        for node in removal.removed:
            logger.info("Node '%s' found, its OP type is '%s'", node.name, node.type)
            if node.scales:
                logger.info("scale: %s", list(node.scales))
            logger.info("Node '%s' is removed", node.name)
        for name in removal.skipped:
            near = hint(name, removable(compiled))
            logger.warning(
                "Node '%s' is not adjacent to input or output. It can not be removed! Skipped!%s", name, near
            )
        for kind in removal.absent:
            logger.warning("No %s node is adjacent to input or output. Nothing of this type is removed!", kind)
        if not removal.removed:
            logger.warning("No node was removed; the saved file computes the same as %s", source)
        target = output or source.with_name(f"{source.stem}_modified.bin")
        removal.model.save(target)
        logger.info("modified model saved as %s", target)


def _steps(given: Sequence[str], names: Sequence[str], types: Sequence[Removable]) -> list[Named | OfTypes]:
    """What to remove, in the order of the options; types that were given one after the other go together."""
    from engine.compile.removal import Named, OfTypes

    left = {"remove": iter(names), "all_of": iter(types)}
    steps: list[Named | OfTypes] = []
    for option, several in groupby(given):
        values = [next(left[option]) for _ in several] if option in left else []
        if option == "all_of":
            steps.append(OfTypes(frozenset(map(str, values))))
        else:
            steps += [Named(str(name)) for name in values]
    return steps
