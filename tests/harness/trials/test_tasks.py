"""Where workers work, and which stage a task is in."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import MissingError, UnsupportedError
from harness.trials import tasks
from harness.trials.tasks import SHARED_SETTINGS, Bench, Preparation, StageClock
from harness.trials.trial import Symptom
from tests.harness import fakes


def test_a_bench_has_its_folders(tmp_path: Path) -> None:
    bench = Bench(tmp_path, cache_name="fresh")
    assert bench.journal("key") == tmp_path / "running" / "key"
    bench.store.put(fakes.Outcome(fakes.result(fakes.spec())))
    assert (tmp_path / "trials").is_dir()
    assert bench.cache.path("kind", "key", ".npz").is_relative_to(tmp_path / "fresh")


def test_fingerprints_that_are_known_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "fingerprint_of", lambda module: SimpleNamespace(digest=f"computed {module}"))
    bench = Bench(Path(), fingerprints={"known": "given"})
    stages: Any = [SimpleNamespace(module=name) for name in ("known", "other")]
    assert [bench.fingerprint(stage) for stage in stages] == ["given", "computed other"]


def test_preparations_are_told_apart_by_their_trials() -> None:
    first, second = fakes.spec(), fakes.spec(settings=fakes.KL)
    both = Preparation(specs=(first, second))
    assert both.settings == [first.settings, second.settings]
    assert both.key == Preparation(specs=(first, second)).key != Preparation(specs=(first,)).key


def test_what_a_preparation_shares() -> None:
    expected = {"input_type_rt", "calibration_seed", "order_independent_kl", "cross_layer_equalization"}
    assert set(SHARED_SETTINGS) == expected


class TestStageClock:
    def test_times_add_up_and_the_journal_names_the_stage(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = iter([0.0, 1.5, 10.0, 12.0, 20.0, 20.25])
        monkeypatch.setattr(time, "perf_counter", lambda: next(now))
        clock = StageClock(tmp_path / "running" / "key")
        for name in ("a", "b", "a"):
            with clock.stage(name):
                assert clock.journal.read_text() == name
        assert clock.seconds == {"a": 1.75, "b": 2.0}
        clock.close()
        clock.close()
        assert not clock.journal.exists()

    @pytest.mark.parametrize(
        ("error", "symptom"),
        [(UnsupportedError("a\n  b"), Symptom.REFUSED), (MissingError("a b"), Symptom.ENVIRONMENT)],
    )
    def test_an_error_is_a_failure_of_the_stage_that_ran_last(
        self, tmp_path: Path, error: Any, symptom: Symptom
    ) -> None:
        clock = StageClock(tmp_path / "journal")
        assert clock.failure(error).stage == "start"
        with pytest.raises(type(error)), clock.stage("quantize"):
            raise error
        found = clock.failure(error)
        assert (found.stage, found.symptom, found.message) == ("quantize", symptom, "a b")
