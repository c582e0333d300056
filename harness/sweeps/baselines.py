"""The accepted baseline of a suite: bundled with it, a file, or what an alias of the record stands for."""

from __future__ import annotations

from pathlib import Path

from harness.gates.baseline import baseline_path
from harness.report.results import sweep_folder
from harness.suites.suite import Suite, suite_path
from harness.tracking.aliases import fetch_baseline
from harness.tracking.trackers import chosen_tracker, open_tracker


def find_baseline(name: str) -> Path | None:
    """The accepted baseline of the suite ``name``, a name or a file; None where there is none."""
    path = baseline_path(suite_path(name))
    return path if path.is_file() else None


def resolve_baseline(text: str, suite: Suite, workdir: Path, tracking_uri: str | None) -> Path:
    """The file behind ``--baseline``: a path, or ``@alias`` for what the sweep with this alias left in its record.

    Raises:
        ConfigError: there is no such alias, or its store is away.
    """
    if not text.startswith("@"):
        return Path(text)
    alias = text.removeprefix("@")
    tracker = open_tracker(chosen_tracker(suite.tracker), tracking_uri, workdir)
    return fetch_baseline(tracker, suite.name, alias, alias_folder(workdir, suite.name, alias))


def alias_folder(workdir: Path, suite: str, alias: str) -> Path:
    """Where the copy of the baseline that ``alias`` stands for is kept."""
    return sweep_folder(workdir, suite) / "baselines" / alias
