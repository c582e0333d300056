"""The page ``docs/datasets.md``: every adapter with its options, read off the classes that check them."""

from __future__ import annotations

import inspect
import sys

from engine.cli.configuration import Parameter, parameters
from harness.datasets.base import Dataset
from harness.datasets.registry import ADAPTERS

_HEAD = """# Adapters of data sets

A data set card names an `adapter` and gives its `options`. `ptqlab digest NAME --write` puts image format, splits and
digest into the card. Made by `python -m harness.datasets.reference > docs/datasets.md`.

An adapter of your own is `module:Class`: a class derived from `harness.datasets.Dataset`, in the current folder or
beside the cards; its source is part of the digest. Images without labels are scored against the float model:
`metric: {name: top1, labels: float}` in the model card.
"""


def reference_page() -> str:
    """The page, Markdown."""
    return "\n".join([_HEAD, *(_section(name, adapter) for name, adapter in ADAPTERS.items())])


def _section(name: str, adapter: type[Dataset]) -> str:
    rows = [_row(parameter) for parameter in parameters(adapter.Options)]
    text = inspect.cleandoc(adapter.__doc__ or "").partition("\n\nArgs:")[0].replace("``", "`")
    return "\n".join(
        [f"## `{name}`\n", text, "", "| option | meaning | values | default |", "|---|---|---|---|", *rows, ""]
    )


def _row(parameter: Parameter) -> str:
    default = "**required**" if parameter.default is None else f"`{parameter.default}`" if parameter.default else ""
    cells = (f"`{parameter.name}`", parameter.description, parameter.values, default)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.stdout.write(reference_page())
