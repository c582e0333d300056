"""A real sweep over ``compatibility``: what imitating the original costs stands on its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.execution.coordinator import Plan, serial
from harness.files.strict_yaml import parse
from harness.report.compatibility import compatibility_pairs
from harness.report.results import REPORT_FILE, sweep_folder
from harness.suites.suite import Suite
from harness.sweeps.sweep import run_suite
from harness.trials.tasks import Bench
from harness.trials.trial import TrialStore

SUITE = parse(
    {
        "name": "compatibility",
        "version": 1,
        "models": "mnist_resnet8",
        "calibration_samples": 20,
        "evaluation_samples": 100,
        "sweep": {"compatibility": ["original", "clean"], "bias_correction": [False, True]},
    },
    Suite,
    "compatibility.yaml",
)


@pytest.mark.nightly
def test_what_clean_corrects_once_is_closer_to_float(tmp_path: Path) -> None:
    sweep = run_suite(SUITE, Plan(bench=Bench(tmp_path), executor=serial), record=False)
    plain, corrected = compatibility_pairs(sweep, TrialStore(tmp_path / "trials"))
    assert corrected.original.spec.settings.bias_correction
    assert plain.change("cosine.output") == 0.0  # no rule about max costs accuracy
    assert (corrected.change("cosine.output") or 0.0) > 0.0
    assert corrected.test is not None
    page = (sweep_folder(tmp_path, SUITE.name) / REPORT_FILE).read_text(encoding="utf-8")
    assert "What compatibility costs" in page
    assert '<td class="text">max-bias_correction</td>' in page
