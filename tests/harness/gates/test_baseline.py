"""Baselines: what is kept of a sweep, with which tolerances, and what their files may hold."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from engine.errors import ConfigError
from harness.files import paths
from harness.gates.baseline import (
    ACCURACY,
    Baseline,
    BaselineTrial,
    ExpectedFailure,
    Reference,
    Scores,
    _tolerance,
    baseline_path,
    gated,
    load_baseline,
    save_baseline,
    updated_baseline,
)
from harness.suites.suite import Gates, Tolerances
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes
from tests.harness.finished import RIGHT, SAMPLES, predictions, suite, trial

SUITE = suite(version=3)


def test_a_baseline_survives_its_file_and_belongs_to_one_suite(baseline: Baseline, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    save_baseline(baseline, file)
    assert load_baseline(file, SUITE) == baseline
    with pytest.raises(ConfigError, match="belongs to suite mine version 3, expected mine version 4"):
        load_baseline(file, SUITE.model_copy(update={"version": 4}))
    with pytest.raises(ConfigError, match="make one with --ptqlab-update-baseline"):
        load_baseline(tmp_path / "none.json", SUITE)
    file.write_text('{"suite": "mine", "version": 3, "trials": {"x": {"figure": {}}}}')
    with pytest.raises(ConfigError, match=r"is no baseline: trials\.x\.figure"):
        load_baseline(file, SUITE)


def test_an_update_keeps_what_was_reasoned_and_refuses_unknown_failures(baseline: Baseline, tmp_path: Path) -> None:
    store = TrialStore(tmp_path / "trials")
    (name, accepted), *_ = baseline.trials.items()
    reasoned = Reference(value=0.5, tolerance=0.25, reason="noisy by design")
    old = baseline.model_copy(
        update={"trials": {name: accepted.model_copy(update={"figures": {**accepted.figures, "cosine.min": reasoned}})}}
    )
    new = updated_baseline(old, SUITE, [trial()], store).trials[name].figures
    assert new["cosine.min"] == Reference(value=0.89, tolerance=0.25, reason="noisy by design")
    assert new["latency.ms"].tolerance == SUITE.gates.tolerances.latency
    with pytest.raises(ConfigError, match="failed in stage quantize"):
        updated_baseline(old, SUITE, [fakes.failed(fakes.spec())], store)


@pytest.mark.parametrize("scores", [np.array([1.0, 0, 0, 1, 1, 1, 0, 1, 1]), np.array([0.25, 1.0, 0.333])])
def test_scores_survive_their_compact_form(scores: np.ndarray[Any, Any]) -> None:
    compact = Scores.of(scores)
    np.testing.assert_array_equal(Scores.model_validate_json(compact.model_dump_json()).array(), scores)


@pytest.mark.parametrize(
    "scores",
    [
        {"count": 3},
        {"count": 3, "bits": "a0", "thousandths": [1, 2, 3]},
        {"count": 3, "thousandths": [1, 2]},
        {"count": 9, "bits": "ff"},
        {"count": 8, "bits": "ffff"},
        {"count": 8, "bits": "xy"},
        {"count": 2**40, "bits": "ff"},
        {"count": -1, "bits": ""},
    ],
)
def test_scores_that_do_not_fit_their_count_are_refused(scores: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Scores.model_validate(scores)


def test_scores_of_zero_and_one_are_bits_and_others_thousandths() -> None:
    assert Scores.of(np.array([1.0, 0, 1, 0, 0, 0, 0, 0, 1])) == Scores(count=9, bits="a080")
    assert Scores.of(np.array([0.0, 0.12345, 0.1236])) == Scores(count=3, thousandths=(0, 123, 124))
    assert Scores(count=0, bits="").array().tolist() == []


def test_figures_that_are_gated() -> None:
    found = gated(["accuracy.quantized", "cosine.of.boxes", "subgraphs", "sqnr_db", "cosine.output", "latency.ms"])
    assert found == {"cosine.output": 1, "latency.ms": -1, "subgraphs": -1, "cosine.of.boxes": 1}
    assert list(found)[-1] == "cosine.of.boxes"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (ACCURACY, 0.01),
        ("cosine.output", 0.02),
        ("cosine.min", 0.03),
        ("latency.ms", 8.0),
        ("latency.total_ms", 8.0),
        ("ddr.mb", 10.0),
        ("cpu_nodes", 6),
        ("subgraphs", 7),
        ("cosine.of.boxes", 0.02),
    ],
)
def test_times_and_traffic_have_relative_tolerances(name: str, expected: float) -> None:
    tolerances = Tolerances(
        accuracy=0.01, cosine=0.02, cosine_min=0.03, latency=0.04, ddr=0.05, cpu_nodes=6, subgraphs=7
    )
    assert _tolerance(name, 200.0, tolerances) == pytest.approx(expected)


def test_a_reference_allows_for_its_spread() -> None:
    reference = Reference(value=0.5, tolerance=0.01, spread=0.002, reason="noisy")
    assert reference.allowed(Gates(spreads=3)) == pytest.approx(0.016)
    assert str(reference) == "0.5 ± 0.01, spread over draws 0.002 (noisy)"
    assert str(Reference(value=1234567.8, tolerance=1)) == "1.23457e+06 ± 1"


def test_a_baseline_lies_beside_its_suite(tmp_path: Path) -> None:
    assert baseline_path(tmp_path / "mine.yaml") == tmp_path.resolve() / "baselines" / "mine.json"
    bundled = paths.bundled("suites") / "smoke.yaml"
    assert baseline_path(bundled) == paths.reports() / "baselines" / "smoke.json"


def test_an_expected_failure_stays_while_the_trial_fails(baseline: Baseline, tmp_path: Path) -> None:
    expected = BaselineTrial(expected_failure=ExpectedFailure(reason="known", until=date(2030, 1, 1)))
    failed = fakes.failed(fakes.spec(evaluation_samples=SAMPLES))
    old = Baseline(suite="mine", version=3, trials={failed.spec.id: expected})
    store = TrialStore(tmp_path / "trials")
    assert updated_baseline(old, SUITE, [failed], store).trials[failed.spec.id] == expected
    store.put(Outcome(trial(), (), predictions()))
    mended = updated_baseline(old, SUITE, [trial()], store).trials[failed.spec.id]
    assert mended.expected_failure is None
    assert mended.figures[ACCURACY].value == RIGHT / SAMPLES
    with pytest.raises(ConfigError, match="mend it, or write an expected_failure"):
        updated_baseline(baseline, SUITE, [failed], store)


def test_a_file_has_one_figure_per_line_and_no_defaults(baseline: Baseline, tmp_path: Path) -> None:
    save_baseline(baseline, tmp_path / "b.json")
    lines = (tmp_path / "b.json").read_text().splitlines()
    assert sum('"value"' in line for line in lines) == len(next(iter(baseline.trials.values())).figures)
    assert not any("reason" in line or "spread" in line for line in lines)
