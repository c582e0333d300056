"""The commands of ``ptqlab`` that need the engine alone, one module each; the harness adds them to its own.

Modules here import what they need inside the command, so that ``--help`` is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from engine.cli.lab.diff import diff

COMMANDS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {
        "diff": diff,
    }
)
"""Command functions (typer) by name."""
