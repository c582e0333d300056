"""How trials read as runs."""

from __future__ import annotations

from typing import Any

import pytest

from harness.files.strict_yaml import parse
from harness.suites.settings import Settings
from harness.suites.suite import Suite
from harness.tracking.trial_run import metrics, params, run_name, sweep_metrics, swept
from tests.harness import fakes


def suite(**changes: Any) -> Suite:
    return parse({"name": "mine", "version": 1, "models": "net", "sweep": {}, **changes}, Suite, "mine.yaml")


def test_swept_settings_are_those_in_which_trials_differ() -> None:
    grid = {"calibration_type": ["max", "kl"], "int16": ["none", "all"], "per_channel": [True]}
    found = swept(suite(sweep=grid, trials=[{"per_channel": True, "calibration_seed": 3}]))
    assert set(found) == {"calibration_type", "int16", "calibration_seed"}
    assert params(fakes.spec(settings=fakes.INT16), found) == {
        "model": "net",
        "march": "bayes-e",
        "calibration_type": "max",
        "int16": "all",
        "calibration_seed": "first",
    }


def test_the_first_metrics_are_those_that_everybody_looks_at() -> None:
    assert sorted(metrics(fakes.result(fakes.spec())))[:4] == ["accuracy", "cosine", "delta", "latency_ms"]


def test_names_are_short_and_differ_between_trials_and_sweeps() -> None:
    long = Settings(
        max_percentile=0.99995, per_channel=True, asymmetric=True, order_independent_kl=False, calibration_seed=5
    )
    specs = [fakes.spec(settings=long, model="a_model_with_a_long_name"), fakes.spec(settings=Settings())]
    names = [
        run_name(spec, sweep, suite(models=["net", "a_model_with_a_long_name"]))
        for spec in specs
        for sweep in ("1234a", "5678b")
    ]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 66
    assert run_name(specs[1], "1234a", suite()) == "max #1234"


def test_nights_have_best_and_mean_figures_of_each_model() -> None:
    results = [
        fakes.result(fakes.spec("one"), value=0.9, latency=1.0),
        fakes.result(fakes.spec("one", fakes.KL), value=0.8, latency=3.0),
        fakes.result(fakes.spec("two"), value=0.5, latency=2.0),
        fakes.failed(fakes.spec("three")),
    ]
    found = sweep_metrics(results)
    assert found["sweep.accuracy.best"] == 0.9
    assert found["sweep.accuracy.mean.one"] == pytest.approx(0.85)
    assert found["sweep.latency_ms.mean"] == pytest.approx(2.0)
    assert "sweep.accuracy.best.two" in found
    assert sweep_metrics([results[3]]) == {}
