"""Where results are unless a command is told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import OutputError
from harness.files.workdir import default_workdir, refuse_unwritable, scratch_workdir


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


def test_a_folder_is_tried_before_anything_is_computed(tmp_path: Path) -> None:
    refuse_unwritable(tmp_path / "new" / "work")
    assert list((tmp_path / "new" / "work" / "sweeps").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file.* cannot be written: Not a directory"):
        refuse_unwritable(tmp_path / "file")
