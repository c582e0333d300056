"""Trackers by name, and the default of installations with and without MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from engine.errors import ConfigError, MissingError
from harness.suites.suite import Suite
from harness.tracking import trackers
from harness.tracking.jsonl_store import JsonLinesTracker
from harness.tracking.mlflow_store import MlflowTracker
from harness.tracking.trackers import chosen_tracker, open_tracker, tracker_class


def test_a_tracker_is_opened_by_its_name(tmp_path: Path) -> None:
    assert tracker_class("mlflow") is MlflowTracker
    found = open_tracker("jsonl", None, tmp_path)
    assert isinstance(found, JsonLinesTracker)
    assert found.uri == str(tmp_path.resolve() / "records")
    assert open_tracker("mlflow", "http://lab", tmp_path).uri == "http://lab"
    assert open_tracker("mlflow", None, tmp_path).uri == f"sqlite:///{tmp_path.resolve()}/mlflow.db"
    with pytest.raises(ConfigError, match=r"unknown tracker 'mlflw'; did you mean 'mlflow'\? Allowed: jsonl,.* mlflow"):
        tracker_class("mlflw")


def test_the_default_is_mlflow_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_tracker(None) == "mlflow"
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    assert chosen_tracker(None) == chosen_tracker("jsonl") == "jsonl"
    with pytest.raises(MissingError, match="tracker mlflow: the package mlflow is not installed: pip install mlflow"):
        chosen_tracker("mlflow")


def test_a_suite_names_a_tracker_that_there_is() -> None:
    content = {"name": "mine", "version": 1, "models": "net", "sweep": {}}
    assert Suite.model_validate(content).tracker is None
    assert Suite.model_validate({**content, "tracker": "jsonl"}).tracker == "jsonl"
    with pytest.raises(ValidationError, match=r"unknown tracker; did you mean 'jsonl'\? Allowed: jsonl"):
        Suite.model_validate({**content, "tracker": "json"})
