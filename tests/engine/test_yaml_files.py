"""YAML files of any content are plain values or a ConfigError, in bounded time and memory."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.config import load_yaml
from engine.errors import ConfigError


def _laughs(levels: int) -> str:
    """A list of ten, and lists of ten times the one before it."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    return "\n".join([*lines, *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_laughs(9), "more than 1048576 values"),
        ("a: &a [*a]", "more than 1048576 values"),
        ("a: &a {b: *a}", "more than 1048576 values"),
        ("[" * 3000, "more than 50 levels"),
        ("a: " + "{b: " * 3000, "more than 50 levels"),
        ("{" * 3000, "more than 50 levels"),
        ("? " * 3000, "more than 50 levels"),
        ("- " * 3000, "more than 50 levels"),
        ("a: 2001-99-99", "no valid YAML"),
        ("a: !!timestamp x", "no valid YAML"),
        ("a: !!bool x", "no valid YAML"),
        ("a: !!int x", "no valid YAML"),
        ("a: !!python/object:os.system x", "no valid YAML"),
        ("? [a]\n: b", "no valid YAML"),
        ("a: [", "no valid YAML"),
        ("a: 1\nb: 2\na: 3", "key 'a' is given twice"),
        ("a: {b: 1, 'b': 1}", "key 'b' is given twice"),
        ("#" * (1 << 23), "is larger than 4 MiB"),
        ("a: '\x00'", "no valid YAML"),
    ],
)
def test_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    start = time.monotonic()
    with pytest.raises(ConfigError, match=message) as caught:
        load_yaml(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert time.monotonic() - start < 5


def test_aliases_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(_laughs(3))
    assert load_yaml(path) == {"a0": ["x"] * 10, "a1": [["x"] * 10] * 10, "a2": [[["x"] * 10] * 10] * 10}
    with pytest.raises(ConfigError, match="cannot be read"):
        load_yaml(tmp_path / "absent.yaml")
