"""A conversion on a machine that lacks something; ``python -m tests.faults.machines`` tries all commands and faults."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.machines import Disturbed, Fault, faults_of, limited, no_locks, readied
from tests.faults.setting import Whole


def small_files(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    del folder, rng
    yield limited(resource.RLIMIT_FSIZE, 300)


def six_files(folder: Path, rng: random.Random) -> Iterator[Disturbed]:
    del folder, rng
    yield limited(resource.RLIMIT_NOFILE, 6)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Whole]:
    return readied("makertbin", tmp_path_factory.mktemp("machines"))


@pytest.mark.parametrize(
    ("fault", "fails"),
    [pytest.param(small_files, True, marks=pytest.mark.nightly), (six_files, None), (no_locks, False)],
)
def test_a_conversion_ends_in_words_and_the_rerun_is_whole(
    ready: tuple[Path, Whole], fault: Fault, fails: bool | None
) -> None:
    folder, whole = ready
    wrong, ended = faults_of("makertbin", fault, folder, folder.parent / "place", whole, random.Random(0))
    assert wrong == []
    assert fails is None or bool(ended[0][0]) is fails
