"""A conversion killed with SIGKILL, a little of it; ``python -m tests.faults.kills`` kills all commands."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.kills import Campaign
from tests.faults.setting import Whole


@pytest.mark.nightly
def test_a_killed_conversion_leaves_nothing_half_written_and_the_rerun_all(tmp_path: Path) -> None:
    campaign = Campaign("makertbin", tmp_path / "place")
    campaign.undisturbed()
    campaign.round(2, random.Random(1))
    assert campaign.faults == []
    assert campaign.in_time >= 1


def test_what_is_not_whole_is_found() -> None:
    whole = Whole(({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}))
    assert whole.damaged({"a": 1, "b": 3}) == []
    assert whole.damaged({"a": 2, "b": 3, "d": 0}) == ["a", "d"]
    assert Whole(whole.runs, ({"a": 2},)).damaged({"a": 2, "b": 3, "d": 0}) == ["d"]
    assert whole.differing({"a": 1, "b": 2}) == whole.differing({"a": 1, "b": 3, "c": 4}) == []
    assert whole.differing({"a": 1, "b": 3}) == ["b"]
    assert whole.differing({"a": 1, "b": 3, "c": 4, "d": 0}) == ["d"]
