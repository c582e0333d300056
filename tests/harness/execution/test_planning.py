"""Specs of trials: a model file that was overwritten is another trial, which fails with a clear message."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.chips import March
from engine.errors import MissingError, ModelError
from harness.execution.planning import resolve
from harness.files.strict_yaml import parse
from harness.suites.settings import Settings
from harness.suites.suite import Point, Suite
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome, TrialSpec
from harness.zoo import cards
from harness.zoo.cards import load_card
from tests.harness import fakes

SUITE = parse({"name": "mine", "version": 1, "models": "mnist_lenet", "sweep": {}}, Suite, "x.yaml")
POINT = Point(model="mnist_lenet", march=March("bayes-e"), settings=Settings())


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own that holds the card and its model."""
    folder = tmp_path / "suites" / "zoo"
    folder.mkdir(parents=True)
    original = cards.model_cards()["mnist_lenet"]
    (folder / original.name).write_bytes(original.read_bytes())
    source = load_card("mnist_lenet").source.bundled
    assert source is not None
    (folder / source).parent.mkdir(parents=True, exist_ok=True)
    (folder / source).write_bytes((original.parent / source).read_bytes())
    monkeypatch.setenv("PTQLAB_SUITES", str(tmp_path / "suites"))
    return folder / source


def spec() -> TrialSpec:
    (found,) = resolve(SUITE, [POINT])
    return found


def test_an_overwritten_model_is_never_answered_with_old_results(zoo: Path, tmp_path: Path) -> None:
    before, content = spec(), zoo.read_bytes()
    store = Bench(tmp_path / "work").store
    store.put(Outcome(fakes.result(before)))
    assert store.get(spec()) is not None
    zoo.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    changed = spec()
    assert changed.file != before.file
    assert store.get(changed) is None
    with pytest.raises(ModelError, match=f"has SHA-256 {changed.file}, but the card was written for {before.file}"):
        load_card("mnist_lenet").model_path()
    zoo.unlink()
    assert spec().file == "absent"
    assert store.get(spec()) is None
    with pytest.raises(MissingError, match="cannot be read"):
        load_card("mnist_lenet").model_path()
    zoo.write_bytes(content)
    assert spec() == before
