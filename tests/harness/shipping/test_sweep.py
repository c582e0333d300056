"""A suite with ``ship``: built, gated, shown and recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from engine.toolchain.tool import VARIABLE
from harness.cli.main import app
from harness.shipping.sweep import wanted_trials
from harness.suites.suite import ShipPolicy
from harness.sweeps.written import load_sweep
from harness.tracking.mlflow_store import connect, default_tracking_uri
from harness.trials.artefacts import Artefact
from harness.trials.trial import TrialStore
from tests import toolchains
from tests.harness import fakes
from tests.harness.files.test_user_code import own, run, write

__all__ = ["own"]


@pytest.fixture
def suite(own: Path) -> Path:
    """A suite of one trial that is to be built."""
    path = write(own, {"adapter": "own_pictures:Noise"}, {"name": "own_pictures:closeness", "labels": "float"})
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "ship": "verify"}))
    run("digest", "mine", "--write")
    run("digest", "tiny", "--write", "--score")
    return path


def night(suite: Path, *words: str) -> Result:
    work = str(suite.parents[1] / "work")
    options = ["--executor", "serial", "--recheck-nights", "0", "--explain-budget", "0", "--workdir", work]
    return CliRunner().invoke(app, ["nightly", str(suite), *options, *words])


@pytest.mark.nightly
def test_nights_gate_on_what_is_built(own: Path, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, toolchains.words(own / "old", toolchains.EQUAL))
    first = night(suite)
    assert first.exit_code == 0, first.output
    assert "tiny/bayes-e/max: EQUAL: " in first.output
    sweep = load_sweep(own / "work", "mine")
    (ship,) = sweep.summary.ships
    assert (ship.toolchain, ship.problem) == ("1.24.3", "")
    folder = TrialStore(own / "work/trials").folder(ship.key)
    assert (folder / "ship/model_output/tiny.bin").is_file()
    page = (folder / "trial.html").read_text()
    assert "Built for the board" in page
    assert "outputs of 6 images equal" in page
    assert TrialStore(own / "work/trials").is_whole(ship.key)
    recorded(own / "work", "EQUAL: ", "1.24.3")

    monkeypatch.setenv(VARIABLE, toolchains.words(own / "same", toolchains.FAILS))
    assert night(suite).exit_code == 0, "the same version is not asked again"

    monkeypatch.setenv(VARIABLE, toolchains.words(own / "new", toolchains.DIFFERENT, "1.25"))
    changed = night(suite)
    assert changed.exit_code == 12, changed.output
    assert "the shipped file differs since last night: toolchain 1.24.3 → 1.25" in changed.output.replace("\n", " ")
    recorded(own / "work", "DIFFERENT: ", "1.25")
    assert night(suite, "--accept").exit_code == 0
    assert night(suite).exit_code == 0, "what was accepted passes"

    monkeypatch.delenv(VARIABLE)
    without = night(suite)
    assert without.exit_code == 11
    assert "PTQLAB_HB_MAPPER is not set" in without.output

    monkeypatch.setenv(VARIABLE, toolchains.words(own / "failing", toolchains.FAILS, "1.26"))
    failed = night(suite)
    assert failed.exit_code == 13
    assert "this operator is not supported" in failed.output


def recorded(workdir: Path, text: str, toolchain: str) -> None:
    """The newest run of a trial has the proof, the folder and the file for the board."""
    client = connect(default_tracking_uri(workdir))
    experiment = client.get_experiment_by_name("mine")
    runs = client.search_runs([experiment.experiment_id], "tags.`lab.kind` = 'trial'", order_by=["start_time DESC"])
    shipped = [found for found in runs if found.data.tags.get("lab.shipped", "").startswith(text)]
    assert shipped
    assert shipped[0].data.tags["lab.toolchain"] == toolchain
    names = {item.path for item in client.list_artifacts(shipped[0].info.run_id, "ship")}
    assert {"ship/net.onnx", "ship/net.yaml", "ship/ship.json", "ship/verification.json"} <= names
    built = {item.path for item in client.list_artifacts(shipped[0].info.run_id, "ship/model_output")}
    assert "ship/model_output/tiny.bin" in built


def test_which_trials_are_built() -> None:
    results = [
        fakes.result(spec).model_copy(update={"artefacts": {Artefact.QUANTIZED: "a"}})
        for spec in (fakes.spec(), fakes.spec(settings=fakes.KL))
    ]
    best = {results[1].spec.key}
    assert wanted_trials(None, results, best) == []
    assert wanted_trials(ShipPolicy.VERIFY, results, best) == results[1:]
    assert wanted_trials(ShipPolicy.VERIFY_ALL, results, []) == results
    failed = fakes.result(fakes.spec())
    assert wanted_trials(ShipPolicy.VERIFY_ALL, [failed], []) == [], "it has no model"
