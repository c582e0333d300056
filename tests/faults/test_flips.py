"""Kept files with one bit flipped, every byte of small ones; ``python -m tests.faults.flips`` takes real ones."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from harness.execution.coordinator import Plan, run_sweep, serial
from harness.files.cache import Cache
from harness.gates.nights import Night, write_nights
from harness.gates.verdicts import Verdict
from harness.trials.origins import Environment, keep_environment
from harness.trials.sums import DamagedError
from harness.trials.tasks import Bench
from tests.faults.flips import flipped, unnoticed
from tests.harness import fakes


def keep_all(folder: Path) -> None:
    """A file or two of most kinds that are kept."""
    work = folder / "work"
    run_sweep([fakes.spec()], Plan(Bench(work), executor=serial, stages="tests.harness.fakes"))
    Cache(work / "cache").get("score", "key", fakes.TEXT, lambda: "0.875")
    night = Night(sweep="s", started_at="2026-01-02T03:04:05+00:00", version=1, verdict=Verdict.PASS, engine="0")
    write_nights([night, night.model_copy(update={"sweep": "t"})], work / "sweeps" / "faults")
    keep_environment(Environment(version="0"), "engine", work)


@pytest.mark.nightly
def test_every_byte_of_every_kept_file(tmp_path: Path) -> None:
    keep_all(tmp_path)
    tried: Counter[str] = Counter()
    assert unnoticed(tmp_path, 4000, random.Random(0), tried) == []
    assert set(tried) >= {"work/cache/*/[!.]*", "work/trials/*/*", "work/sweeps/*/nights.jsonl"}
    assert tried.total() > 2000


def test_a_damaged_trial_is_reported_and_computed_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan, spec = Plan(Bench(tmp_path), executor=serial, stages="tests.harness.fakes"), fakes.spec()
    (first,) = run_sweep([spec], plan)
    result = plan.bench.store.folder(spec.key) / "result.json"
    result.write_bytes(result.read_bytes().replace(b'"value": 0.9', b'"value": 0.8'))
    assert plan.bench.store.get(spec) is None
    assert run_sweep([spec], plan) == [first]
    assert f"{result}: is damaged: its SHA-256 differs; run the suite again" in caplog.text
    assert plan.bench.store.get(spec) == first
    assert fakes.notes(tmp_path).count(f"run {spec.id}") == 2


def test_damaged_arrays_are_never_handed_on(tmp_path: Path) -> None:
    plan, spec = Plan(Bench(tmp_path), executor=serial, stages="tests.harness.fakes"), fakes.spec()
    run_sweep([spec], plan)
    for name, read in (("predictions.npz", plan.bench.store.predictions), ("nodes.csv", plan.bench.store.nodes)):
        path = plan.bench.store.folder(spec.key) / name
        content = path.read_bytes()
        path.write_bytes(next(flipped(content, 1, random.Random(1))))
        with pytest.raises(DamagedError, match=name):
            read(spec.key)
        path.write_bytes(content)
        assert read(spec.key)
