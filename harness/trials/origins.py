"""What a trial is made of: model and card, data, sources and tools; so that a difference of two nights has a name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.extensions import digests_of_metric
from harness.files.cache import load_json, save_json
from harness.files.strict_yaml import StrictModel
from harness.trials.artefacts import DIGITS
from harness.trials.trial import TrialSpec
from harness.zoo.cards import Labels, ModelCard, SplitUse, load_card, model_cards

ENVIRONMENTS = "environments"
"""Folder of the working directory that keeps what computed trials, by the digest that their keys hold."""


class Environment(StrictModel):
    """What computes trials.

    Attributes:
        version: of ptqlab, with a digest of all sources and tools.
        stages: digest of the sources of each stage, in the order of the pipeline.
        tools: versions by distribution, that of Python too, and what the vendor's command says.
        sources: digest of every source and data file by its path.
    """

    version: str = ""
    stages: Mapping[str, str] = {}
    tools: Mapping[str, str] = {}
    sources: Mapping[str, str] = {}


class ModelOrigin(StrictModel):
    """What a card and its files said when a sweep was planned.

    Attributes:
        file: SHA-256 of the model's file as it was found.
        preprocessing: the card's ``input_parameters``, as a converter's YAML file holds them.
        calibration, evaluation: which images of which split serve.
        data: name and options of the data set.
        data_digest: of its content.
        metric: name and options.
        evaluation_count: how many images the card evaluates.
        float_score, float_stderr: that the card promises.
        labelled: whether outputs are scored with labels, rather than with what the float model says.
    """

    file: str
    preprocessing: Mapping[str, str]
    calibration: str
    evaluation: str
    data: str
    data_digest: str
    metric: str
    evaluation_count: int = 0
    float_score: float
    float_stderr: float = 0.0
    labelled: bool = True


class SweepOrigin(StrictModel):
    """What a sweep is made of.

    Attributes:
        sweep: its id.
        models: by name.
        environment: what computes its trials.
    """

    sweep: str = ""
    models: Mapping[str, ModelOrigin] = {}
    environment: Environment = Environment()


def origins_of(specs: Iterable[TrialSpec]) -> dict[str, ModelOrigin]:
    """What the models of ``specs`` are, by name; without those that have no card."""
    known = set(model_cards())
    models = {spec.model: spec for spec in specs if spec.model in known}
    return {name: _origin(load_card(name), spec) for name, spec in models.items()}


def _origin(card: ModelCard, spec: TrialSpec) -> ModelOrigin:
    use = card.dataset
    return ModelOrigin(
        file=spec.file,
        preprocessing=card.converter_yaml(),
        calibration=_use(use.calibration),
        evaluation=_use(use.evaluation),
        data=_with_options(use.name, use.options),
        data_digest=spec.data,
        metric=_with_options(card.metric.name, {**card.metric.options, **card.metric.metadata}, own=True),
        evaluation_count=use.evaluation.count,
        float_score=card.float_score.value,
        float_stderr=card.float_score.stderr,
        labelled=card.metric.labels is Labels.DATA,
    )


def _use(use: SplitUse) -> str:
    return f"first {use.count} of split {use.split}"


def _with_options(name: str, options: Mapping[str, Any], *, own: bool = False) -> str:
    """``own``: whether the name may be that of the user's own code, which may change while its name stays."""
    digests = digests_of_metric(name, options) if own else []
    source = f" (source {', '.join(digest[:DIGITS] for digest in digests)})" if digests else ""
    return f"{name}{source} {json.dumps(dict(options), sort_keys=True, default=str)}" if options else f"{name}{source}"


def keep_environment(environment: Environment, engine: str, workdir: Path) -> None:
    """Keep what computes the trials whose spec has ``engine``, unless it is kept."""
    path = workdir / ENVIRONMENTS / f"{engine}.json"
    if kept_environment(engine, workdir) is None:
        save_json(environment, path)


def kept_environment(engine: str, workdir: Path) -> Environment | None:
    """What :func:`keep_environment` kept; None where nothing that this version can read."""
    try:
        return load_json(Environment, workdir / ENVIRONMENTS / f"{engine}.json")
    except (OSError, ValueError):
        return None
