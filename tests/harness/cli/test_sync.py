"""``ptqlab sync``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from engine.errors import ConfigError
from harness.cli import sync as command
from harness.cli.main import app
from harness.tracking import sync as syncing
from harness.tracking import unfinished


def call(folder: Path) -> Result:
    return CliRunner().invoke(app, [command.sync.__name__, "--workdir", str(folder)])


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str], Any], list[str]]:
    """Sweeps that are kept, those that were killed or the error of their closing; what was forgotten."""

    def prepare(kept: list[str], killed: Any) -> list[str]:
        forgotten: list[str] = []

        def close(workdir: Path) -> Any:
            if isinstance(killed, Exception):
                raise killed
            return killed

        record = SimpleNamespace(suite=SimpleNamespace(name="mine"), trials=(1, 2), sweep="id")
        monkeypatch.setattr(syncing, "pending", lambda workdir: [Path(name) for name in kept])
        monkeypatch.setattr(syncing, "replay", lambda folder, workdir, uri: record)
        monkeypatch.setattr(unfinished, "forget", lambda sweep, workdir: forgotten.append(sweep))
        monkeypatch.setattr(unfinished, "close_unfinished", close)
        return forgotten

    return prepare


def test_sync_says_what_it_wrote_and_closed(store: Any, tmp_path: Path) -> None:
    forgotten = store(["a"], [SimpleNamespace(suite="other", sweep="killed", tracker="mlflow")])
    found = call(tmp_path)
    assert found.output.splitlines() == [
        "mine, sweep id: 2 trials written",
        "other, sweep killed: was killed; its run is now closed in MLflow",
    ]
    assert forgotten == ["id"]
    store([], [])
    assert call(tmp_path).output == "nothing to sync\n"


def test_sync_names_a_store_that_is_away(store: Any, tmp_path: Path) -> None:
    store([], ConfigError("killed sweeps stay open in MLflow: no route"))
    error = call(tmp_path).exception
    assert isinstance(error, ConfigError)
    assert str(error) == "killed sweeps stay open in MLflow: no route"
