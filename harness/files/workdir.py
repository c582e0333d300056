"""Where results, cache and the local MLflow store are unless a command is told otherwise."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

VARIABLE = "PTQLAB_WORKDIR"
"""Environment variable that names the working directory of sweeps."""

DEFAULT = Path("ptqlab_results")

SCRATCH_VARIABLE = "PTQLAB_SCRATCH"
"""Environment variable that names the folder in which a worker keeps its part of a sweep with ``--store``."""


def default_workdir() -> Path:
    """What ``PTQLAB_WORKDIR`` says, else ``ptqlab_results`` below the current directory."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)


def refuse_unwritable(workdir: Path) -> None:
    """Refuse to start a command that could not keep its results.

    Raises:
        OutputError: nothing can be written to ``workdir``; the message says why.
    """
    from engine.ir import write_atomically  # takes time to import

    probe = workdir / "sweeps" / f".writable.{os.getpid()}"
    write_atomically(probe, b"")
    probe.unlink()


def scratch_workdir(store_url: str) -> Path:
    """Folder on this machine for tasks of sweeps that share ``store_url``: each store has one of its own."""
    base = os.environ.get(SCRATCH_VARIABLE) or Path(tempfile.gettempdir()) / f"ptqlab-{os.getuid()}"
    return Path(base) / hashlib.sha256(store_url.encode()).hexdigest()[:12]
