"""``ptqlab sync``: records of sweeps whose tracker was away."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli.console import say
from harness.cli.options import Workdir
from harness.files import workdir as workdirs


def sync(
    workdir: Workdir = workdirs.DEFAULT,
    tracking_uri: Annotated[
        str | None, typer.Option(help="Store of the tracker; default: the one that each sweep was started with.")
    ] = None,
) -> None:
    """Write the records of sweeps that ran while MLflow (or another tracker) could not be reached, and close those of
    killed sweeps.

    Records that are there already are not written again.
    """
    from harness.tracking.sync import pending, replay
    from harness.tracking.trackers import tracker_class
    from harness.tracking.unfinished import close_unfinished, forget

    folders = pending(workdir)
    for folder in folders:
        record = replay(folder, workdir, tracking_uri)
        forget(record.sweep, workdir)
        say(f"{record.suite.name}, sweep {record.sweep}: {len(record.trials)} trials written")
    closed = close_unfinished(workdir)
    for killed in closed:
        title = tracker_class(killed.tracker).title
        say(f"{killed.suite}, sweep {killed.sweep}: was killed; its run is now closed in {title}")
    if not folders and not closed:
        say("nothing to sync")
