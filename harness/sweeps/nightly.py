"""What a team runs every night: sweep, gate against the last good sweep, promote if green."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.errors import ConfigError
from harness.gates.baseline import read_baseline
from harness.gates.judgement import References
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep, sweep_folder
from harness.suites.suite import Suite
from harness.sweeps.baselines import alias_folder, find_baseline, resolve_baseline
from harness.tracking.aliases import ANCHOR, LAST_GOOD, NoAliasError, keep_copy
from harness.tracking.tracker import BASELINE_FILE
from harness.tracking.trackers import open_tracker

logger = logging.getLogger(__name__)

EXIT_NO_RECORD = 14
EXIT_BASELINE = 15


class BaselineError(ConfigError):
    """A baseline exists, or may exist, and cannot be read; without it the night would not be gated."""

    exit_code = EXIT_BASELINE


_EXIT_CODES = {
    Verdict.PASS: 0,
    Verdict.NO_GATE: 0,
    Verdict.IMPROVEMENT: 10,
    Verdict.MISSING: 11,
    Verdict.REGRESSION: 12,
    Verdict.ERROR: 13,
}


def night_references(name: str, suite: Suite, workdir: Path, tracking_uri: str | None) -> References:
    """What a night is compared with: ``@last-good``, else the accepted file of a bundled suite; and ``@anchor``.

    The first night of a suite has neither, and so has the first night of a new version of it: what an older version
    found is not comparable.

    Raises:
        BaselineError: an alias is set, or may be, and its baseline cannot be read.
    """
    last_good = _of_alias(LAST_GOOD, suite, workdir, tracking_uri)
    return References(baseline=last_good or find_baseline(name), anchor=_of_alias(ANCHOR, suite, workdir, tracking_uri))


def _of_alias(alias: str, suite: Suite, workdir: Path, tracking_uri: str | None) -> Path | None:
    """The baseline behind ``alias``; None where no sweep has it, or one of another version of the suite."""
    try:
        path = resolve_baseline(f"@{alias}", suite, workdir, tracking_uri)
        version = read_baseline(path).version
    except NoAliasError:
        return None
    except ConfigError as error:
        raise BaselineError(f"@{alias} of suite {suite.name} cannot be read, so nothing was swept: {error}") from error
    if version == suite.version:
        return path
    logger.warning(
        "@%s of %s has version %d instead of %d and cannot be compared", alias, suite.name, version, suite.version
    )
    return None


def promote_if_good(sweep: Sweep, workdir: Path, *, accept: bool = False, anchor: bool = False) -> bool:
    """Make ``sweep`` the last good one if all trials pass or ``accept`` is given. Returns whether it is.

    Its baseline is kept in the working directory too: a night on which the store is away is gated by it.

    A sweep with a trial that failed or was not computed, or without a whole record, is never promoted. A first night,
    which has no gate, is.

    Args:
        sweep: of the night.
        workdir: of the sweep.
        accept: promote it although it differs.
        anchor: make it the anchor too.
    """
    summary = sweep.summary
    place = summary.record if sweep.record_problem is None else None
    whole = not summary.left and sweep.verdict is not Verdict.ERROR
    if place is None or not place.run or not whole or not (accept or sweep.verdict.is_good):
        return False
    baseline = sweep_folder(workdir, summary.suite.name) / BASELINE_FILE
    for alias in (LAST_GOOD, ANCHOR) if anchor else (LAST_GOOD,):
        open_tracker(place.tracker, place.uri, workdir).set_alias(place.run, alias)
        keep_copy(baseline, alias_folder(workdir, summary.suite.name, alias))
    return True


def exit_code(sweep: Sweep, *, accept: bool = False) -> int:
    """Exit code by the worst verdict; if all pass, that of a missing record."""
    accepted = accept and sweep.verdict is not Verdict.ERROR
    code = 0 if accepted else _EXIT_CODES[sweep.verdict]
    return EXIT_NO_RECORD if code == 0 and sweep.record_problem is not None else code
