"""No file crashes a reader: it is read, or refused with a message of ours, in bounded time."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.loaders import LOADERS, sealed
from tests.fuzz.mutate import mutated

LIMIT_SECONDS = 10.0


@pytest.mark.parametrize("name", LOADERS)
def test_seeds_are_read(name: str, tmp_path: Path) -> None:
    loader = LOADERS[name]
    assert loader.accepts(loader.seeds[0], tmp_path / "folder")


@pytest.mark.parametrize("name", LOADERS)
@given(content=st.binary(max_size=300))
def test_any_bytes(name: str, content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    start = time.monotonic()
    LOADERS[name].accepts(content, tmp_path_factory.mktemp("fuzz") / "folder")
    assert time.monotonic() - start < LIMIT_SECONDS


@pytest.mark.parametrize("name", LOADERS)
@given(seed=st.integers(0, 2**32))
def test_changed_files(name: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    loader, rng = LOADERS[name], random.Random(seed)
    content = mutated(rng.choice(loader.seeds), loader.words, rng)
    start = time.monotonic()
    loader.accepts(content, tmp_path_factory.mktemp("fuzz") / "folder")
    assert time.monotonic() - start < LIMIT_SECONDS


def test_a_sealed_container_is_itself() -> None:
    (container, *_) = LOADERS["bin"].seeds
    assert sealed(container) == container
    damaged = container[:-64] + b"\x01" + container[-63:]
    assert sealed(damaged) not in (container, damaged)


def test_a_schedule_of_another_graph(tmp_path: Path) -> None:
    """Kernels without a shape, behind digests that are right."""
    (container, *_) = LOADERS["bin"].seeds
    forged = container.replace(b"kernel_shape", b"kernel_shapE")
    assert forged != container
    assert not LOADERS["bin"].accepts(forged, tmp_path / "folder")
