"""Reports of earlier sweeps of a suite, kept where a later one of the same name differs: ``<workdir>/earlier``."""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

from harness.files.cache import load_json
from harness.gates.nights import NIGHTS_FILE
from harness.report.results import REPORT_FILE, SWEEP_FILE, SweepSummary, sweep_folder
from harness.sweeps.refusals import FILE as REFUSED_FILE
from harness.sweeps.resuming import FILE as RUNNING_FILE

FOLDER = "earlier"
"""As deep in the working directory as the folder of the last sweep, so that links of a report stay right."""

_OF_ALL = (NIGHTS_FILE, RUNNING_FILE, REFUSED_FILE, "baselines")
"""Files in a sweep's folder that do not belong to the last sweep alone."""


def keep_earlier(now: SweepSummary, workdir: Path) -> Path | None:
    """Copy the report that the sweep ``now`` is about to take the place of, where its trials or its verdict differ.

    Returns:
        The report's copy; None where there is no report, or one that says the same.
    """
    folder = sweep_folder(workdir, now.suite.name)
    try:
        before = load_json(SweepSummary, folder / SWEEP_FILE)
    except (OSError, ValueError):
        return None
    same = (before.trials, before.suite) == (now.trials, now.suite)
    if same and (before.left or before.judgement.verdict is now.judgement.verdict):
        return None
    started = datetime.fromisoformat(before.started_at or datetime.now().isoformat())
    target = workdir / FOLDER / f"{now.suite.name}-{started:%Y%m%d-%H%M%S}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            copy = Path(scratch) / target.name
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".*", *_OF_ALL))
            os.rename(copy, target)
    return target / REPORT_FILE
