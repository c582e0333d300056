"""Characters of networks that read text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.metrics import open_metric
from harness.onboarding.dictionary import with_blank, with_characters
from harness.onboarding.heads import guess_head
from tests.harness.onboarding.test_map_heads import network

NETWORK = network((1, 40, 12), (48, 320))
HEAD = guess_head(NETWORK)


def test_the_file_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    for characters, space in (("abcdefghijk", False), ("abcdefghij", True)):
        file.write_text("\n".join(characters) + "\n")
        head, said = with_characters(HEAD, NETWORK, file, ())
        assert (head.options, said) == ({"characters": list(characters), "space": space}, ())
        assert len(open_metric(head.metric, head.options).alphabet) == 12  # type: ignore[attr-defined]
    file.write_text("a\nb\n")
    with pytest.raises(
        ConfigError, match=r"keys.txt: has 2 characters, the network tells 12 classes apart: expected 11"
    ):
        with_characters(HEAD, NETWORK, file, ())


def test_metadata_then_a_file_beside_the_network(tmp_path: Path) -> None:
    given = replace(NETWORK, metadata={"character": "\n".join("abcdefghij")})
    head, _ = with_characters(HEAD, given, None, (tmp_path,))
    assert dict(head.from_metadata) == {"characters": "character"}
    (tmp_path / "my_dict.txt").write_text("\n".join("abcdefghijk"))
    (tmp_path / "a_dict.txt").write_text("x\n")
    head, _ = with_characters(HEAD, NETWORK, None, (tmp_path,))
    assert head.options["characters"] == list("abcdefghijk")
    assert "11 characters from my_dict.txt" in head.reason


def test_without_one_outputs_are_compared(tmp_path: Path) -> None:
    head, (note,) = with_characters(HEAD, NETWORK, None, (tmp_path,))
    assert head.metric == "cosine"
    assert "no dictionary of 11 or 10 characters in the metadata or beside the network: give --dictionary FILE" in note


def test_the_blank_is_what_most_steps_say() -> None:
    outputs = np.zeros((2, 40, 12), np.float32)
    outputs[..., 11] = 1
    assert with_blank(HEAD, outputs).options["blank"] == 11
    assert with_blank(HEAD, -outputs) == HEAD
