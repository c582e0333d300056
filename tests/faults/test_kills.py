"""A conversion killed with SIGKILL, a little of it; ``python -m tests.faults.kills`` kills all commands."""

from __future__ import annotations

import random
from pathlib import Path

from tests.faults.kills import Campaign


def test_a_killed_conversion_leaves_nothing_half_written_and_the_rerun_all(tmp_path: Path) -> None:
    campaign = Campaign("makertbin", tmp_path / "place")
    campaign.undisturbed()
    campaign.round(2, random.Random(1))
    assert campaign.faults == []
    assert campaign.in_time >= 1


def test_what_is_not_whole_is_found(tmp_path: Path) -> None:
    campaign = Campaign("makertbin", tmp_path / "place")
    campaign._compare({"a": 1}, "kill 1", {"a": 2, "b": 3})
    assert campaign.faults == ["kill 1: a is not whole", "kill 1: b is not whole"]
