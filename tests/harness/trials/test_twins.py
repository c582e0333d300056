"""Trials that led to the same integers."""

from __future__ import annotations

from harness.trials.artefacts import Artefact
from harness.trials.trial import TrialResult
from harness.trials.twins import twins
from tests.harness import fakes


def quantised(digest: str, model: str = "net", **settings: bool) -> TrialResult:
    result = fakes.result(fakes.spec(model, fakes.Settings.model_validate(settings)))
    return result.model_copy(update={"artefacts": {Artefact.QUANTIZED: digest}})


def test_a_later_trial_names_the_first_with_the_same_model() -> None:
    first, same, third = quantised("a"), quantised("a", per_channel=True), quantised("a", asymmetric=True)
    other, elsewhere = quantised("b", mse_thresholds=True), quantised("a", "other")
    found = twins([first, same, other, third, elsewhere])
    assert found == {same.spec.key: first.spec.id, third.spec.key: first.spec.id}


def test_trials_without_a_quantised_model_are_nobody_s() -> None:
    assert twins([fakes.result(fakes.spec()), fakes.failed(fakes.spec(settings=fakes.KL))]) == {}
