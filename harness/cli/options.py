"""What several commands of ``ptqlab`` take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.files import workdir as workdirs

Workdir = Annotated[
    Path, typer.Option("--workdir", envvar=workdirs.VARIABLE, help="Folder of results, cache and records.")
]
"""Where a command finds and leaves its files."""

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="PTQLAB_STORE",
        help="Folder or fsspec URL (s3://bucket/x) shared with workers that cannot see --workdir.",
    ),
]
"""Where workers without a common file system leave what they compute."""

ExplainBudget = Annotated[
    float, typer.Option(min=0, help="Seconds to spend on bisecting the first trial that got worse; 0: do not bisect.")
]
"""How long a command may look for the first stage that is wrong."""

TrackerName = Annotated[
    str | None,
    typer.Option(
        "--tracker",
        help="Where the sweep is recorded: mlflow, jsonl (files of JSON lines) or a registered name; default: the "
        "suite's, else mlflow, else jsonl where mlflow is not installed.",
    ),
]
"""The tracker of a sweep, in place of the suite's."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""Whether a command prints its table as JSON."""
