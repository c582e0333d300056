"""An accepted baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.gates.baseline import Baseline, updated_baseline
from harness.trials.trial import Outcome, TrialStore
from tests.harness.finished import predictions, suite, trial


@pytest.fixture
def baseline(tmp_path: Path) -> Baseline:
    """Of the suite's third version, with one trial."""
    store = TrialStore(tmp_path / "trials")
    store.put(Outcome(trial(), (), predictions()))
    return updated_baseline(None, suite(version=3), [trial()], store)
