"""The commands of ``ptqlab`` that need the engine alone, one module each; the harness adds them to its own.

Modules here import what they need inside the command, so that ``--help`` is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import typer

from engine.cli.lab.bisect import bisect
from engine.cli.lab.check import check
from engine.cli.lab.config import config
from engine.cli.lab.conformance import app as conformance
from engine.cli.lab.diff import diff
from engine.cli.lab.explain import explain
from engine.cli.lab.export import export
from engine.cli.lab.predict import predict
from engine.cli.lab.rules import app as rules

COMMANDS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {
        "check": check,
        "config": config,
        "predict": predict,
        "diff": diff,
        "bisect": bisect,
        "explain": explain,
        "export": export,
    }
)
"""Command functions (typer) by name."""

GROUPS: Mapping[str, typer.Typer] = MappingProxyType({"conformance": conformance, "rules": rules})
"""Groups of commands by name."""
