"""``ptqlab diff``: what distinguishes two quantised models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import say

if TYPE_CHECKING:
    from engine.quantize.diff import Difference

EXIT_DIFFERENT = 1
_MOST_NAMED = 3


def diff(
    first: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="A quantised model, made by ptqlab or by the original toolchain."
        ),
    ],
    second: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The model to compare it with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the differences as a JSON list.")] = False,
) -> None:
    """Print the differences of two quantised models, counted and listed; exit 1 if there are any."""
    import json
    from dataclasses import asdict

    from engine.ir import load_model
    from engine.quantize.diff import diff as differences

    found = differences(load_model(first), load_model(second))
    if as_json:
        rows = [{**asdict(difference), "aspect": difference.aspect.value} for difference in found]
        say(json.dumps(rows, indent=2))
    else:
        for line in _summary(found):
            say(line)
        for difference in found:
            say(str(difference))
    if found:
        raise typer.Exit(EXIT_DIFFERENT)


def _summary(found: Sequence[Difference]) -> Iterator[str]:
    """How many differences there are, of which kind, in how many nodes; the nodes with most of them."""
    if not found:
        yield "no differences"
        return
    kinds = Counter(difference.aspect.value for difference in found)
    nodes = Counter(difference.where for difference in found)
    yield (
        f"{len(found)} differences in {len(nodes)} places: "
        + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    )
    integers = [difference for difference in found if difference.aspect.value == "integers"]
    if integers:
        changed, total = (sum(getattr(each, name) for each in integers) for name in ("elements", "total"))
        yield f"integers: {changed} of {total} in the constants that differ"
    most = ", ".join(f"{name or '(graph)'} ({count})" for name, count in nodes.most_common(_MOST_NAMED))
    yield f"first: {found[0].where or '(graph)'}; most: {most}"
    yield ""
