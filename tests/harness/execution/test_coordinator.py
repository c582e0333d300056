"""One contract for every executor: a typed result per trial, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.chips import March
from engine.errors import ConfigError
from harness.execution import coordinator as execution
from harness.execution.coordinator import Plan, executor_factory, group, run_sweep
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome, Symptom, TrialResult, TrialSpec
from tests.harness import fakes

ALL = ("serial", "processes", "tests.harness.fakes:two_threads", "dask")
BY_DAY = {"processes"}


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[str]:
    """Address of a real cluster on loopback: a scheduler and two worker processes."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address.removeprefix("tcp://")


@pytest.fixture(params=[pytest.param(name, marks=() if name in BY_DAY else pytest.mark.nightly) for name in ALL])
def executor(request: pytest.FixtureRequest) -> str:
    """Every executor by the name that a user gives it."""
    return f"dask://{request.getfixturevalue('dask_cluster')}" if request.param == "dask" else request.param


def plan(folder: Path, executor: str, **options: Any) -> Plan:
    factory = executor_factory(executor)
    return Plan(bench=Bench(folder), executor=factory, workers=2, stages="tests.harness.fakes", **options)


def by_model(results: list[TrialResult]) -> dict[str, TrialResult]:
    return {result.spec.model: result for result in results}


@pytest.mark.parametrize("executor", ALL, indirect=True)
def test_results_come_in_order_and_preparation_once_per_model(tmp_path: Path, executor: str) -> None:
    specs = [fakes.spec(model, settings) for model in ("a", "b") for settings in (fakes.Settings(), fakes.KL)]
    log = fakes.Log()
    results = run_sweep(specs, plan(tmp_path, executor), [log])
    assert [result.spec for result in results] == specs
    assert all(result.ok for result in results)
    assert sorted(fakes.notes(tmp_path)) == sorted(["prepare a", "prepare b", *(f"run {spec.id}" for spec in specs)])
    assert log.specs == specs
    assert len(log.preparations) == 2
    assert {result.spec.key for result, reused in log.results if not reused} == {spec.key for spec in specs}


def test_a_failure_costs_its_own_trial_only(tmp_path: Path, executor: str) -> None:
    specs = [fakes.spec(model) for model in ("a", "defect", "refused", "unprepared", "hungry", "b")]
    results = by_model(run_sweep(specs, plan(tmp_path, executor)))
    assert results["a"].ok
    assert results["b"].ok
    failures = {model: result.failure for model, result in results.items() if result.failure}
    assert {model: (f.stage, f.symptom) for model, f in failures.items()} == {
        "defect": ("simulate", Symptom.DEFECT),
        "refused": ("quantize", Symptom.REFUSED),
        "unprepared": ("load", Symptom.REFUSED),
        "hungry": ("simulate", Symptom.OUT_OF_MEMORY),
    }
    assert failures["defect"].message == "ZeroDivisionError: a defect"
    assert list((tmp_path / "running").iterdir()) == []


def test_a_worker_that_dies_or_hangs_costs_its_own_trial_only(tmp_path: Path, executor: str) -> None:
    specs = [fakes.spec(model) for model in ("a", "killer", "b", "hanging", "crasher", "c", "quitter", "d")]
    results = by_model(run_sweep(specs, plan(tmp_path, executor, time_limit=2.0)))
    failures = {model: result.failure for model, result in results.items() if result.failure}
    assert {model: (f.stage, f.symptom) for model, f in failures.items()} == {
        "killer": ("simulate", Symptom.WORKER_DIED),
        "hanging": ("simulate", Symptom.TIMED_OUT),
        "crasher": ("simulate", Symptom.WORKER_DIED),
        "quitter": ("simulate", Symptom.WORKER_DIED),
    }
    assert "SIGKILL" in failures["killer"].message
    assert "longer than 2 s" in failures["hanging"].message
    assert "SIGSEGV" in failures["crasher"].message
    assert "exit code 3" in failures["quitter"].message
    assert fakes.notes(tmp_path).count(f"run {specs[1].id}") == 1


def test_a_worker_without_memory_costs_its_own_trial_only(tmp_path: Path, executor: str) -> None:
    specs = [fakes.spec(model) for model in ("a", "starved", "b", "starved_library", "c")]
    results = by_model(run_sweep(specs, plan(tmp_path, executor)))
    failures = {model: result.failure for model, result in results.items() if result.failure}
    assert {model: (f.stage, f.symptom) for model, f in failures.items()} == {
        "starved": ("simulate", Symptom.OUT_OF_MEMORY),
        "starved_library": ("simulate", Symptom.OUT_OF_MEMORY),
    }
    assert "Unable to allocate" in failures["starved"].message
    again = run_sweep(specs, plan(tmp_path, executor, retry_failed=True))
    assert [result.spec.model for result in again if not result.ok] == ["starved", "starved_library"]
    assert fakes.notes(tmp_path).count(f"run {specs[0].id}") == 1
    assert fakes.notes(tmp_path).count(f"run {specs[1].id}") == 2


