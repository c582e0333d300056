"""What a tracker says of a sweep, and what has to be overridden."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tracking.tracker import Closing, Links, RecordedShip, RunStatus, Tracker


def test_only_what_was_built_in_this_sweep_is_new() -> None:
    old, new = RecordedShip(text="equal", fresh=False), RecordedShip(text="equal")
    assert not Closing(status=RunStatus.FINISHED, ships={"a": old}).has_built
    assert Closing(status=RunStatus.FINISHED, ships={"a": old, "b": new}).has_built


def test_a_command_or_a_file_is_no_address() -> None:
    assert Links("x", "https://lab").is_address
    assert not Links("x", "mlflow ui").is_address
    assert not Links("x", "/work/records/mine.jsonl").is_address


def test_what_a_tracker_leaves_out_is_named() -> None:
    with pytest.raises(TypeError, match=r"artefact.*baseline.*begin.*end.*set_alias.*trial"):
        type("Half", (Tracker,), {})("uri", Path())
