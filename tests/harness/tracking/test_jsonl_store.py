"""Records as files of JSON lines: written once however often, read back after a kill, with aliases and baselines."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError
from harness.execution.coordinator import Plan, serial
from harness.files.strict_yaml import parse
from harness.report.results import sweep_folder
from harness.suites.suite import Suite
from harness.sweeps.nightly import exit_code, night_references, promote_if_good
from harness.sweeps.sweep import run_suite
from harness.sweeps.written import load_sweep
from harness.tracking.aliases import NoAliasError, fetch_baseline
from harness.tracking.jsonl_store import JsonLinesTracker
from harness.tracking.record import Recorder
from harness.tracking.sync import pending, replay
from harness.tracking.tracker import Closing, Recorded, RunStatus, SweepStart
from harness.tracking.unfinished import OpenRecord, close_unfinished, mark_open
from harness.trials.trial import TrialStore
from tests.conftest import ROOT
from tests.harness import fakes

SUITE = parse({"name": "mine", "version": 2, "models": "net", "sweep": {}, "tracker": "jsonl"}, Suite, "x.yaml")
SPECS = [fakes.spec(), fakes.spec(settings=fakes.KL)]


def begun(folder: Path, sweep: str = "one") -> JsonLinesTracker:
    tracker = JsonLinesTracker(str(folder / "records"), folder)
    place = tracker.begin(SweepStart(SUITE, sweep, TrialStore(folder / "trials"), 100.0, SPECS))
    assert place == ("mine", sweep)
    return tracker


def events(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "records/mine.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def kinds(folder: Path, sweep: str = "one") -> list[str]:
    return [event["event"] for event in events(folder) if event["sweep"] == sweep]


def test_a_sweep_is_written_once_however_often(tmp_path: Path) -> None:
    good, bad = fakes.result(SPECS[0]), fakes.failed(SPECS[1])
    report = tmp_path / "report.html"
    report.write_text("page")
    begun(tmp_path).trial(good, reused=False)
    tracker = begun(tmp_path)
    for result in (good, bad):
        tracker.trial(result, reused=False)
    tracker.artefact(report)
    tracker.end(Closing(status=RunStatus.FAILED, verdicts={"": "ERROR"}, at=9.0))
    assert kinds(tmp_path) == ["begin", "trial", "trial", "artefact", "end"]
    start, first, second, file, end = events(tmp_path)
    assert (start["trials"], start["started"], start["definition"]["tracker"]) == (2, 100.0, "jsonl")
    assert first["metrics"]["accuracy"] == 0.9
    assert first["params"] == {"model": "net", "march": "bayes-e"}
    assert (first["status"], second["status"], second["failure"]["symptom"]) == ("FINISHED", "FAILED", "refused")
    assert (end["status"], end["verdicts"], end["at"]) == ("FAILED", {"": "ERROR"}, 9.0)
    assert (tmp_path / "records/mine/one" / file["file"]).read_text() == "page"
    links = tracker.links(Recorded(tracker="jsonl", uri=tracker.uri, group="mine", run="one"), ["net"])
    assert (links.title, links.how, list(links.views)) == ("records", str(tmp_path / "records/mine.jsonl"), [])


def test_a_line_that_was_cut_off_counts_as_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    begun(tmp_path).trial(fakes.result(SPECS[0]), reused=False)
    file = tmp_path / "records/mine.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    with caplog.at_level(logging.WARNING):
        begun(tmp_path).trial(fakes.result(SPECS[0]), reused=False)
    assert "mine.jsonl: line 2 is cut off and counts as none" in caplog.text
    lines = file.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["event"] for line in (lines[0], lines[2])] == ["begin", "trial"]


def test_a_sweep_that_reused_everything_names_the_earlier_one(tmp_path: Path) -> None:
    first = begun(tmp_path)
    assert not first.reused_whole(SPECS), "there is no earlier one"
    first.end(Closing(status=RunStatus.FINISHED))
    for name in ("two", "three"):
        later = begun(tmp_path, name)
        assert later.reused_whole(SPECS)
        later.end(Closing(status=RunStatus.FINISHED))
    assert [event["earlier"] for event in events(tmp_path) if event["event"] == "same_trials"] == ["one", "one"]
    assert not begun(tmp_path, "four").reused_whole(SPECS[:1]), "other trials"


def test_a_killed_sweep_is_closed_by_the_next_and_one_that_lives_is_not(tmp_path: Path) -> None:
    begun(tmp_path, "killed")
    uri = str(tmp_path / "records")
    mark = mark_open(OpenRecord(sweep="killed", suite="mine", tracker="jsonl", tracking_uri=uri), tmp_path)
    assert close_unfinished(tmp_path) == []
    mark.lock.close()
    for closed in (1, 0):
        assert len(close_unfinished(tmp_path, uri)) == closed
    assert kinds(tmp_path, "killed") == ["begin", "end"]
    assert events(tmp_path)[-1]["status"] == "KILLED"


def test_aliases_lead_to_baselines(tmp_path: Path) -> None:
    tracker = begun(tmp_path)
    with pytest.raises(NoAliasError, match="no sweep of suite mine has this alias"):
        fetch_baseline(tracker, "mine", "last-good", tmp_path / "copy")
    for sweep in ("one", "two"):
        (tmp_path / "baseline.json").write_text(sweep)
        begun(tmp_path, sweep).artefact(tmp_path / "baseline.json")
        tracker.set_alias(sweep, "last-good")
    assert fetch_baseline(tracker, "mine", "last-good", tmp_path / "copy").read_text() == "two"
    (tmp_path / "records/mine/two/baseline.json").unlink()
    assert fetch_baseline(tracker, "mine", "last-good", tmp_path / "copy").read_text() == "two", "the copy serves"
    with pytest.raises(ConfigError, match=r"baseline @last-good: .*No such file"):
        fetch_baseline(tracker, "mine", "last-good", tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="has no sweep nothing"):
        tracker.set_alias("nothing", "last-good")


def test_a_sweep_has_page_gate_and_promotion_without_mlflow_s_store(tmp_path: Path) -> None:
    plan = Plan(bench=fakes.Bench(tmp_path), executor=serial, stages="tests.harness.fakes")
    first = run_suite(SUITE, plan, specs=SPECS)
    assert first.record_problem is None
    assert first.summary.record == Recorded(
        tracker="jsonl", uri=str(tmp_path.resolve() / "records"), group="mine", run=first.summary.id
    )
    assert kinds(tmp_path, first.summary.id)[:3] == ["begin", "trial", "trial"]
    page = (sweep_folder(tmp_path, "mine") / "report.html").read_text(encoding="utf-8")
    assert f"Recorded in <code>{tmp_path.resolve() / 'records/mine.jsonl'}</code>" in page
    assert "mlflow" not in page.lower().replace("ptqlab.mlflow", "")
    assert promote_if_good(first, tmp_path, anchor=True)
    references = night_references("mine", SUITE, tmp_path, None)
    assert references.baseline is not None
    assert references.anchor is not None
    again = run_suite(SUITE, plan, specs=SPECS, references=references, night=True)
    assert (again.verdict.value, exit_code(again), again.summary.reused) == ("PASS", 0, 2)
    assert kinds(tmp_path, again.summary.id)[:2] == ["begin", "same_trials"]
    assert load_sweep(tmp_path, "mine").summary == again.summary
    assert not (tmp_path / "mlflow.db").exists()


def test_a_folder_that_cannot_be_written_keeps_the_record_for_sync(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plan = Plan(bench=fakes.Bench(tmp_path), executor=serial, stages="tests.harness.fakes")
    found = run_suite(SUITE, plan, specs=SPECS, tracking_uri=str(tmp_path / "file"))
    assert found.record_problem is not None
    assert not promote_if_good(found, tmp_path)
    (folder,) = pending(tmp_path)
    replay(folder, tmp_path, str(tmp_path / "records"))
    assert kinds(tmp_path, found.summary.id)[0] == "begin"
    assert kinds(tmp_path, found.summary.id)[-1] == "end"
    assert pending(tmp_path) == []


def test_the_recorder_says_where_the_sweep_is(tmp_path: Path) -> None:
    recorder = Recorder(SUITE, "one", tmp_path, TrialStore(tmp_path / "trials"))
    recorder.planned(SPECS)
    assert recorder.place.run == "one"
    assert recorder.close(Closing(status=RunStatus.FINISHED)) is None


WITHOUT = """
import importlib.util, json, sys
from importlib import metadata
from pathlib import Path
assert importlib.util.find_spec("mlflow") is None
assert importlib.util.find_spec("sqlalchemy") is None
from typer.testing import CliRunner
from harness.cli.main import app
words = ["run", "suite.yaml", "--workdir", "work", "--executor", "serial"]
first = CliRunner().invoke(app, words)
refused = CliRunner().invoke(app, [*words, "--tracker", "mlflow"])
nightly = CliRunner().invoke(app, ["nightly", "suite.yaml", "--workdir", "work", "--executor", "serial"])
sync = CliRunner().invoke(app, ["sync", "--workdir", "work"])
from engine.convert import check
import engine.simulate, engine.compile, engine.perf
print(json.dumps({
    "codes": [first.exit_code, nightly.exit_code, sync.exit_code],
    "errors": [repr(each.exception) for each in (first, nightly, sync)],
    "refused": str(refused.exception),
    "nightly": nightly.output,
    "sync": sync.output,
}))
"""


def without_mlflow(folder: Path) -> Path:
    """Links to all that is installed, but for MLflow and what is there for it alone."""
    from packaging.requirements import Requirement

    needed = {"ptqlab"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    left_out = project["tool"]["ptqlab"]["minimal"]["mlflow"]
    waiting = [text for text in project["project"]["dependencies"] if Requirement(text).name not in left_out]
    while waiting:
        requirement = Requirement(waiting.pop())
        name = requirement.name.lower().replace("_", "-").replace(".", "-")
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if name not in needed and wanted:
            needed.add(name)
            waiting += metadata.requires(requirement.name) or []
    assert "mlflow" not in needed
    site = folder / "site"
    site.mkdir()
    for found in metadata.distributions():
        if found.metadata["Name"].lower().replace("_", "-").replace(".", "-") not in needed:
            continue
        for file in found.files or ():
            top = file.parts[0]
            place = Path(str(found.locate_file(top)))
            if top not in ("..", "__pycache__", "bin") and place.exists() and not (site / top).exists():
                (site / top).symlink_to(place)
    return site


@pytest.mark.nightly
def test_engine_and_sweeps_run_where_mlflow_cannot_be_imported(tmp_path: Path) -> None:
    suite = {
        "name": "suite",
        "version": 1,
        "models": "mnist_lenet",
        "march": ["bayes-e"],
        "calibration_samples": 4,
        "evaluation_samples": 10,
        "sweep": {"calibration_type": "max"},
    }
    (tmp_path / "suite.yaml").write_text(json.dumps(suite), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-S", "-c", WITHOUT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{without_mlflow(tmp_path)}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["codes"] == [0, 0, 0], found
    assert "the package mlflow is not installed: pip install mlflow, or choose tracker jsonl" in found["refused"]
    assert "promoted: this sweep is @last-good" in found["nightly"]
    assert "nothing to sync" in found["sync"]
    assert "1 reused" in found["nightly"]
    lines = [json.loads(line) for line in (tmp_path / "work/records/suite.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines][:2] == ["begin", "trial"]
    assert lines[1]["metrics"]["accuracy"] > 0.5
    assert lines[-1]["event"] == "alias"
