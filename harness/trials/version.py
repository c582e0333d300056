"""What computed a result: version of ptqlab, digest of all sources and tools, commit of the models."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from engine.fingerprint import digest_of
from engine.version import installed_version
from harness.files import paths


@cache
def engine_version() -> str:
    """``<version>+<digest>``: the digest covers sources and tools of every stage of any trial."""
    from harness.backends.pipeline import fingerprints  # needs the engine

    return f"{installed_version()}+{digest_of(fingerprints())[:12]}"


@cache
def git_commit() -> str | None:
    """Commit of the repository that the models' cards are in, ``-dirty`` behind it where files differ.

    It is that of the first folder of ``PTQLAB_SUITES`` that is in one, of the bundled suites where there are no others;
    None without one. ptqlab itself is told by its version.
    """
    own = [folder for folder in paths.suites() if folder != paths.bundled("suites")]
    for folder in own or [paths.bundled("suites")]:
        commit = None if paths.is_installed(folder) else _commit_of(folder)
        if commit is not None:
            return commit
    return None


def _commit_of(folder: Path) -> str | None:
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip() or None
