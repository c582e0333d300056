"""``ptqlab config``: the parameters of a conversion, as a template or as the reference page."""

from __future__ import annotations

from typing import Annotated

import typer


def config(
    template: Annotated[
        str | None, typer.Option("--template", metavar="MARCH", help="Print a commented YAML file for this march.")
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print the reference of all parameters, Markdown.")
    ] = False,
) -> None:
    """Print a commented template of a conversion's YAML file, or the reference of its parameters."""
    from engine.cli.configuration import reference_page
    from engine.cli.configuration import template as template_text
    from engine.cli.lab.options import read_march
    from engine.terms import March

    if (template is None) != reference:
        raise typer.BadParameter("give either --template MARCH or --reference")
    typer.echo(reference_page() if template is None else template_text(March(read_march(template))), nl=False)
