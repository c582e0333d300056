"""Names for sweeps of a suite, ``@last-good`` and ``@anchor``, and the baselines that these sweeps left."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.errors import ConfigError
from engine.ir import write_atomically
from harness.tracking.tracker import BASELINE_FILE, Tracker

logger = logging.getLogger(__name__)

LAST_GOOD = "last-good"
"""Alias of the last sweep of a suite that passed."""

ANCHOR = "anchor"
"""Alias of the sweep whose figures no later one may fall behind, however small the steps; a person sets it."""

_NO_ALIAS = "no_alias"
"""Empty file beside the copy of a baseline: the store had no such alias when it was last asked."""


class NoAliasError(ConfigError):
    """The store answers, and no sweep of the suite has the alias."""


def keep_copy(baseline: Path, folder: Path) -> None:
    """Keep the baseline of the sweep that was given an alias as what ``folder`` has where the store is away."""
    write_atomically(folder / BASELINE_FILE, baseline.read_bytes())
    (folder / _NO_ALIAS).unlink(missing_ok=True)


def fetch_baseline(tracker: Tracker, suite: str, alias: str, folder: Path) -> Path:
    """The baseline that the sweep with this alias left, as a file in ``folder``, which serves where the store is away.

    Raises:
        NoAliasError: the store answers, and no sweep has the alias.
        ConfigError: the store is away, or the file that the alias stands for is gone.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = tracker.baseline(suite, alias, folder)
        if found is None:
            write_atomically(folder / _NO_ALIAS, b"")
            (folder / BASELINE_FILE).unlink(missing_ok=True)
            raise NoAliasError(
                f"baseline @{alias}: no sweep of suite {suite} has this alias in {tracker.uri}; "
                f"ptqlab nightly {suite} gives @{LAST_GOOD} to a sweep that passes"
            )
        (folder / _NO_ALIAS).unlink(missing_ok=True)
        return found
    except tracker.failures() as error:
        if (folder / BASELINE_FILE).is_file():
            logger.warning("baseline @%s: %s cannot be reached; the copy from the last run is used", alias, tracker.uri)
            return folder / BASELINE_FILE
        if (folder / _NO_ALIAS).is_file():
            logger.warning(
                "baseline @%s: %s cannot be reached; in the last run no sweep had this alias", alias, tracker.uri
            )
            raise NoAliasError(
                f"baseline @{alias}: {tracker.uri} cannot be reached, and had no such alias in the last run"
            ) from error
        raise ConfigError(f"baseline @{alias}: {tracker.uri}: {' '.join(str(error).split())[:300]}") from error
