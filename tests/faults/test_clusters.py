"""A Dask cluster that loses a worker; ``python -m tests.faults.clusters`` has all faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.suites.settings import Settings
from tests.faults.clusters import tried
from tests.harness import fakes


@pytest.mark.nightly
def test_a_worker_that_is_killed_costs_no_trial(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    specs = [fakes.spec("slow", Settings(calibration_seed=index)) for index in range(4)]
    assert tried("worker killed", tmp_path, specs, 3.0) == []
