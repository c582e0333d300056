"""Planted faults lie where they are said to, and do nothing until they are turned on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mutants import TABLE, plant

SOURCE = '''"""Says what it is."""

from __future__ import annotations

LIMIT = 3


def within(value: int = 1 + 1) -> bool:
    """Whether it is."""
    return value < LIMIT and not (value == -1 or
                                  min(value, 7) > 5)
'''
CODE = "from engine.limits import within; print([within(value) for value in range(-2, 10)])"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for package in ("engine", "harness"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "engine" / "limits.py").write_text(SOURCE)
    return tmp_path


def values(checkout: Path, number: int = -1) -> str:
    environment = {"PYTHONPATH": str(checkout), "MUTANT": str(number)}
    words = [sys.executable, "-c", CODE]
    run = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    return run.stdout


def test_each_changes_one_expression_when_it_is_on(checkout: Path) -> None:
    before = values(checkout)
    mutants = plant(checkout, 100, 0)
    assert json.loads((checkout / TABLE).read_text())[0]["file"] == "engine/limits.py"
    assert len(mutants) > 1
    assert all(mutant.line > 8 for mutant in mutants), "not what runs on import"
    assert values(checkout) == before
    assert any(values(checkout, mutant.number) != before for mutant in mutants)


def test_they_are_the_same_for_a_seed_and_no_more_than_asked_for(checkout: Path, tmp_path: Path) -> None:
    (first,) = plant(checkout, 1, 7)
    (checkout / "engine" / "limits.py").write_text(SOURCE)
    assert plant(checkout, 1, 7) == [first]
