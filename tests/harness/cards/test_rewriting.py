"""Cards are rewritten key by key."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from engine.errors import ConfigError
from harness.cards.rewriting import rewrite

CARD = """# by hand
name: net  # short
digest: old
splits:
  train: 1

  evaluation: 2
tags:
- a
- b
licence: none
"""


def test_other_keys_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(CARD)
    assert rewrite(path, {"digest": "new", "tags": ["c"], "more": {"x": 1}})
    text = path.read_text()
    assert text.startswith("# by hand\nname: net  # short\ndigest: new\n")
    expected = {**yaml.safe_load(CARD), "digest": "new", "tags": ["c"], "more": {"x": 1}}
    assert yaml.safe_load(text) == expected
    assert not rewrite(path, {"digest": "new"})


def test_blocks_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(CARD)
    rewrite(path, {"splits": {"calibration": 3}})
    assert yaml.safe_load(path.read_text())["splits"] == {"calibration": 3}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        rewrite(tmp_path / "none.yaml", {"digest": "x"})
