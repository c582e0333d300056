"""What a team runs every night: sweep, gate against the last good sweep, promote if green."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from engine.errors import ConfigError
from harness.gates.baseline import read_baseline
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep
from harness.suites.suite import Suite
from harness.sweep import find_baseline, resolve_baseline
from harness.tracking.mlflow_store import LAST_GOOD, promote

logger = logging.getLogger(__name__)

EXIT_NO_RECORD = 14

_EXIT_CODES = {
    Verdict.PASS: 0,
    Verdict.IMPROVEMENT: 10,
    Verdict.MISSING: 11,
    Verdict.REGRESSION: 12,
    Verdict.ERROR: 13,
}


def last_good(name: str, suite: Suite, workdir: Path, tracking_uri: str | None) -> Path | None:
    """The baseline of a night: ``@last-good``; else the accepted file of a bundled suite, if any.

    The first night of a suite has no last good one, and neither has the first night of a new version of it: what an
    older version found is not comparable.
    """
    with suppress(ConfigError):
        path = resolve_baseline(f"@{LAST_GOOD}", suite, workdir, tracking_uri)
        if read_baseline(path).version == suite.version:
            return path
        logger.warning("@%s of %s is of another version than %d: nothing to compare", LAST_GOOD, name, suite.version)
    return find_baseline(name, suite)


def promote_if_good(sweep: Sweep, *, accept: bool = False) -> bool:
    """Make ``sweep`` the last good one if all of it passes, or someone accepts how it differs; whether it is now.

    A sweep with a trial that failed or was not computed, or without a whole record, is never promoted.
    """
    summary = sweep.summary
    whole = sweep.record_problem is None and summary.run and not summary.left and sweep.verdict is not Verdict.ERROR
    if not whole or not (accept or sweep.verdict is Verdict.PASS):
        return False
    promote(summary.tracking_uri, summary.run)
    return True


def exit_code(sweep: Sweep, *, accept: bool = False) -> int:
    """By the worst verdict; that of a missing record where all pass."""
    accepted = accept and sweep.verdict is not Verdict.ERROR
    code = 0 if accepted else _EXIT_CODES[sweep.verdict]
    return EXIT_NO_RECORD if code == 0 and sweep.record_problem is not None else code
