"""Why a sweep differs from its baseline: what changed between the two nights, and what that did to each trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import PtqlabError
from harness.files.strict_yaml import StrictModel
from harness.gates.baseline import Baseline
from harness.gates.differences import (
    Cause,
    Kind,
    of_artefacts,
    of_data,
    of_environments,
    of_float,
    of_models,
    of_nodes,
)
from harness.gates.flips import Flips, flips_of
from harness.gates.made import Made, made_of
from harness.gates.verdicts import Verdict
from harness.trials.artefacts import Artefact
from harness.trials.origins import ModelOrigin, SweepOrigin
from harness.trials.trial import TrialResult, TrialStore
from harness.zoo.cards import Labels, load_card, model_cards

UNKNOWN = (
    "the baseline does not record what it was made from, because it was written by an older version; accept it again"
)


class TrialCauses(StrictModel):
    """Why a trial differs.

    Attributes:
        trial: its id.
        headline: the cause in a sentence.
        causes: all differences, those of what was put in first.
        flips: images with another result; None where they cannot be compared.
    """

    trial: str
    headline: str
    causes: tuple[Cause, ...] = ()
    flips: Flips | None = None


class Bisection(StrictModel):
    """What a bisection of the first bad trial found.

    Attributes:
        trial: id.
        finding: the first bad stage and node, or why there is none.
        report: file with all stages, relative to the sweep's folder; empty without one.
        command: that repeats it.
    """

    trial: str
    finding: str
    report: str = ""
    command: str = ""


class Explanation(StrictModel):
    """Why a sweep differs from its baseline.

    Attributes:
        shared: differences of sources and tools, and of models, whatever came of them.
        trials: those that do not pass.
        bisection: of the first of them; None where it was not asked for.
    """

    shared: tuple[Cause, ...] = ()
    trials: tuple[TrialCauses, ...] = ()
    bisection: Bisection | None = None

    def of(self, trial: str) -> TrialCauses | None:
        """Why the trial with id ``trial`` differs; None where it passes."""
        return next((each for each in self.trials if each.trial == trial), None)


def explain(
    baseline: Baseline,
    origin: SweepOrigin,
    results: Sequence[TrialResult],
    verdicts: Mapping[str, Verdict],
    store: TrialStore,
) -> Explanation:
    """Why ``results`` differ from ``baseline``.

    Args:
        baseline: that the results were compared with.
        origin: what the sweep was made of.
        results: of the sweep.
        verdicts: of the gate by trial id.
        store: has predictions and nodes.
    """
    known = bool(baseline.environment.sources)
    engine = of_environments(baseline.environment, origin.environment) if known else []
    models = {name: _model(baseline, origin, name) for name in origin.models}
    shared = [
        *engine,
        *(
            Cause(kind=cause.kind, text=f"{name}: {cause.text}")
            for name, pair in models.items()
            if pair
            for cause in of_models(*pair)
        ),
    ]
    samples: dict[str, _Samples] = {}
    trials = []
    for result in results:
        if verdicts.get(result.spec.id, Verdict.PASS) in _BAD and result.spec.id in baseline.trials:
            model = result.spec.model
            if model not in samples:
                samples[model] = _samples(model, result.spec.evaluation_samples)
            trials.append(_of_trial(baseline, result, models.get(model), engine, store, samples[model]))
    return Explanation(shared=tuple(shared), trials=tuple(trials))


_BAD = (Verdict.IMPROVEMENT, Verdict.REGRESSION, Verdict.ERROR)

_Pair = tuple[ModelOrigin, ModelOrigin] | None


def _model(baseline: Baseline, origin: SweepOrigin, name: str) -> _Pair:
    return (baseline.models[name], origin.models[name]) if name in baseline.models else None


def _of_trial(
    baseline: Baseline,
    result: TrialResult,
    origins: _Pair,
    engine: Sequence[Cause],
    store: TrialStore,
    samples: _Samples,
) -> TrialCauses:
    accepted = baseline.trials[result.spec.id]
    before, now = accepted.made, made_of(result, store)
    if before is None:
        return TrialCauses(trial=result.spec.id, headline=UNKNOWN)
    inputs = [
        *(of_models(*origins) if origins else ()),
        *of_data(origins, before, now, failed=not result.ok),
        *(engine if before.engine != now.engine else ()),
    ]
    inputs.sort(key=lambda cause: list(Kind).index(cause.kind))
    moved = of_float(before, now)
    effects = [each for each in (moved, of_artefacts(before, now)) if each is not None]
    effects += of_nodes(before.nodes, now.nodes) if now.nodes else ()
    return TrialCauses(
        trial=result.spec.id,
        headline=_headline(inputs, effects, _of_float_model(origins, before, now)),
        causes=(*inputs, *effects),
        flips=flips_of(result, accepted, store.predictions(result.spec.key), samples.labels, samples.files)
        if result.ok
        else None,
    )


def _of_float_model(origins: _Pair, before: Made, now: Made) -> str:
    """What of the float model is known to be as it was: its score, without labels its outputs; empty for nothing.

    Scored with its own answers, the float model has the same score whatever becomes of it.
    """
    if origins is None or all(origin.labelled for origin in origins):
        return "" if None in (before.float_score, now.float_score) else "the float model's score is the same"
    outputs = [made.artefacts.get(Artefact.FLOAT_OUTPUTS) for made in (before, now)]
    if None in outputs:
        return ""
    same = outputs[0] == outputs[1]
    return "the float model's outputs are the same" if same else "the float model's outputs differ"


def _headline(inputs: Sequence[Cause], effects: Sequence[Cause], float_model: str) -> str:
    """What was changed, what was not, and whether the float model moved with it.

    Args:
        inputs: differences of what was put in.
        effects: of what came of it.
        float_model: what is said of the float model where its score did not move.
    """
    kinds = list(dict.fromkeys(cause.kind for cause in inputs))
    same = [kind.value for kind in (Kind.MODEL, Kind.ENGINE) if kind not in kinds]
    parts = [f"{' and '.join(kind.value for kind in kinds)} changed" if kinds else "nothing recorded has changed"]
    if kinds and same:
        parts.append(f"{' and '.join(same)} the same")
    moved = next((cause.text for cause in effects if cause.kind is Kind.FLOAT), None)
    if moved is not None:
        suspects = [kind.value for kind in _MOVE_FLOAT if kind in kinds] or ["preprocessing or evaluation data"]
        parts.append(f"float {moved}, so look at {' and '.join(suspects)} before the quantisation")
    elif float_model:
        parts.append(float_model)
    cpu = next((cause.text for cause in effects if cause.text.startswith("newly on the CPU")), None)
    return "; ".join([*parts, cpu] if cpu else parts)


_MOVE_FLOAT = (Kind.MODEL, Kind.PREPROCESSING, Kind.EVALUATION_DATA, Kind.METRIC, Kind.TOOLS)
"""What can move the float model's score."""


