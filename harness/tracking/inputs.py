"""What MLflow is told that a trial reads: its data sets by split, and the float model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import PtqlabError
from harness.datasets import load_dataset_card
from harness.trials.trial import TrialSpec
from harness.zoo.cards import ModelCard, load_card

if TYPE_CHECKING:
    from mlflow import MlflowClient

_DIGEST_LENGTH = 36
"""Longest digest of a dataset that every MLflow store takes."""


@dataclass(frozen=True)
class Inputs:
    """In MLflow's own types, see ``MlflowClient.log_inputs``."""

    datasets: list[Any]
    models: list[Any]


def describe_inputs(client: MlflowClient, experiment: str, spec: TrialSpec) -> Inputs | None:
    """The data sets and the float model that a trial reads; None where its card is gone since."""
    try:
        card = load_card(spec.model)
        data = load_dataset_card(card.dataset.name)
    except PtqlabError:
        return None
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput

    datasets = [
        DatasetInput(
            Dataset(
                name=f"{data.name}/{use.split}",
                digest=spec.data[:_DIGEST_LENGTH],
                source_type="ptqlab",
                source=data.source,
                profile=f'{{"split": "{use.split}", "num_rows": {use.count}}}',
            ),
            [InputTag("mlflow.data.context", context)],
        )
        for context, use in (("calibration", card.dataset.calibration), ("evaluation", card.dataset.evaluation))
    ]
    return Inputs(datasets, [LoggedModelInput(_external_model(client, experiment, card))])


def _external_model(client: MlflowClient, experiment: str, card: ModelCard) -> str:
    """Id of the float model in the store, which holds its description, not its file."""
    name = card.name.replace(".", "_")  # MLflow's names of models hold none; the digest tells models apart
    found = client.search_logged_models([experiment], f"name = '{name}'")
    for model in found:
        if model.tags.get("lab.digest") == card.digest:
            return str(model.model_id)
    created = client.create_logged_model(
        experiment,
        name=name,
        tags={"mlflow.model.isExternal": "true", "lab.digest": card.digest, "lab.licence": card.licence},
        params={"task": card.task.value, "origin": card.origin[:500], "version": str(card.version)},
        model_type="onnx",
    )
    client.finalize_logged_model(created.model_id, "READY")
    return str(created.model_id)
