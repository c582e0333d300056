"""The bisection of a trial that got worse."""

from __future__ import annotations

from pathlib import Path

from engine.chips import March
from harness.suites.settings import Settings
from harness.sweeps.bisecting import REPORT, bisect_trial
from harness.trials.trial import TrialResult, TrialSpec
from tests.harness import fakes


def result(model: str = "mnist_lenet") -> TrialResult:
    spec = TrialSpec(
        model=model,
        march=March("bayes-e"),
        settings=Settings(calibration_seed=3),
        calibration_samples=4,
        evaluation_samples=20,
        card="",
        file="",
        data="",
        engine="",
    )
    return fakes.result(spec)


def test_a_right_conversion_keeps_all_bounds_and_leaves_a_report(tmp_path: Path) -> None:
    found = bisect_trial(result(), [7, 2], tmp_path / "bisection", 600.0)
    assert found.finding == "every stage is within its bound"
    text = (tmp_path / found.report).read_text()
    assert "source -> original" in text
    assert "metric before" in text
    assert (tmp_path / "bisection" / "samples" / "labels.csv").read_text().count("\n") == 2
    assert found.report == f"bisection/{REPORT}"


def test_what_takes_too_long_says_how_to_repeat_it(tmp_path: Path) -> None:
    found = bisect_trial(result(), [], tmp_path / "bisection", 0.01)
    assert found.finding == "not finished within 0.01 s"
    assert found.command.startswith("ptqlab bisect ")


def test_a_model_without_card_is_no_crash(tmp_path: Path) -> None:
    found = bisect_trial(result("net"), [], tmp_path / "bisection", 1.0)
    assert found.finding.startswith("could not start: unknown model 'net'")