@dataclass(frozen=True)
class _Samples:
    """Evaluation samples of a model.

    Attributes:
        labels: class of each, shape (samples,); None where they have none, or the data cannot be opened any more.
        files: of all; empty where one has none of its own.
    """

    labels: NDArray[np.int64] | None = None
    files: tuple[Path, ...] = ()


def _samples(model: str, count: int) -> _Samples:
    if model not in model_cards():
        return _Samples()
    try:
        card = load_card(model)
        split = card.open_dataset().split(card.dataset.evaluation.split)
        files = [file for index in range(min(count, len(split))) if (file := split.file_of(index)) is not None]
        # without labels of the data's own they may be of another task than the network's
        targets = split.targets(0, count) if card.metric.labels is Labels.DATA else None
    except PtqlabError:
        return _Samples()
    classes = targets if isinstance(targets, np.ndarray) and targets.dtype.kind == "i" else None
    return _Samples(
        labels=None if classes is None else np.asarray(classes, np.int64),
        files=tuple(files) if len(files) == count else (),
    )


def several(trials: Sequence[str]) -> str:
    """Ids of trials, the first :data:`_NAMED` by name."""
    more = [f"{len(trials) - _NAMED} more"] if len(trials) > _NAMED else []
    return ", ".join([*trials[:_NAMED], *more])


_NAMED = 3


def _details(trial: TrialCauses, shared: Sequence[Cause]) -> list[str]:
    """The headline of a trial, then what differs in it and is not among ``shared``."""
    lines = [trial.headline, *(str(cause) for cause in trial.causes if cause not in shared)]
    if trial.flips is not None:
        where = f" in {trial.flips.folder}" if trial.flips.folder else ""
        lines.append(f"images{where}: {trial.flips.worse} worse, {trial.flips.better} better")
        lines += [f"  {flip}" for flip in trial.flips.images]
        lines += [
            f"  class {delta.label}: {delta.before:.4f} → {delta.now:.4f} of {delta.count}"
            for delta in trial.flips.classes
        ]
    return lines


def in_words(explanation: Explanation) -> list[str]:
    """The explanation for a terminal, a line each; trials that differ in the same way are named together."""
    lines = [f"changed since the baseline: {cause}" for cause in explanation.shared]
    alike: dict[tuple[str, ...], list[str]] = {}
    for trial in explanation.trials:
        alike.setdefault(tuple(_details(trial, explanation.shared)), []).append(trial.trial)
    for (headline, *details), trials in alike.items():
        lines.append(f"{several(trials)}: {headline}")
        lines += [f"  {detail}" for detail in details]
    if explanation.bisection is not None:
        found = explanation.bisection
        lines.append(f"bisection of {found.trial}: {found.finding}")
        lines += [f"  report {found.report}"] if found.report else []
        lines += [f"  again: {found.command}"] if found.command else []
    return lines
