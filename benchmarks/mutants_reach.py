"""A plugin of pytest for :mod:`benchmarks.mutants`: which test reaches which switch, and how long it takes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.mutants import REACHED

FOLDER = Path.cwd() / REACHED
FOLDER.mkdir(exist_ok=True)
os.environ["MUTANTS_REACHED"] = str(FOLDER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    os.environ["MUTANT_TEST"] = item.nodeid
    before = time.process_time()
    try:
        return (yield)
    finally:
        with (FOLDER / f"{os.getpid()}.times").open("a") as file:
            file.write(f"{item.nodeid}\t{time.process_time() - before:.3f}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with (FOLDER / "failed").open("a") as file:
            file.write(f"{report.nodeid}\n")
