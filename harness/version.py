"""What computed a result: version of ptqlab, digest of all sources and tools, commit of the checkout."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from engine.fingerprint import digest_of

_HARNESS = Path(__file__).resolve().parent


@cache
def engine_version() -> str:
    """``<version>+<digest>``: the digest covers sources and tools of every stage of any trial."""
    from harness.backends.pipeline import fingerprints  # needs the engine

    return f"{metadata.version('ptqlab')}+{digest_of(fingerprints())[:12]}"


@cache
def git_commit() -> str | None:
    """Commit of the checkout that ptqlab runs from, ``-dirty`` behind it where files differ; None without one."""
    command = ["git", "-C", str(_HARNESS), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip() or None
