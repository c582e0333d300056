"""Threads share whatever they are given here, so that small graphs are computed by several."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _shared_by_all_threads() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.simulate.pace.TIMED", 0)
        yield
