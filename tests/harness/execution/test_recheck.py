"""Rotating recomputation: what is due, what is compared, and what a difference does to the verdict."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from harness.execution.coordinator import Plan, run_sweep, serial
from harness.execution.recheck import difference_of, recheck, tonights
from harness.files.strict_yaml import parse
from harness.gates.judgement import References
from harness.gates.verdicts import Verdict
from harness.suites.suite import Suite
from harness.sweeps.sweep import run_suite
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome
from tests.harness import fakes

SUITE = parse({"name": "mine", "version": 1, "models": "net", "sweep": {}}, Suite, "x.yaml")


def plan(folder: Path, **changes: object) -> Plan:
    return Plan(bench=Bench(folder), executor=serial, stages="tests.harness.fakes", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "nights"), [(1, 14), (5, 14), (32, 14), (40, 3)])
def test_every_trial_is_due_once_in_a_round(count: int, nights: int) -> None:
    specs = [fakes.spec(f"net{index}") for index in range(count)]
    due = [tonights(specs, nights, day) for day in range(738000, 738000 + nights)]
    assert all(due)
    found = Counter(spec.model for night in due for spec in night)
    assert set(found) == {spec.model for spec in specs}
    if count >= nights:
        assert set(found.values()) == {1}
    assert tonights([], nights, 1) == []
    assert tonights(specs, 0, 1) == []


def test_a_difference_is_named_figure_by_figure() -> None:
    spec = fakes.spec()
    stored = fakes.result(spec, value=0.9)
    assert difference_of(stored, fakes.result(spec, value=0.9)) == ""
    assert "accuracy.quantized is 0.9 as stored and 0.8 recomputed" in difference_of(stored, fakes.result(spec, 0.8))
    assert "recomputed, it fails in stage quantize" in difference_of(stored, fakes.failed(spec))
    assert "the stored result is a failure" in difference_of(fakes.failed(spec), stored)
    assert difference_of(fakes.failed(spec), fakes.failed(spec)) == ""


@pytest.mark.nightly
def test_what_is_not_reproducible_is_an_error_of_the_night(tmp_path: Path) -> None:
    spec = fakes.spec("net")
    run_sweep([spec], plan(tmp_path))
    assert {check.verdict for check in recheck([spec], plan(tmp_path)).values()} == {Verdict.PASS}
    assert not list(tmp_path.glob(".recheck*"))
    again = run_suite(SUITE, plan(tmp_path), specs=[spec], record=False, references=References(), recheck_nights=1)
    assert (again.summary.reused, again.summary.rechecked) == (1, 1)
    assert again.verdict is not Verdict.ERROR

    store = Bench(tmp_path).store
    store.put(Outcome(fakes.result(spec, value=0.91), fakes.NODES, {"per_sample": fakes.hits(36)}))
    found = run_suite(SUITE, plan(tmp_path), specs=[spec], record=False, references=References(), recheck_nights=1)
    assert found.verdict is Verdict.ERROR
    (verdict,) = found.verdicts
    assert "not reproducible: " in verdict.message
    assert "accuracy.quantized is 0.91 as stored and 0.9 recomputed" in verdict.message


def test_a_fresh_sweep_leaves_no_cache_of_its_own(tmp_path: Path) -> None:
    spec = fakes.spec("net")
    for _ in range(2):
        run_sweep([spec], plan(tmp_path, fresh=True))
    assert fakes.notes(tmp_path).count(f"run {spec.id}") == 2
    assert not list(tmp_path.glob(".fresh*"))
