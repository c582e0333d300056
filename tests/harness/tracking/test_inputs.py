"""What MLflow is told that a trial reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tracking import inputs
from harness.tracking.inputs import describe_inputs
from harness.tracking.mlflow_store import connect
from harness.zoo.cards import load_card
from tests.harness import fakes


def test_data_sets_by_split_and_the_model_once(tmp_path: Path) -> None:
    client = connect(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.create_experiment("mine", artifact_location=(tmp_path / "files").as_uri())
    assert describe_inputs(client, experiment, fakes.spec("no_such_card")) is None
    first, again = (describe_inputs(client, experiment, fakes.spec("mnist_lenet")) for _ in range(2))
    assert first is not None
    assert again is not None
    assert [found.dataset.name for found in first.datasets] == ["mnist/calibration", "mnist/evaluation"]
    assert [model.model_id for model in first.models] == [model.model_id for model in again.models]


def test_a_model_whose_name_holds_points_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_card("mnist_lenet").model_copy(update={"name": "net.v1.2"})
    monkeypatch.setattr(inputs, "load_card", lambda _: card)
    client = connect(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.create_experiment("net.v1.2", artifact_location=(tmp_path / "files").as_uri())
    first, again = (describe_inputs(client, experiment, fakes.spec("net.v1.2")) for _ in range(2))
    assert first is not None
    assert again is not None
    assert [model.model_id for model in first.models] == [model.model_id for model in again.models]
    (model,) = client.search_logged_models([experiment])
    assert (model.name, model.tags["lab.digest"]) == ("net_v1_2", card.digest)
