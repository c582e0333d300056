"""``ptqlab config``: the parameters of a conversion, as a template or as the reference page."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from engine.cli.console import say


class Dialect(StrEnum):
    """The commands whose configuration files differ."""

    HB_MAPPER = "hb_mapper"
    HB_COMPILE = "hb_compile"


def config(
    template: Annotated[
        str | None, typer.Option("--template", metavar="MARCH", help="Print a commented YAML file for this march.")
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print the reference of all parameters as Markdown.")
    ] = False,
    command: Annotated[
        Dialect, typer.Option("--command", help="Command whose dialect --reference describes.")
    ] = Dialect.HB_MAPPER,
) -> None:
    """Print a commented template of a conversion's YAML file, or the reference of its parameters."""
    from engine.chips import March
    from engine.cli.configuration import reference_page
    from engine.cli.configuration import template as template_text
    from engine.cli.lab.options import read_march

    if (template is None) != reference:
        raise typer.BadParameter("give either --template MARCH or --reference")
    text = reference_page(command.value) if template is None else template_text(March(read_march(template)))
    say(text, nl=False)