def test_what_failed_is_retried_on_demand(tmp_path: Path, executor: str) -> None:
    specs = [fakes.spec(model) for model in ("a", "refused")]
    for retry, runs in ((False, 1), (False, 1), (True, 2)):
        found = run_sweep(specs, plan(tmp_path, executor, retry_failed=retry))
        assert [result.ok for result in found] == [True, False]
        assert [fakes.notes(tmp_path).count(f"run {spec.id}") for spec in specs] == [1, runs]


@pytest.mark.parametrize("model", ["killer_once", "lacking", "unreadable", "hungry"])
def test_what_the_environment_did_is_never_reused(tmp_path: Path, model: str) -> None:
    spec = fakes.spec(model)
    for count in (1, 2):
        (result,) = run_sweep([spec], plan(tmp_path, "serial"))
        assert fakes.notes(tmp_path).count(f"run {spec.id}") == count
    if model == "killer_once":
        assert result.ok
    elif model == "hungry":
        assert result.failure is not None
        assert result.failure.symptom is Symptom.OUT_OF_MEMORY
    else:
        assert result.failure is not None
        assert result.failure.symptom is Symptom.ENVIRONMENT


def test_finished_trials_are_reused(tmp_path: Path, executor: str) -> None:
    specs = [fakes.spec(model) for model in ("a", "refused")]
    first = run_sweep(specs, plan(tmp_path, executor))
    (tmp_path / "notes").unlink()
    log = fakes.Log()
    assert run_sweep(specs, plan(tmp_path, executor), [log]) == first
    assert fakes.notes(tmp_path) == []
    assert [reused for _, reused in log.results] == [True, True]


@pytest.mark.nightly
def test_fresh_runs_all_and_retry_failed_only_what_failed(tmp_path: Path) -> None:
    specs = [fakes.spec(model) for model in ("a", "refused")]
    run_sweep(specs, plan(tmp_path, "serial"))
    (tmp_path / "notes").unlink()
    run_sweep(specs, plan(tmp_path, "serial", retry_failed=True))
    assert fakes.notes(tmp_path) == ["prepare refused", f"run {specs[1].id}"]
    (tmp_path / "notes").unlink()
    run_sweep(specs, plan(tmp_path, "serial", fresh=True))
    assert len(fakes.notes(tmp_path)) == 4


def test_trials_that_differ_in_settings_only_share_a_preparation() -> None:
    specs = [fakes.spec("a"), fakes.spec("b"), fakes.spec("a", fakes.KL), fakes.spec("a", march=March("bayes"))]
    _ = [spec.key for spec in specs]  # a key that was asked for must not tell trials apart
    assert [[spec.id for spec in preparation.specs] for preparation in group(specs)] == [
        ["a/bayes-e/max", "a/bayes-e/kl"],
        ["b/bayes-e/max"],
        ["a/bayes/max"],
    ]


def test_an_interrupt_ends_the_sweep_and_keeps_finished_trials(tmp_path: Path) -> None:
    class Interrupt(fakes.Log):
        def finished(self, result: TrialResult, *, reused: bool) -> None:
            raise KeyboardInterrupt

    specs = [fakes.spec(model) for model in ("a", "b", "c", "d", "e", "f")]
    with pytest.raises(KeyboardInterrupt):
        run_sweep(specs, plan(tmp_path, "serial"), [Interrupt()])
    kept = [spec for spec in specs if Bench(tmp_path).store.get(spec)]
    assert 1 <= len(kept) < len(specs)
    assert all(result.ok for result in run_sweep(specs, plan(tmp_path, "serial")))


@pytest.mark.parametrize(
    "to_group", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["ctrl-c", "kill -INT"]
)
def test_sigint_ends_a_sweep_on_processes_without_a_word_of_theirs(tmp_path: Path, to_group: bool) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.harness import fakes;"
        "from tests.harness.execution import test_coordinator as t;"
        "from harness.execution import coordinator as execution;"
        "specs = [fakes.spec('slow', evaluation_samples=n) for n in range(1, 9)]\n"
        "if __name__ == '__main__':\n"
        "    try: execution.run_sweep(specs, t.plan(Path(sys.argv[1]), 'processes'))\n"
        "    except KeyboardInterrupt: sys.exit(130)\n"
    )
    script = tmp_path / "sweep.py"
    script.write_text(code)
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job's children ignore it
    )
    wait_for(lambda: any(line.startswith("run") for line in fakes.notes(tmp_path)))
    if to_group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == ""
    assert len(fakes.notes(tmp_path)) < 8
    wait_for(lambda: not descendants(process.pid))


