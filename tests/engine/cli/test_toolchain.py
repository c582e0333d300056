"""How commands show what the toolchain is at."""

from __future__ import annotations

import io

from engine.cli.terminal import Terminal
from engine.cli.toolchain import Activities


def shown(*, lines: bool, terminal: bool = False) -> str:
    stream = io.StringIO()
    found = Activities(Terminal(file=stream, force_terminal=terminal, width=80), lines=lines)
    for text in ("optimises", "compiles", "compiles, 3 %", "compiles, 7 %"):
        found.tell("toolchain", text)
    found.done("toolchain")
    return stream.getvalue()


def test_a_log_gets_a_line_per_stage_and_no_blank_lines() -> None:
    assert shown(lines=True) == "toolchain: optimises\ntoolchain: compiles\n"
    assert shown(lines=False) == ""


def test_a_terminal_gets_one_line_that_changes() -> None:
    stream = io.StringIO()
    found = Activities(Terminal(file=stream, force_terminal=True, width=80), lines=True)
    assert found.status is not None
    found.tell("a", "compiles, 3 %")
    found.tell("b", "optimises")
    assert found.status.status == "a: compiles, 3 %; b: optimises"
    assert stream.getvalue() == ""
