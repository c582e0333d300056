"""Kernels that came with the wheel: loaded where they suit, and never those of other sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.native import prebuilt
from engine.native.registers import LEVELS
from engine.native.sources import sources_digest


def test_the_name_of_a_file_tells_its_level_and_its_sources() -> None:
    names = [name for level in LEVELS for name in prebuilt.object_names(level)]
    assert len(set(names)) == prebuilt.PARTS * len(LEVELS)
    assert all(f"-{sources_digest()[:16]}." in name and name.endswith(".o") for name in names)


def test_without_an_object_of_these_sources_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path)
    for level in LEVELS:
        (tmp_path / f"{level.name}-0123456789abcdef.o").write_bytes(b"of other sources")
    assert prebuilt._objects.__wrapped__() is None


def test_a_part_of_the_objects_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path)
    for level in LEVELS:
        (tmp_path / prebuilt.object_names(level)[0]).write_bytes(b"never read")
    assert prebuilt._objects.__wrapped__() is None


def test_other_systems_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prebuilt.sys, "platform", "win32")
    assert not prebuilt.supported()
    assert prebuilt._objects.__wrapped__() is None


LINKED_AT_ONCE = """
import sys, threading
from engine.native import prebuilt
sys.setswitchinterval(1e-6)
start, found = threading.Barrier(8), []
def link():
    start.wait()
    found.append(tuple(sorted((prebuilt.addresses() or {}).items())))
threads = [threading.Thread(target=link) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), len(set(found)))
"""


def test_threads_that_start_together_get_the_same_kernels() -> None:
    """Else the code of a linker that is not kept would be freed while a thread runs it."""
    command = [sys.executable, "-c", LINKED_AT_ONCE]
    for _ in range(3):
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
        assert finished.stdout.split() == ["8", "1"]
