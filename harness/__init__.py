"""The experiment harness: suites, trials, results, MLflow, gates, reports.

What ``__all__`` names is the public interface and follows semantic versioning; everything else may change in any
release. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.exports import lazily

if TYPE_CHECKING:
    from harness.datasets import Dataset, Split, open_dataset
    from harness.execution.coordinator import Plan
    from harness.metrics import Metric, Score, open_metric
    from harness.report.results import Sweep
    from harness.suites.suite import Suite, open_suite
    from harness.sweeps.sweep import run_suite
    from harness.sweeps.written import load_sweep
    from harness.trials.tasks import Bench

__all__ = [
    "Bench",
    "Dataset",
    "Metric",
    "Plan",
    "Score",
    "Split",
    "Suite",
    "Sweep",
    "load_sweep",
    "open_dataset",
    "open_metric",
    "open_suite",
    "run_suite",
]

__getattr__ = lazily(
    __name__,
    {
        "Bench": "harness.trials.tasks",
        "Dataset": "harness.datasets",
        "Metric": "harness.metrics",
        "Plan": "harness.execution.coordinator",
        "Score": "harness.metrics",
        "Split": "harness.datasets",
        "Suite": "harness.suites.suite",
        "Sweep": "harness.report.results",
        "open_suite": "harness.suites.suite",
        "load_sweep": "harness.sweeps.written",
        "open_dataset": "harness.datasets",
        "open_metric": "harness.metrics",
        "run_suite": "harness.sweeps.sweep",
    },
)
