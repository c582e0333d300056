"""``ptqlab gc``: remove what was not used lately from a working directory."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli.console import say
from harness.cli.options import Workdir
from harness.files import workdir as workdirs


def gc(
    workdir: Workdir = workdirs.DEFAULT,
    older_than: Annotated[float, typer.Option(min=0, help="Days since the last use.")] = 30.0,
    trials: Annotated[bool, typer.Option("--trials", help="Also remove trials that no report refers to.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing.")] = False,
) -> None:
    """Remove stage results and reports of earlier sweeps unused for a month, and leftovers of killed runs.

    Print how much space that frees.
    """
    from harness.cli.output import open_console
    from harness.report.tables import sizes_table
    from harness.sweeps.cleaning import removable, remove

    found = removable(workdir, older_than, trials=trials)
    kinds: dict[str, tuple[int, int]] = {}
    for each in found:
        count, size = kinds.get(each.kind, (0, 0))
        kinds[each.kind] = (count + 1, size + each.bytes)
    if kinds:
        open_console().print(sizes_table(kinds))
    if not dry_run:
        remove(found)
    verb = "would be removed" if dry_run else "removed"
    say(f"{len(found)} files and folders {verb}, {sum(each.bytes for each in found) / 1e6:.1f} MB")
