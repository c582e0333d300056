"""``ptqlab why`` and ``compare``: what the last sweep, or two trials, differ in."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from harness.cli.why import why
from harness.execution.coordinator import Plan, serial
from harness.files.strict_yaml import parse
from harness.gates.baseline import read_baseline, save_baseline
from harness.gates.judgement import References
from harness.report.results import sweep_folder
from harness.suites.suite import Suite
from harness.sweeps.sweep import run_suite
from harness.tracking.aliases import BASELINE_FILE
from harness.trials.artefacts import Artefact
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome, TrialSpec
from tests.harness import fakes

SUITE = parse({"name": "mine", "version": 1, "models": "net", "sweep": {}}, Suite, "x.yaml")


def night(workdir: Path, spec: TrialSpec, correct: int, calibration: str, baseline: Path | None) -> None:
    plan = Plan(bench=Bench(workdir), executor=serial, stages="tests.harness.fakes")
    result = fakes.result(spec, value=correct / 40)
    result = result.model_copy(update={"artefacts": {Artefact.CALIBRATION_IMAGES: calibration}})
    plan.bench.store.put(Outcome(result, fakes.NODES, {"per_sample": fakes.hits(correct)}))
    run_suite(SUITE, plan, references=References(baseline=baseline), specs=[spec], record=False)


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    """A working directory with two sweeps; the second lost a quarter."""
    night(tmp_path, fakes.spec(), 36, "a", None)
    first = sweep_folder(tmp_path, "mine") / BASELINE_FILE
    save_baseline(read_baseline(first), tmp_path / "baseline.json")
    night(tmp_path, fakes.spec(engine="1"), 26, "b", tmp_path / "baseline.json")
    return tmp_path


def test_why_says_what_the_page_says(nights: Path) -> None:
    assert why.__doc__
    finished = CliRunner().invoke(app, ["why", "mine", "--workdir", str(nights)])
    assert finished.exit_code == 0, finished.output
    assert finished.stdout.startswith("REGRESSION: mine, sweep ")
    headline = "net/bayes-e/max: calibration data changed; model file and engine the same; the float model's score is"
    assert headline in finished.stdout
    assert "images: 10 worse, 0 better" in finished.stdout
    assert (
        "different images or labels in the same data set" in (sweep_folder(nights, "mine") / "report.html").read_text()
    )


def test_why_takes_the_file_of_a_suite(nights: Path) -> None:
    file = nights / "suite of mine.yaml"
    file.write_text("{name: mine, version: 1, models: mnist_lenet, sweep: {}}")
    finished = CliRunner().invoke(app, ["why", str(file), "--workdir", str(nights)])
    assert finished.exit_code == 0, finished.output
    assert finished.stdout.startswith("REGRESSION: mine, sweep ")


def test_why_against_another_baseline_judges_nothing(nights: Path) -> None:
    own = sweep_folder(nights, "mine") / BASELINE_FILE
    finished = CliRunner().invoke(app, ["why", "mine", "--workdir", str(nights), "--baseline", str(own)])
    assert finished.exit_code == 0, finished.output
    assert "nothing recorded has changed; the float model's score is the same" in finished.stdout


def test_why_without_a_baseline_and_without_a_sweep(tmp_path: Path) -> None:
    night(tmp_path, fakes.spec(), 36, "a", None)
    finished = CliRunner().invoke(app, ["why", "mine", "--workdir", str(tmp_path)])
    assert "it was not compared with a baseline" in finished.stdout
    missing = CliRunner().invoke(app, ["why", "other", "--workdir", str(tmp_path)])
    assert "run the suite first" in str(missing.exception)


def test_compare_names_the_engines_and_what_differs(nights: Path) -> None:
    keys = [fakes.spec().key, fakes.spec(engine="1").key]
    finished = CliRunner().invoke(app, ["compare", *keys, "--workdir", str(nights)], env={"COLUMNS": "200"})
    assert finished.exit_code == 0, finished.output
    assert finished.stdout.count("bundled, 0.") == 2
    assert "calibration data: different images" in finished.stdout
    assert "artefact: calibration images differs first" in finished.stdout
