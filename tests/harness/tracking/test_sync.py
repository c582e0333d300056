"""Records that wait for MLflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError
from harness.files.cache import load_json
from harness.files.strict_yaml import parse
from harness.suites.suite import Suite
from harness.tracking import sync
from harness.tracking.sync import PendingRecord, SharedSeconds, keep, pending, record_folder, replay
from harness.tracking.tracker import Closing, RunStatus, SweepStart
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes

SUITE = parse({"name": "mine", "version": 2, "models": "net", "sweep": {}}, Suite, "x.yaml")
GOOD, LOST = fakes.spec(), fakes.spec(settings=fakes.KL)


def record(sweep: str = "id", **changes: Any) -> PendingRecord:
    fields: dict[str, Any] = {
        "sweep": sweep,
        "suite": SUITE,
        "trials": (GOOD, LOST),
        "reused": frozenset({GOOD.key}),
        "shared": (SharedSeconds(model="net", march="bayes-e", seconds={"statistics": 1.5}),),
        "started_at": "1970-01-01T00:01:40+00:00",
        "tracking_uri": "meant",
        "closing": Closing(status=RunStatus.FAILED, at=7.0),
    }
    return PendingRecord(**{**fields, **changes})


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is written to the store; a URI of ``away`` has none."""
    found: list[Any] = []

    class Tracker:
        def __init__(self, name: str, uri: str, workdir: Path) -> None:
            self.name, self.uri = name, uri

        def failures(self) -> tuple[type[Exception], ...]:
            return (OSError,)

        def begin(self, start: SweepStart) -> None:
            if self.uri == "away":
                raise OSError("no\n route")
            found.append((start.suite.name, start.sweep, self.name, self.uri, start.started, start.specs))

        def trial(self, result: Any, *, reused: bool) -> None:
            found.append((result.spec.id, reused))

        def artefact(self, path: Path) -> None:
            found.append(path.name)

        def end(self, closing: Closing) -> None:
            found.append(closing.status.value)

    monkeypatch.setattr(sync, "open_tracker", Tracker)
    return found


def test_a_record_is_kept_with_copies_of_its_files(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("page")
    folder = keep(record(), [file], tmp_path)
    file.unlink()
    assert folder == record_folder(tmp_path, "id") == tmp_path / "unsynced" / "id"
    assert (folder / "report.html").read_text() == "page"
    assert load_json(PendingRecord, folder / "record.json") == record()


def test_whole_records_wait_the_oldest_first(tmp_path: Path) -> None:
    for age, name in enumerate(("b", "c", "a")):
        folder = keep(record(name), [], tmp_path)
        os.utime(folder / "record.json", (1000 - age, 1000 - age))
    (tmp_path / "unsynced" / "half").mkdir()
    assert [folder.name for folder in pending(tmp_path)] == ["a", "c", "b"]
    assert pending(tmp_path / "nowhere") == []


def test_a_replay_writes_what_has_results_and_forgets_the_record(tmp_path: Path, written: list[Any]) -> None:
    TrialStore(tmp_path / "trials").put(Outcome(fakes.result(GOOD)))
    (tmp_path / "trials.csv").write_text("table")
    folder = keep(record(), [tmp_path / "trials.csv"], tmp_path)
    assert replay(folder, tmp_path) == record()
    assert written == [
        ("mine", "id", "mlflow", "meant", 100.0, (GOOD, LOST)),
        (GOOD.id, True),
        "trials.csv",
        "FAILED",
    ]
    assert not folder.exists()


def test_another_store_may_be_named(tmp_path: Path, written: list[Any]) -> None:
    replay(keep(record(tracking_uri="away"), [], tmp_path), tmp_path, "elsewhere")
    assert written[0][3] == "elsewhere"


def test_a_store_that_is_away_keeps_the_record(tmp_path: Path, written: list[Any]) -> None:
    folder = keep(record(tracking_uri="away"), [], tmp_path)
    with pytest.raises(ConfigError, match=rf"^away: no route; the record stays in {folder}$"):
        replay(folder, tmp_path)
    assert pending(tmp_path) == [folder]


@pytest.mark.parametrize("damage", [{"started_at": "yesterday"}, None])
def test_a_damaged_record_is_named(tmp_path: Path, written: list[Any], damage: dict[str, str] | None) -> None:
    folder = keep(record(**(damage or {})), [], tmp_path)
    if damage is None:
        (folder / "record.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"record\.json: cannot be read"):
        replay(folder, tmp_path)
    assert written == []
    assert folder.is_dir()
