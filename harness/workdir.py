"""Where results, cache and the local MLflow store are unless a command is told otherwise."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "PTQLAB_WORKDIR"
"""Environment variable that names the working directory of sweeps."""

DEFAULT = Path("ptqlab_results")


def default_workdir() -> Path:
    """What ``PTQLAB_WORKDIR`` says, else ``ptqlab_results`` below the current directory."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)
