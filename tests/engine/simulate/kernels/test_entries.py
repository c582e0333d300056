"""Kernels by name: one per kind of instruction, compiled when a program needs it, kept on disk under its sources."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.native.registers import LEVELS
from engine.native.sources import sources_digest
from engine.simulate.kernels.entries import MAKERS, compiled_entry
from engine.simulate.kernels.instructions import ENTRIES, InstructionKind

ROOT = Path(__file__).resolve().parents[4]
USE = """
import numpy as np
from engine.native import prebuilt
prebuilt.FOLDER = prebuilt.FOLDER / "none"
from engine.simulate.lowering.tables import look_up
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, ramp, run
program = Assembler()
feeds = fed(program, ramp(10))
print(run(program, feeds, look_up(feeds[0][0], ramp(1, 256), program)).sum())
"""


def test_code_on_disk_is_that_of_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba's key has the CPU, not which of its registers the system granted this process."""
    found: list[object] = []

    def keep(*_signature: object, **_options: object) -> Callable[[Any], Any]:
        return lambda function: found.append(function.__closure__[0].cell_contents)

    monkeypatch.setattr("engine.simulate.kernels.entries.numba.cfunc", keep)
    for level in LEVELS[:2]:
        monkeypatch.setattr("engine.simulate.kernels.entries.LEVEL", level)
        compiled_entry.__wrapped__("pad")
    assert found == [f"{sources_digest()} {level.name}" for level in LEVELS[:2]]


def test_every_kind_has_a_kernel() -> None:
    assert set(MAKERS) == {kind.name.lower() for kind in InstructionKind} | set(ENTRIES)


@pytest.mark.parametrize("name", MAKERS)
def test_what_a_kernel_holds_is_the_digest_of_the_sources_alone(name: str) -> None:
    """That makes it part of the key of code that is kept on disk; compiled functions there would change it anew."""
    cells = MAKERS[name]("some digest").__closure__ or ()
    assert [cell.cell_contents for cell in cells] == ["some digest"]


def test_an_entry_is_compiled_once() -> None:
    assert compiled_entry("pad").address == compiled_entry("pad").address != 0


@pytest.mark.nightly
def test_only_the_kernels_of_a_program_are_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for _ in range(2):  # the second process finds the code of the first
        subprocess.run([sys.executable, "-c", USE], cwd=ROOT, env=environment, check=True, capture_output=True)
    kept = sorted(path.name.split("-")[0] for path in tmp_path.rglob("*.nbc"))
    assert kept == ["entries._leader.locals.leader", "entries._table.locals.table"]
