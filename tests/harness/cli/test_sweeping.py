"""What the commands that sweep share: plans, a suite with another tracker, limits of memory."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.simulate import fast
from harness.cli.sweeping import Retry, Wanted, refuse_little_memory


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    return Wanted(
        workdir=tmp_path,
        executor="serial",
        workers=None,
        store=None,
        fresh=False,
        retry=Retry.NONE,
        fail_fast=False,
        tracker=None,
        tracking_uri=None,
        explain_budget=0.0,
    )


def test_workers_share_the_cpus_only_where_they_are_to(wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "available_cpus", lambda: 8)
    asked = replace(wanted, workers=3)
    assert (asked.plan(share_threads=True).workers, asked.plan(share_threads=True).bench.threads) == (3, 2)
    assert asked.plan(share_threads=False).bench.threads == 1
    assert wanted.plan(share_threads=False).workers == 8


def test_a_tracker_that_is_asked_for_takes_the_place_of_the_suite_s(wanted: Wanted) -> None:
    assert replace(wanted, tracker="jsonl").suite("smoke").tracker == "jsonl"
    with pytest.raises(ConfigError, match="no_such"):
        replace(wanted, tracker="no_such").suite("smoke")


def test_a_process_without_a_limit_of_memory_may_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    refuse_little_memory()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10 * 2**20, resource.RLIM_INFINITY))
    with pytest.raises(ConfigError, match="10 MB of address space"):
        refuse_little_memory()
