"""``ptqlab ls`` and ``validate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.registry import PLUGINS
from harness import extensions
from harness.cli.listing import Listed, list_things, validate
from harness.datasets import list_dataset_cards
from harness.extensions import COLUMNS
from harness.report.columns import Column, Value
from harness.suites.suite import bundled_suites
from harness.trials.trial import TrialResult, TrialStore
from harness.zoo.cards import list_cards, load_card
from tests.registered import registered


def test_models_stand_with_metric_score_and_tags(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    list_things(Listed.MODELS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["model", "metric", "float", "tags"]
    names = [line.split()[0] for line in lines[1:] if line[:1].strip()]
    assert names == [card.name for card in list_cards()]
    score = load_card("mnist_lenet").float_score.value
    (lenet,) = [line for line in lines if line.startswith("mnist_lenet ")]
    assert lenet.split()[1:3] == ["top1", f"{score:.4f}"]
    assert "classification, bundled, mnist, dense" in lenet


def test_suites_and_data_sets(capsys: pytest.CaptureFixture[str]) -> None:
    list_things(Listed.SUITES)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:] if line[:1].strip()] == list(bundled_suites())
    list_things(Listed.DATASETS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:] if line[:1].strip()] == [card.name for card in list_dataset_cards()]


def test_a_list_is_json_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    list_things(Listed.DATASETS, as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["data set"] for row in rows] == [card.name for card in list_dataset_cards()]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "{name: mine, version: 3, models: [mnist_lenet, mnist_resnet8], "
        "sweep: {calibration_type: [max, mix], per_channel: [false, true]}}"
    )
    return path


def test_a_suite_is_counted_without_a_run(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    validate(str(suite), quick=True)
    out, err = capsys.readouterr()
    assert out == f"{suite}: suite mine version 3 is valid: 6 trials, 2 models\n"
    assert err == "skipped 1 combination: per_channel has no meaning with calibration_type 'mix'\n"


def test_its_trials_are_listed_on_demand(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    validate(str(suite), verbose=True, quick=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert lines[1] == "mnist_lenet/bayes-e/max"


def test_a_wrong_suite_is_named_by_its_file(suite: Path) -> None:
    suite.write_text("{name: mine, version: 1, models: nothing, sweep: {}}")
    with pytest.raises(ConfigError, match=r"mine\.yaml: models: unknown model 'nothing'"):
        validate(str(suite))


class Own(Column):
    """Of no use."""

    heading = "own"

    def value(self, result: TrialResult, store: TrialStore) -> Value:
        return None


def test_extensions_are_listed_or_it_is_said_how_some_are_registered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PLUGINS, raising=False)
    monkeypatch.setattr(extensions, "REGISTRIES", (COLUMNS,))
    list_things(Listed.EXTENSIONS)
    assert "no extensions; PTQLAB_PLUGINS names files" in " ".join(capsys.readouterr().out.split())
    with registered(COLUMNS, own_of_tests=Own):
        list_things(Listed.EXTENSIONS, as_json=True)
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["kind"], row["name"]) == ("page column", "own_of_tests")
