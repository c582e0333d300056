"""Which trial a name means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.errors import ConfigError
from harness.cli.main import app
from harness.cli.results import find_trial
from harness.execution.coordinator import Plan, serial
from harness.files.cache import load_json
from harness.files.strict_yaml import parse
from harness.gates.judgement import References
from harness.report.results import SWEEP_FILE, SweepSummary, sweep_folder
from harness.suites.suite import Suite
from harness.sweeps.sweep import run_suite
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome
from tests.harness import fakes


def swept(workdir: Path, name: str, engine: str, hour: int) -> None:
    """The last sweep of suite ``name``: one trial, by ``engine``, at ``hour``."""
    suite = parse({"name": name, "version": 1, "models": "net", "sweep": {}}, Suite, "x.yaml")
    spec = fakes.spec(engine=engine)
    plan = Plan(bench=Bench(workdir), executor=serial, stages="tests.harness.fakes")
    plan.bench.store.put(Outcome(fakes.result(spec, value=0.5), fakes.NODES, {"per_sample": fakes.hits(20)}))
    run_suite(suite, plan, references=References(baseline=None), specs=[spec], record=False)
    file = sweep_folder(workdir, name) / SWEEP_FILE
    summary = load_json(SweepSummary, file)
    file.write_text(summary.model_copy(update={"started_at": f"2026-01-01T{hour:02}:00:00+00:00"}).model_dump_json())


def test_an_id_of_several_suites_means_the_last_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept(tmp_path, "first", "1", 9)
    swept(tmp_path, "second", "2", 8)
    trial = fakes.spec().id
    assert find_trial(tmp_path, trial).spec.engine == "1"
    assert f"{trial}: of suite first, run last; also in second" in capsys.readouterr().err
    key = fakes.spec(engine="2").key
    assert find_trial(tmp_path, key).spec.key == key
    assert not capsys.readouterr().err


def test_an_unknown_name_lists_what_there_is(tmp_path: Path) -> None:
    swept(tmp_path, "first", "1", 9)
    with pytest.raises(ConfigError, match=fakes.spec().id):
        find_trial(tmp_path, "other")


def printed(workdir: Path, *arguments: str) -> Any:
    finished = CliRunner().invoke(app, [*arguments, "--json", "--workdir", str(workdir)])
    assert finished.exit_code == 0, finished.output
    return json.loads(finished.stdout)


def test_tables_are_json_on_request(tmp_path: Path) -> None:
    swept(tmp_path, "first", "1", 9)
    spec = fakes.spec(engine="1")
    sweep = printed(tmp_path, "show", "first")
    assert (sweep["suite"], sweep["verdict"], [row["trial"] for row in sweep["trials"]]) == (
        "first",
        "NO GATE",
        [spec.id],
    )
    trial = printed(tmp_path, "show", spec.id)
    assert trial["metrics"]["accuracy.quantized"] == 0.5
    assert [node["node"] for node in trial["nodes"]] == ["conv", "softmax"]
    swept(tmp_path, "second", "2", 8)
    both = printed(tmp_path, "compare", spec.key, fakes.spec(engine="2").key)
    assert both["trials"] == [spec.id, spec.id]
    assert both["figures"]["accuracy.quantized"] == [0.5, 0.5]
    assert isinstance(both["causes"], list)
