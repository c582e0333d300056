"""Coverage is summed by room; what numba compiles is not counted, and nothing else is left out."""

from __future__ import annotations

import ast
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.coverage_by_room import Lines, by_room, room, table

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["slipcover"]
COMPILERS = {"entry", "compiled", "intrinsic"}
"""Decorators of ``engine.jit`` and ``engine.jit``: numba refuses functions that are instrumented."""


def test_a_room_is_the_folder_below_the_package() -> None:
    names = ("engine/terms.py", "engine/ops/lut.py", "engine/ops/core/base.py", "research/fit.py")
    assert [room(name) for name in names] == ["engine", "engine/ops", "engine/ops", "research"]


def test_lines_are_summed_and_printed() -> None:
    files = {
        "engine/ops/lut.py": {"executed_lines": [1, 2, 5], "missing_lines": [7]},
        "engine/ops/core/base.py": {"executed_lines": [1], "missing_lines": [2, 3, 4]},
        "harness/__init__.py": {"executed_lines": [], "missing_lines": []},
    }
    rooms = by_room(files)
    assert rooms == {"engine/ops": Lines(4, 8), "harness": Lines(0, 0)}
    assert [line.split("|")[1:-1] for line in table(rooms).splitlines()[2:]] == [
        [" engine/ops ", "      8 ", "      4 ", "   50.0 % "],
        [" harness    ", "      0 ", "      0 ", "  100.0 % "],
        [" all        ", "      8 ", "      4 ", "   50.0 % "],
    ]


def compiled(path: Path) -> bool:
    """Whether the module has a function that numba compiles."""
    functions = (n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.FunctionDef))
    return any(isinstance(d, ast.Name) and d.id in COMPILERS for f in functions for d in f.decorator_list)


@pytest.mark.nightly
def test_what_is_left_out_is_what_numba_compiles() -> None:
    paths = [path for package in SETTINGS["source"] for path in sorted((ROOT / package).rglob("*.py"))]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    left_out = {name for name in names if any(fnmatch(name, pattern) for pattern in SETTINGS["omit"])}
    assert {name for name in names if compiled(names[name])} <= left_out
    for pattern in SETTINGS["omit"]:
        assert any(compiled(names[name]) for name in left_out if fnmatch(name, pattern)), pattern


def test_ci_finds_pytest_in_the_command_that_it_runs_with_coverage() -> None:
    """.ci/run puts SlipCover in front of the one ``-m pytest`` of the README's test command."""
    command = (ROOT / "README.md").read_text("utf-8").partition("<!-- command: test -->")[2].split("```")[1]
    assert command.count("-m pytest") == 1
    assert "/-m pytest/-m slipcover -m pytest -p slipcover}" in (ROOT / ".ci" / "run").read_text("utf-8")
