"""The choices are the words of the documents."""

from __future__ import annotations

from harness.datasets import transformers
from harness.terms import Fit, ReadMode


def test_words() -> None:
    assert [str(mode) for mode in ReadMode] == ["opencv", "skimage"]
    assert [str(fit) for fit in Fit] == ["crop", "stretch", "pad", "line"]


def test_the_readers_are_those_of_the_transformers() -> None:
    assert transformers.Resize.__call__.__defaults__ == (ReadMode.SKIMAGE,)
