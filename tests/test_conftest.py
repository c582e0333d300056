"""Skips that CI does not expect fail it."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT, unexpected_skips


def test_a_reason_must_be_listed(tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("# a comment\nneeds \\w+ium\n\n")
    (tmp_path / "more.txt").write_text("no models? \n")
    lists = f"{tmp_path / 'some.txt'}\n{tmp_path / 'more.txt'}"
    assert unexpected_skips(["needs chromium", "no model x"], lists) == []
    assert unexpected_skips(["needs torch", "it needs chromium", "no modelling"], lists) == [
        "it needs chromium",
        "needs torch",
        "no modelling",
    ]


def test_the_lists_of_ci_are_patterns() -> None:
    lists = "\n".join(str(path) for path in sorted((ROOT / ".ci" / "skips").glob("*.txt")))
    assert (
        unexpected_skips(
            ["needs chromium", "no model /m.onnx", "extra packages: package x-y is not installed: …"], lists
        )
        == []
    )
    assert unexpected_skips(["the extra images is not installed"], lists) == ["the extra images is not installed"]
