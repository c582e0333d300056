"""Where results are unless a command is told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.workdir import default_workdir, scratch_workdir


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


def test_every_store_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQLAB_SCRATCH", "/scratch")
    first, second = (scratch_workdir(url) for url in ("s3://bucket/a", "s3://bucket/b"))
    assert (first.parent, second.parent, first == second) == (Path("/scratch"), Path("/scratch"), False)
    assert scratch_workdir("s3://bucket/a") == first
    monkeypatch.delenv("PTQLAB_SCRATCH")
    assert scratch_workdir("s3://bucket/a").name == first.name
