"""Tests of what some CPUs alone do: one reason to skip them, which `.ci/skips/always.txt` allows."""

from __future__ import annotations

import pytest


def needs_cpu(has: bool, reason: str) -> pytest.MarkDecorator:
    """Skip a test where this CPU's instructions give nothing to test; ``reason`` says what does."""
    return pytest.mark.skipif(not has, reason=f"this CPU's instructions: {reason}")
