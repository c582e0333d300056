"""Workers that see a store alone: their folder, and what they must have before they compute anything."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import CalibrationDataError, MissingError
from engine.fingerprint import fingerprint_of
from harness.execution import elsewhere
from harness.execution.coordinator import Plan, run_sweep, serial
from harness.execution.elsewhere import placed_here, refuse_other_inputs, refuse_other_sources
from harness.execution.task import Task
from harness.trials.tasks import Bench
from harness.trials.trial import NODES_FILE, RESULT_FILE, Symptom, TrialResult, card_key
from harness.zoo.cards import load_card
from tests.harness import fakes

MODULE = "harness.files.exchange"
URL = "s3://bucket/x"


def task(**options: Any) -> Task:
    return Task(key="key", workdir="/no/such/folder", stages="tests.harness.fakes", threads=1, **options)


def test_a_task_is_placed_where_its_worker_has_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PTQLAB_SCRATCH", str(tmp_path))
    assert placed_here(task()) == task()
    found = placed_here(task(store_url=URL))
    assert Path(found.workdir).parent == tmp_path
    assert found.model_copy(update={"workdir": "/no/such/folder"}) == task(store_url=URL)


def test_other_sources_are_refused_where_files_are_not_shared() -> None:
    right, wrong = {MODULE: fingerprint_of(MODULE).digest}, {MODULE: "another"}
    refuse_other_sources(task(store_url=URL, fingerprints=right))
    refuse_other_sources(task(fingerprints=wrong))
    with pytest.raises(MissingError, match=f"different versions of ptqlab or of a tool that {MODULE} uses"):
        refuse_other_sources(task(store_url=URL, fingerprints=wrong))


@pytest.mark.parametrize(("changed", "what"), [(None, ""), ("card", "card"), ("file", "model file"), ("data", "data")])
def test_other_inputs_are_refused(changed: str | None, what: str) -> None:
    card = load_card("mnist_lenet")
    planned = {"card": card_key(card), "file": card.file_digest(), "data": card.open_dataset().digest}
    if changed is None:
        refuse_other_inputs(fakes.spec("mnist_lenet", **planned), Bench(Path(), store_url=URL))
        return
    spec = fakes.spec("mnist_lenet", **{**planned, changed: "another"})
    refuse_other_inputs(spec, Bench(Path()))
    with pytest.raises(MissingError, match=f"model mnist_lenet: its {what} on this worker is not the sweep's"):
        refuse_other_inputs(spec, Bench(Path(), store_url=URL))


def test_what_a_worker_lacks_is_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise CalibrationDataError("no such folder")

    card = load_card("mnist_lenet")
    broken = SimpleNamespace(
        digest="", metric=card.metric, input_parameters=None, dataset=None, file_digest=str, open_dataset=absent
    )
    monkeypatch.setattr(elsewhere, "load_card", lambda name: broken)
    with pytest.raises(MissingError, match="this worker lacks what the sweep needs: no such folder"):
        refuse_other_inputs(fakes.spec("broken"), Bench(Path(), store_url=URL))


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plan:
    """A sweep whose workers have a folder of their own and share a store in another."""
    monkeypatch.setenv("PTQLAB_SCRATCH", str(tmp_path / "worker"))
    return plan(tmp_path, "coordinator")


def plan(folder: Path, name: str, **options: Any) -> Plan:
    bench = Bench(folder / name, store_url=(folder / "store").as_uri())
    return Plan(bench=bench, executor=serial, stages="tests.harness.fakes", **options)


def notes(folder: Path) -> list[str]:
    return [line for path in (folder / "worker").iterdir() for line in fakes.notes(path)]


def test_trials_come_back_whole_through_the_store(apart: Plan, tmp_path: Path) -> None:
    specs = [fakes.spec(model) for model in ("a", "refused", "quitter", "lacking")]
    found = run_sweep(specs, apart)
    assert [each.failure.symptom if each.failure else None for each in found] == [
        None,
        None if found[1].ok else Symptom.REFUSED,
        Symptom.WORKER_DIED,
        Symptom.ENVIRONMENT,
    ]
    assert not found[1].ok
    store = apart.bench.store
    assert [store.get(spec) for spec in specs] == found
    assert {RESULT_FILE, NODES_FILE} <= {path.name for path in store.folder(specs[0].key).iterdir()}
    assert fakes.notes(apart.bench.workdir) == []
    assert f"run {specs[0].id}" in notes(tmp_path)

    second = run_sweep(specs[:2], plan(tmp_path, "another"))
    assert second == found[:2]
    assert notes(tmp_path).count(f"run {specs[0].id}") == 1
    retried = run_sweep(specs[:2], plan(tmp_path, "another", retry_failed=True))
    assert retried[0] == found[0]
    assert [notes(tmp_path).count(f"run {spec.id}") for spec in specs[:2]] == [1, 2]


def test_a_store_that_lost_a_trial_fails_it(apart: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.trials.trial.TrialStore.bring", lambda *_: False)
    (result,) = run_sweep([fakes.spec("a")], apart)
    assert isinstance(result, TrialResult)
    assert result.failure is not None
    assert (result.failure.stage, result.failure.symptom) == ("store", Symptom.ENVIRONMENT)
    assert "its result is missing" in result.failure.message
