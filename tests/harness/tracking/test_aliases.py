"""Names for sweeps, and the baselines behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tracking.aliases import BASELINE_FILE, LAST_GOOD, NoAliasError, fetch_baseline, set_alias
from harness.tracking.mlflow_store import connect


def test_an_alias_leads_to_the_file_of_its_sweep(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = connect(uri)
    experiment = client.create_experiment("mine", artifact_location=(tmp_path / "files").as_uri())
    with pytest.raises(NoAliasError, match="no sweep of suite mine has this alias"):
        fetch_baseline(uri, "mine", LAST_GOOD, tmp_path / "copy")
    run = client.create_run(experiment).info.run_id
    client.log_text(run, "{}", BASELINE_FILE)
    set_alias(uri, run, LAST_GOOD)
    assert fetch_baseline(uri, "mine", LAST_GOOD, tmp_path / "copy").read_text() == "{}"