def descendants(session: int) -> list[int]:
    """Processes of a session; it was opened for the sweep alone."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("threads", "allowed are processes, serial, dask://host:port and package.module:factory"),
        ("no.such.module:x", "cannot be imported"),
        ("tests.harness.fakes:nothing", "cannot be imported"),
        ("tests.harness.fakes:SAMPLES", "is int, expected a function"),
    ],
)
def test_an_unknown_executor_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        executor_factory(name)


def test_no_trials_start_no_executor(tmp_path: Path) -> None:
    def factory(workers: int) -> execution.Executor:
        raise AssertionError("nothing to do")

    specs: list[TrialSpec] = []
    assert run_sweep(specs, Plan(bench=Bench(tmp_path), executor=factory)) == []


def test_a_budget_of_time_ends_what_is_running_and_begins_nothing(tmp_path: Path, executor: str) -> None:
    specs = [fakes.spec("slow", evaluation_samples=number) for number in range(1, 9)]
    first = run_sweep(specs, plan(tmp_path, executor, seconds=1.0))
    assert len(first) < len(specs)
    assert all(result.ok for result in first)
    second = run_sweep(specs[:4], plan(tmp_path, executor))
    assert [result.spec for result in second] == specs[:4]
    runs = [note for note in fakes.notes(tmp_path) if note.startswith("run")]
    assert len(runs) == len({result.spec.key for result in [*first, *second]}), "a finished trial was computed again"


@pytest.mark.parametrize(("models", "threads"), [("a", 6), ("ab", 3), ("abcd", 3)])
def test_few_preparations_share_the_threads_of_all_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: str, threads: int
) -> None:
    given, task = {}, Plan.task

    def recorded(self: Plan, key: str, share: int = 1, **what: Any) -> Any:
        made = task(self, key, share, **what)
        given["trial" if made.preparation is None else "preparation"] = made.threads
        return made

    monkeypatch.setattr(Plan, "task", recorded)
    workers = replace(plan(tmp_path, "serial"), bench=Bench(tmp_path, threads=3))
    run_sweep([fakes.spec(model) for model in models], workers)
    assert given == {"preparation": threads, "trial": 3}


@pytest.mark.parametrize(
    ("executor", "done", "most", "begun"),
    [("processes", 0, None, 2), ("processes", 2, None, 1), ("processes", 0, 1, 1), ("serial", 0, None, 1)],
)
def test_workers_begin_before_there_is_work_for_them(
    executor: str, done: int, most: int | None, begun: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, str]] = []
    pool = SimpleNamespace(begin=lambda count, stages: asked.append((count, stages)))
    monkeypatch.setattr("harness.execution.coordinator.children", lambda: pool)
    wanted, specs = plan(tmp_path, executor, most_trials=most), [fakes.spec(name) for name in ("a", "b", "c")]
    for spec in specs[:done]:
        wanted.bench.store.keep(Outcome(fakes.result(spec)))
    wanted.begin_workers(specs)
    replace(wanted, executor=lambda workers: pytest.fail("nothing runs")).begin_workers(specs)
    assert asked == [(begun, wanted.stages)]


def test_a_budget_leaves_trials_for_the_next_run(tmp_path: Path) -> None:
    specs = [fakes.spec(model) for model in ("a", "b", "c")]
    first = run_sweep(specs, plan(tmp_path, "serial", most_trials=2))
    assert [result.spec.model for result in first] == ["a", "b"]
    assert len(run_sweep(specs, plan(tmp_path, "serial", most_trials=2))) == 3
    assert run_sweep([fakes.spec("d")], plan(tmp_path, "serial", seconds=0.0)) == []


def test_fail_fast_begins_nothing_after_a_failure(tmp_path: Path) -> None:
    specs = [fakes.spec("defect", evaluation_samples=number) for number in range(1, 6)]
    found = run_sweep(specs, plan(tmp_path, "serial", fail_fast=True))
    assert 0 < len(found) < len(specs)
    assert not found[0].ok
    good = [fakes.spec(model) for model in ("a", "b", "c")]
    assert len(run_sweep(good, plan(tmp_path, "serial", fail_fast=True))) == 3


def test_what_a_long_trial_is_at_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_LOOK_SECONDS", 0.2)
    log, spec = fakes.Log(), fakes.spec("slow")
    run_sweep([spec], plan(tmp_path, "serial"), [log])
    assert {(each.spec, each.stage) for each in log.working} == {(spec, "simulate")}
    assert 0 <= log.working[0].seconds <= log.working[-1].seconds < 60
