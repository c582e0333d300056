"""Sealed texts: read as they were written, or refused."""

from __future__ import annotations

import json

import pytest

from engine.sealed import DAMAGED, sealed, unsealed

TEXT = '{"a": 1,\n "b": "ü"\n}'


def test_a_sealed_text_is_json_and_comes_back() -> None:
    data = sealed(TEXT)
    assert list(json.loads(data)) == ["a", "b", "sha256"]
    assert unsealed(data) == unsealed(data + b"\n") == TEXT.encode()


def test_what_nobody_sealed_is_taken_as_it_is() -> None:
    assert unsealed(b"[1]") == b"[1]"
    with pytest.raises(ValueError, match="JSON object"):
        sealed("[1]")


def test_any_bit_that_flips_is_noticed_or_leaves_an_unknown_key_or_no_json() -> None:
    data = sealed(TEXT)
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            try:
                found = json.loads(unsealed(bytes(flipped)))
            except ValueError:
                continue
            assert set(found) > {"a", "b"} or flipped[-1] != data[-1], bytes(flipped)


def test_the_message() -> None:
    with pytest.raises(ValueError, match=DAMAGED):
        unsealed(sealed(TEXT).replace(b"1", b"2", 1))
