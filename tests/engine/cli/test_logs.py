"""The log of a command, where it cannot be kept or shown as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMMAND = r"""
import os, sys
from pathlib import Path
from engine.cli.logs import logged

with logged("test", Path(sys.argv[1])) as logger:
    logger.info("%s: \N{GREEK SMALL LETTER MU}", os.fsdecode(b"\xff.bin"))
"""


def run(log: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, str(log)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_characters_that_cannot_be_written_are_escaped(tmp_path: Path) -> None:
    finished = run(tmp_path / "x.log", PYTHONIOENCODING="ascii")
    assert finished.stdout.endswith(r"\udcff.bin: \u03bc" + "\n")
    assert finished.stderr == ""
    assert (tmp_path / "x.log").read_text("utf-8").endswith("\\udcff.bin: \N{GREEK SMALL LETTER MU}\n")


def test_a_log_that_cannot_be_written_costs_a_line(tmp_path: Path) -> None:
    finished = run(tmp_path)
    assert ".bin" in finished.stdout
    assert finished.stderr == f"{tmp_path}: cannot be written (Is a directory); the log goes to the terminal alone\n"
