"""Sweeps that were refused before any trial ran: ``refused.json`` in the folder of the suite's report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from engine.errors import PtqlabError
from harness.files.cache import load_json, save_json
from harness.files.strict_yaml import StrictModel
from harness.report.results import sweep_folder

FILE = "refused.json"


class Refused(StrictModel):
    """A sweep that was asked for and did not begin.

    Attributes:
        suite: name.
        at: local time, ISO 8601.
        message: why.
    """

    suite: str
    at: str
    message: str


@contextmanager
def refusal_kept(suite: str, workdir: Path) -> Iterator[None]:
    """Keep the error that ends what is done inside, for ``ptqlab why``; forget an older one where there is none.

    Where there is no working directory yet, there is no sweep to ask about, and none is made. Where the error cannot be
    written, it is raised all the same.
    """
    path = sweep_folder(workdir, suite) / FILE
    try:
        yield
    except PtqlabError as error:
        if workdir.is_dir():
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            with suppress(OSError):
                save_json(Refused(suite=suite, at=now, message=str(error)), path)
        raise
    path.unlink(missing_ok=True)


def refused(suite: str, workdir: Path) -> Refused | None:
    """The refusal of the last sweep of ``suite``; None where it ran."""
    try:
        return load_json(Refused, sweep_folder(workdir, suite) / FILE)
    except (OSError, ValueError):
        return None
