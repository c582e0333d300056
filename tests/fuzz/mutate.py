"""Random changes of a file."""

from __future__ import annotations

import random
from collections.abc import Sequence

_BYTES = (0, 1, 0x7F, 0x80, 0xFF)
LONGEST = 1 << 16


def mutated(seed: bytes, words: Sequence[bytes], rng: random.Random) -> bytes:
    """``seed`` with a few bytes, chunks or words changed."""
    content = bytearray(seed)
    for _ in range(rng.choice((1, 1, 2, 3, 8, 30))):
        _change(content, words, rng)
    return bytes(content[:LONGEST])


def _change(content: bytearray, words: Sequence[bytes], rng: random.Random) -> None:
    place = rng.randrange(len(content) + 1)
    end = min(len(content), place + rng.choice((1, 1, 2, 4, 16, 100)))
    match rng.randrange(8):
        case 0 if place < len(content):
            content[place] ^= 1 << rng.randrange(8)
        case 1 if place < len(content):
            content[place] = rng.choice((*_BYTES, rng.randrange(256)))
        case 2:
            del content[place:end]
        case 3:
            content[place:place] = content[place:end] * rng.choice((1, 2, 50))
        case 4:
            content[place:end] = rng.choice(words)
        case 5:
            content[place:place] = rng.choice(words)
        case 6:
            _replace_token(content, words, rng)
        case _ if rng.random() < 0.1:
            del content[place:]


def _replace_token(content: bytearray, words: Sequence[bytes], rng: random.Random) -> None:
    """Put a word, or another token of the file, in place of one token."""
    tokens = content.split()
    if not tokens:
        return
    old = rng.choice(tokens)
    at = content.find(old, rng.randrange(len(content)))
    if at >= 0:
        content[at : at + len(old)] = rng.choice((rng.choice(words), rng.choice(tokens)))
