"""Nights: the first, an equal one, one with a planted loss, and what is promoted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError
from harness.execution.coordinator import Plan, serial
from harness.gates.drift import drifts
from harness.gates.judgement import References
from harness.gates.nights import NIGHTS_FILE, read_nights
from harness.gates.verdicts import Verdict
from harness.report.results import SWEEP_FILE, Sweep, sweep_folder
from harness.suites.suite import Suite
from harness.sweeps.baselines import resolve_baseline
from harness.sweeps.nightly import EXIT_BASELINE, BaselineError, exit_code, night_references, promote_if_good
from harness.sweeps.sweep import run_suite
from harness.sweeps.written import load_sweep
from harness.tracking.aliases import BASELINE_FILE, LAST_GOOD
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome
from tests.harness import fakes
from tests.harness.finished import suite

SUITE = suite()
SPEC = fakes.spec("net", evaluation_samples=500)


def references(suite: Suite, workdir: Path, uri: str | None) -> References:
    """What a night of ``suite``, a file without a baseline beside it, is compared with."""
    file = workdir / "mine.yaml"
    file.touch()
    return night_references(str(file), suite, workdir, uri)


def night(workdir: Path, correct: int, model: str = "net", baseline: Path | None = None) -> Sweep:
    """A sweep whose only trial got ``correct`` of 500 samples right."""
    spec = SPEC.model_copy(update={"model": model})
    plan = Plan(bench=Bench(workdir), executor=serial, stages="tests.harness.fakes")
    if model == "net":
        result = fakes.result(spec, value=correct / 500)
        plan.bench.store.put(Outcome(result, (), {"per_sample": fakes.hits(correct, 500)}))
    found = References(baseline=baseline) if baseline else references(SUITE, workdir, None)
    return run_suite(SUITE, plan, references=found, specs=[spec], night=True)


def test_nights_pass_fail_and_promote(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="@last-good: no sweep of suite mine has this alias"):
        resolve_baseline(f"@{LAST_GOOD}", SUITE, tmp_path, None)
    first = night(tmp_path, 450)
    assert first.baseline is None
    assert (first.verdict, exit_code(first)) == (Verdict.NO_GATE, 0)
    assert promote_if_good(first, tmp_path)

    equal = night(tmp_path, 450)
    assert equal.baseline is not None
    assert (equal.verdict, exit_code(equal)) == (Verdict.PASS, 0)
    assert promote_if_good(equal, tmp_path)

    worse = night(tmp_path, 445)  # one point
    assert (worse.verdict, exit_code(worse)) == (Verdict.REGRESSION, 12)
    assert not promote_if_good(worse, tmp_path)
    assert night(tmp_path, 450).verdict is Verdict.PASS, "a bad night must not move the alias"

    accepted = night(tmp_path, 445)
    assert promote_if_good(accepted, tmp_path, accept=True)
    assert exit_code(accepted, accept=True) == 0
    assert night(tmp_path, 445).verdict is Verdict.PASS


@pytest.mark.nightly
def test_a_new_version_of_the_suite_begins_anew(tmp_path: Path) -> None:
    assert promote_if_good(night(tmp_path, 450), tmp_path)
    second = SUITE.model_copy(update={"version": 2})
    assert references(second, tmp_path, None).baseline is None
    plan = Plan(bench=Bench(tmp_path), executor=serial, stages="tests.harness.fakes")
    assert promote_if_good(run_suite(second, plan, specs=[SPEC]), tmp_path)
    assert references(second, tmp_path, None).baseline is not None
    assert references(SUITE, tmp_path, None).baseline is None


@pytest.mark.nightly
def test_a_failed_trial_is_never_promoted(tmp_path: Path) -> None:
    sweep = night(tmp_path, 0, model="refused")
    assert exit_code(sweep, accept=True) == 13
    assert not promote_if_good(sweep, tmp_path, accept=True)


def test_a_sweep_without_record_is_not_promoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise OSError("no server")

    monkeypatch.setattr("harness.tracking.mlflow_store.MlflowTracker.begin", away)
    sweep = night(tmp_path, 450)
    assert sweep.record_problem is not None
    assert exit_code(sweep) == 14
    assert not promote_if_good(sweep, tmp_path)


def test_a_night_without_the_store_is_gated_by_the_promoted_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first night found no alias, and was then promoted; a run that was killed came between; the store is away."""

    def away(*_: Any) -> None:
        raise OSError("no server")

    assert promote_if_good(night(tmp_path, 450), tmp_path, anchor=True)
    (sweep_folder(tmp_path, "mine") / BASELINE_FILE).unlink()
    monkeypatch.setattr("harness.tracking.mlflow_store.connect", away)
    monkeypatch.setattr("harness.tracking.mlflow_store.MlflowTracker.begin", away)
    equal, worse = night(tmp_path, 450), night(tmp_path, 400)
    assert (equal.verdict, exit_code(equal)) == (Verdict.PASS, 14)
    assert (worse.verdict, exit_code(worse)) == (Verdict.REGRESSION, 12)
    assert references(SUITE, tmp_path, None).anchor is not None


