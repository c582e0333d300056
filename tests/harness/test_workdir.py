"""Where results are unless a command is told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.workdir import default_workdir


@pytest.mark.parametrize(
    ("value", "expected"), [("/some/where", "/some/where"), ("", "ptqlab_results"), (None, "ptqlab_results")]
)
def test_the_variable_counts_where_it_says_something(
    value: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv("PTQLAB_WORKDIR", raising=False)
    else:
        monkeypatch.setenv("PTQLAB_WORKDIR", value)
    assert default_workdir() == Path(expected)
