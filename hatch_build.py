"""Compiles the simulator's kernels as a wheel, or an editable installation, is built.

``PTQLAB_KERNELS`` says for which CPUs: ``host`` (the default, about 45 CPU seconds), ``all`` for a wheel that other
machines install, or ``none``. Where it fails the wheel has none, and kernels are compiled on first use.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):
    """Writes ``engine/native/objects``, which the wheel takes along."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before files are collected."""
        script = Path(self.root, "engine", "simulate", "kernels", "alone.py")
        command = [sys.executable, "-P", str(script), os.environ.get("PTQLAB_KERNELS", "host")]
        finished = subprocess.run(command, capture_output=True, text=True)
        if finished.returncode:
            reason = (finished.stderr.strip().splitlines() or ["no message"])[-1]
            self.app.display_warning(f"kernels are compiled on first use: {reason}")
