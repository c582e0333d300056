"""Child process that measures cases: the folder of one a line in, its row as JSON a line out."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

from engine.conformance.cases import find_cases
from engine.conformance.measures import measure


def main() -> None:
    """Serve until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints is no reply
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        (case,) = find_cases(Path(line.rstrip("\n")))
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            row = measure(case, Path(folder))
        row = row.model_copy(update={"seconds": round(time.perf_counter() - start, 2)})
        replies.write(row.model_dump_json() + "\n")


if __name__ == "__main__":
    main()