@pytest.mark.nightly
def test_a_damaged_baseline_does_not_ungate_the_night(tmp_path: Path) -> None:
    assert promote_if_good(night(tmp_path, 450), tmp_path)
    (stored,) = [path for path in (tmp_path / "mlartifacts").rglob("baseline.json") if path.is_file()]
    stored.write_text("{")
    with pytest.raises(BaselineError, match="@last-good of suite mine cannot be read, so nothing was swept") as caught:
        night(tmp_path, 10)
    assert caught.value.exit_code == EXIT_BASELINE
    stored.unlink()
    with pytest.raises(BaselineError):
        night(tmp_path, 10)


def test_a_baseline_of_an_unknown_format_is_refused_by_name(tmp_path: Path) -> None:
    assert promote_if_good(night(tmp_path, 450), tmp_path)
    (stored,) = [path for path in (tmp_path / "mlartifacts").rglob("baseline.json") if path.is_file()]
    stored.write_text(stored.read_text().replace("{", '{"format": 99,', 1))
    with pytest.raises(BaselineError, match="format"):
        night(tmp_path, 450)


@pytest.mark.nightly
def test_losses_below_tolerance_add_up_to_one_that_the_anchor_sees(tmp_path: Path) -> None:
    """Each night loses one image of 500: within tolerance of the night before, not of the anchor."""
    first = night(tmp_path, 450)
    assert promote_if_good(first, tmp_path, anchor=True)
    verdicts = []
    for correct in range(449, 439, -1):
        sweep = night(tmp_path, correct)
        verdicts.append(sweep.verdict)
        if not promote_if_good(sweep, tmp_path):
            break
    assert verdicts[0] is Verdict.PASS
    assert verdicts[-1] is Verdict.REGRESSION
    assert len(verdicts) < 9
    (named,) = [verdict for verdict in sweep.verdicts if verdict.verdict is Verdict.REGRESSION]
    assert [check.name for check in named.checks if not check.verdict.is_good] == ["accuracy.quantized since @anchor"]
    nights = read_nights(sweep_folder(tmp_path, "mine"))
    assert len(nights) == 1 + len(verdicts)
    (drift,) = [drift for drift in drifts(nights) if drift.figure == "accuracy.quantized"]
    assert drift.began is not None
    page = (sweep_folder(tmp_path, "mine") / "report.html").read_text()
    assert "Drift since the anchor" in page
    assert nights[drift.began].started_at[:16].replace("T", " ") in page


def test_the_anchor_stays_where_a_person_put_it(tmp_path: Path) -> None:
    assert promote_if_good(night(tmp_path, 450), tmp_path, anchor=True)
    anchor = references(SUITE, tmp_path, None).anchor
    assert anchor is not None
    before = anchor.read_bytes()
    assert promote_if_good(night(tmp_path, 449), tmp_path)
    after = references(SUITE, tmp_path, None)
    assert after.anchor is not None
    assert after.baseline is not None
    assert after.anchor.read_bytes() == before
    assert after.baseline.read_bytes() != before


def test_a_damaged_record_of_nights_is_refused_before_anything_runs(tmp_path: Path) -> None:
    assert promote_if_good(night(tmp_path, 450), tmp_path)
    (sweep_folder(tmp_path, "mine") / NIGHTS_FILE).write_text("{")
    with pytest.raises(ConfigError, match=r"nights\.jsonl, line 1: is not a record of a night"):
        night(tmp_path, 450)


@pytest.mark.nightly
def test_a_sweep_of_an_older_version_is_not_shown_as_judged(tmp_path: Path) -> None:
    """Without a judgement there is no verdict, least of all PASS."""
    night(tmp_path, 450)
    file = sweep_folder(tmp_path, "mine") / SWEEP_FILE
    content = json.loads(file.read_text())
    del content["judgement"]
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="written by another version"):
        load_sweep(tmp_path, "mine")
