"""What computed a result: version of ptqlab, digest of its sources, commit of the checkout."""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

_HARNESS = Path(__file__).resolve().parent
_ENGINE = _HARNESS.parent / "engine"

_EVALUATING = (
    "backends",
    "execution/pipeline.py",
    "trials/comparison.py",
    "trials/scoring.py",
    "trials/stage_options.py",
    "datasets",
    "metrics",
)
"""Parts of the harness that determine a trial's figures."""


@cache
def engine_version() -> str:
    """``<version>+<digest>``: the digest covers every source and data file that determines a trial's figures.

    Results that an older state of the code computed are therefore never taken for current ones.
    """
    state = hashlib.sha256()
    parts = [_ENGINE, *(_HARNESS / name for name in _EVALUATING)]
    for part in parts:
        for path in sorted(_sources(part)):
            state.update(f"{path.relative_to(_HARNESS.parent)}\n".encode())
            state.update(path.read_bytes())
    return f"{metadata.version('ptqlab')}+{state.hexdigest()[:12]}"


@cache
def git_commit() -> str | None:
    """Commit of the checkout that ptqlab runs from, ``-dirty`` behind it where files differ; None without one."""
    command = ["git", "-C", str(_HARNESS), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip() or None


def _sources(part: Path) -> list[Path]:
    if part.is_file():
        return [part]
    return [path for path in part.rglob("*") if path.suffix in (".py", ".yaml")]
