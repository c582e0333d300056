"""Names for sweeps, and the baselines behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tracking.aliases import LAST_GOOD, NoAliasError, fetch_baseline
from harness.tracking.mlflow_store import MlflowTracker, connect
from harness.tracking.tracker import BASELINE_FILE


def test_an_alias_leads_to_the_file_of_its_sweep(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client, tracker = connect(uri), MlflowTracker(uri, tmp_path)
    experiment = client.create_experiment("mine", artifact_location=(tmp_path / "files").as_uri())
    with pytest.raises(NoAliasError, match="no sweep of suite mine has this alias"):
        fetch_baseline(tracker, "mine", LAST_GOOD, tmp_path / "copy")
    run = client.create_run(experiment).info.run_id
    client.log_text(run, "{}", BASELINE_FILE)
    tracker.set_alias(run, LAST_GOOD)
    assert fetch_baseline(tracker, "mine", LAST_GOOD, tmp_path / "copy").read_text() == "{}"
