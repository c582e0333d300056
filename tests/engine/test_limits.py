"""Bounds on strangers' files: one place, changed by the environment, all of them on the security page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.limits import LIMITS, PREFIX, beyond, limit

ROOT = Path(__file__).resolve().parents[2]


def test_a_bound_is_its_default() -> None:
    assert {name: limit(name) for name in LIMITS} == {name: bound.default for name, bound in LIMITS.items()}


def test_the_environment_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}NODES", "7")
    assert limit("NODES") == 7
    assert beyond("NODES") == (
        "more than 7 nodes of a model, its functions written out; PTQLAB_MAX_NODES in the environment changes that"
    )
    monkeypatch.setenv(f"{PREFIX}NODES", "")
    assert limit("NODES") == LIMITS["NODES"].default


@pytest.mark.parametrize("text", ["0", "-1", "1e6", "many", "²", "1.5"])
def test_anything_but_a_positive_number_is_an_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(f"{PREFIX}NODES", text)
    with pytest.raises(ConfigError, match=f"PTQLAB_MAX_NODES: '{text}' is no positive whole number"):
        limit("NODES")


def test_the_security_page_lists_all_bounds() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `PTQLAB_MAX_(\w+)` \| ([\d,]+) \|", text, re.MULTILINE))
    assert {name: int(default.replace(",", "")) for name, default in rows.items()} == {
        name: bound.default for name, bound in LIMITS.items()
    }
