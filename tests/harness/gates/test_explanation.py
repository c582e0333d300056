"""Why a sweep differs from its baseline: the headline names what changed, and what did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.gates import explanation
from harness.gates.baseline import Baseline, updated_baseline
from harness.gates.differences import Cause, Kind
from harness.gates.explanation import UNKNOWN, Explanation, TrialCauses, explain, in_words
from harness.gates.made import KeptNode
from harness.gates.verdicts import Verdict
from harness.trials.artefacts import Artefact
from harness.trials.figures import TrialNode
from harness.trials.origins import Environment, ModelOrigin, SweepOrigin
from harness.trials.trial import Outcome, TrialResult, TrialStore
from harness.zoo.cards import Labels, load_card
from tests.harness import fakes
from tests.harness.finished import suite

SUITE = suite()
SPEC = fakes.spec()
MODEL = ModelOrigin(
    file="file",
    preprocessing={"mean_value": "0"},
    calibration="first 10 of split train",
    evaluation="first 40 of split evaluation",
    data="digits",
    data_digest="some-data",
    metric="top1",
    float_score=0.95,
)
ORIGIN = SweepOrigin(
    models={"net": MODEL}, environment=Environment(version="1", stages={"quantize": "a"}, sources={"a.py": "1"})
)


def kept(folder: Path, spec: Any = SPEC, nodes: tuple[TrialNode, ...] = fakes.NODES, **changes: Any) -> TrialResult:
    """A result with artefacts, in the store."""
    artefacts = {Artefact.SOURCE: "s", Artefact.CALIBRATION_IMAGES: "c", Artefact.EVALUATION_IMAGES: "e"}
    result = fakes.result(spec).model_copy(update={"artefacts": artefacts, **changes})
    TrialStore(folder).put(Outcome(result, nodes, {"per_sample": fakes.hits(36)}))
    return result


def baseline(folder: Path) -> Baseline:
    return updated_baseline(None, SUITE, [kept(folder)], TrialStore(folder), ORIGIN)


def explained(
    folder: Path, result: TrialResult, origin: SweepOrigin = ORIGIN, verdict: Verdict = Verdict.REGRESSION
) -> Explanation:
    accepted = Baseline.model_validate_json(baseline(folder / "before").model_dump_json())
    return explain(accepted, origin, [result], {result.spec.id: verdict}, TrialStore(folder))


def test_what_changed_and_what_did_not(tmp_path: Path) -> None:
    origin = ORIGIN.model_copy(update={"models": {"net": MODEL.model_copy(update={"file": "other"})}})
    found = explained(tmp_path, kept(tmp_path), origin)
    (trial,) = found.trials
    assert trial.headline == "model file changed; engine the same; the float model's score is the same"
    assert [str(cause) for cause in found.shared] == ["model file: net: SHA-256 file → other"]


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ("f", "; the float model's outputs are the same"),
        ("g", "; the float model's outputs differ"),
        (None, ""),
    ],
)
def test_without_labels_nothing_is_said_of_the_float_models_score(
    tmp_path: Path, outputs: str | None, said: str
) -> None:
    """It is scored with its own answers, so that its score never moves."""
    models = {"net": MODEL.model_copy(update={"labelled": False})}
    origin = ORIGIN.model_copy(update={"models": models})
    before = kept(tmp_path / "before", artefacts={Artefact.FLOAT_OUTPUTS: "f"})
    accepted = updated_baseline(None, SUITE, [before], TrialStore(tmp_path / "before"), origin)
    now = kept(tmp_path, artefacts={} if outputs is None else {Artefact.FLOAT_OUTPUTS: outputs})
    found = explain(accepted, origin, [now], {SPEC.id: Verdict.REGRESSION}, TrialStore(tmp_path))
    assert found.trials[0].headline == f"nothing recorded has changed{said}"


def test_a_lower_float_score_points_at_preprocessing(tmp_path: Path) -> None:
    accuracy = fakes.result(SPEC).accuracy
    assert accuracy is not None
    lower = accuracy.model_copy(update={"float_value": 0.6})
    (trial,) = explained(tmp_path, kept(tmp_path, accuracy=lower)).trials
    text = (
        "nothing recorded has changed; float fell too: 0.9500 → 0.6000, so look at preprocessing or evaluation "
        "data before the quantisation"
    )
    assert trial.headline == text


def test_another_engine_and_a_node_on_the_cpu(tmp_path: Path) -> None:
    environment = Environment(version="2", stages={"quantize": "b"}, sources={"a.py": "2"})
    nodes = (fakes.NODES[0].model_copy(update={"on": "CPU", "reason": "no operator", "threshold": None}),)
    result = kept(tmp_path, fakes.spec(engine="1"), (*nodes, fakes.NODES[1]))
    (trial,) = explained(tmp_path, result, ORIGIN.model_copy(update={"environment": environment})).trials
    text = (
        "engine changed; model file the same; the float model's score is the same; newly on the CPU: conv (no operator)"
    )
    assert trial.headline == text


def test_a_changed_engine_is_said_of_a_sweep_that_passes_too(tmp_path: Path) -> None:
    environment = Environment(version="1", stages={"quantize": "a"}, sources={"a.py": "1"}, tools={"numpy": "3"})
    origin = ORIGIN.model_copy(update={"environment": environment})
    found = explained(tmp_path, kept(tmp_path), origin, Verdict.PASS)
    assert in_words(found) == ["changed since the baseline: tools: numpy absent → 3"]


def test_trials_that_differ_alike_are_named_together_without_what_is_shared() -> None:
    shared = Cause(kind=Kind.ENGINE, text="a.py changed")
    own = Cause(kind=Kind.ARTEFACT, text="calibrated differs first")
    alike = [TrialCauses(trial=name, headline="engine changed", causes=(shared, own)) for name in "abcde"]
    other = TrialCauses(trial="x", headline="engine changed", causes=(shared,))
    assert in_words(Explanation(shared=(shared,), trials=(*alike[:4], other, alike[4]))) == [
        f"changed since the baseline: {shared}",
        "a, b, c, 2 more: engine changed",
        f"  {own}",
        "x: engine changed",
    ]


def test_a_failed_trial_is_explained_by_what_it_was_asked(tmp_path: Path) -> None:
    origin = ORIGIN.model_copy(update={"models": {"net": MODEL.model_copy(update={"file": "absent"})}})
    (trial,) = explained(tmp_path, fakes.failed(SPEC), origin, Verdict.ERROR).trials
    assert trial.headline == "model file changed; engine the same"
    assert trial.flips is None


def test_a_baseline_of_before_says_that_it_does_not_know(tmp_path: Path) -> None:
    accepted = baseline(tmp_path / "before")
    (name,) = accepted.trials
    old = accepted.model_copy(
        update={"trials": {name: accepted.trials[name].model_copy(update={"made": None})}, "environment": Environment()}
    )
    found = explain(old, ORIGIN, [kept(tmp_path)], {name: Verdict.REGRESSION}, TrialStore(tmp_path))
    assert [trial.headline for trial in found.trials] == [UNKNOWN]


@pytest.mark.parametrize("name", ["made", "models", "environment"])
def test_a_baseline_keeps_what_it_was_made_of(tmp_path: Path, name: str) -> None:
    accepted = baseline(tmp_path)
    again = Baseline.model_validate_json(accepted.model_dump_json(indent=1, exclude_defaults=True))
    assert again == accepted
    if name == "made":
        (trial,) = accepted.trials.values()
        assert trial.made is not None
        assert trial.made.nodes["conv"] == KeptNode.of(fakes.NODES[0])
    else:
        assert getattr(accepted, name) == getattr(ORIGIN, name)


def test_labels_that_do_not_count_are_not_cited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A detector on images with classes of ImageNet has no class 342: it is scored against its float model."""
    card = load_card("mnist_lenet")
    labels = explanation._samples("mnist_lenet", 5).labels
    assert labels is not None
    assert len(labels) == 5
    against_float = card.metric.model_copy(update={"labels": Labels.FLOAT})
    monkeypatch.setattr(explanation, "load_card", lambda _: card.model_copy(update={"metric": against_float}))
    assert explanation._samples("mnist_lenet", 5).labels is None
