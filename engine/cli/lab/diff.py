"""``ptqlab diff``: what distinguishes two quantised models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXIT_DIFFERENT = 1


def diff(
    first: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A quantised model, ours or foreign.")],
    second: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The model to compare it with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the differences as a JSON list.")] = False,
) -> None:
    """Print every difference between two quantised models: structure, names, integers; exit 1 if there are any."""
    import json
    from dataclasses import asdict

    from engine.ir import load_model
    from engine.quantize.diff import diff as differences

    found = differences(load_model(first), load_model(second))
    if as_json:
        rows = [{**asdict(difference), "aspect": difference.aspect.value} for difference in found]
        typer.echo(json.dumps(rows, indent=2))
    else:
        for difference in found:
            typer.echo(str(difference))
        typer.echo(f"{len(found)} differences" if found else "no differences")
    if found:
        raise typer.Exit(EXIT_DIFFERENT)
