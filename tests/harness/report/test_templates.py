"""Templates of pages."""

from __future__ import annotations

from harness.report.templates import template


def test_what_is_put_in_is_escaped() -> None:
    assert template("sweep.html.j2") is template("sweep.html.j2")
    assert template("trial.html.j2").environment.autoescape is True
