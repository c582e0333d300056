"""Child process that measures cases: a task as JSON a line in, the row of its case as JSON a line out."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

from pydantic import BaseModel

from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.conversion import attempt
from engine.conformance.measures import Row, measure, unread
from engine.simulate.session import Mode


class CaseTask(BaseModel):
    """One case to measure.

    Attributes:
        folder: of the case.
        modes: simulators that run the original's quantised model.
    """

    folder: str
    modes: tuple[Mode, ...]


def main() -> None:
    """Serve until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints is no reply
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        task = CaseTask.model_validate_json(line)
        (case,) = find_cases(Path(task.folder))
        start = time.perf_counter()
        row = _measured(case, task.modes)
        row = row.model_copy(update={"seconds": round(time.perf_counter() - start, 2)})
        replies.write(row.model_dump_json() + "\n")


def _measured(case: RecordedCase, modes: tuple[Mode, ...]) -> Row:
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        done = attempt(lambda: measure(case, Path(folder), modes))
    return unread(case, done.message) if done.value is None else done.value


if __name__ == "__main__":
    main()
