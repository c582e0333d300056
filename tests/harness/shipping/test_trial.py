"""Which trials can be shipped, and what has changed since one ran; the command's tests make real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from harness.shipping.trial import changes_since, refuse_unshippable
from harness.suites.settings import Engine, Settings
from harness.trials.artefacts import Artefact
from harness.trials.trial import Failure, Symptom
from tests.harness import fakes


def test_a_trial_that_failed_has_nothing_to_ship() -> None:
    failure = Failure(stage="calibrate", symptom=Symptom.REFUSED, message="no data")
    result = fakes.result(fakes.spec()).model_copy(update={"failure": failure})
    with pytest.raises(ConfigError, match="failed in stage calibrate: no data"):
        refuse_unshippable(result)


def test_a_trial_of_another_engine_has_no_model_of_ours() -> None:
    result = fakes.result(fakes.spec(settings=Settings(engine=Engine.ONNXRUNTIME)))
    with pytest.raises(ConfigError, match="made by engine onnxruntime"):
        refuse_unshippable(result)
    ours = fakes.result(fakes.spec()).model_copy(update={"artefacts": {Artefact.QUANTIZED: "a"}})
    refuse_unshippable(ours)


def test_a_model_without_a_card_has_changed(tmp_path: Path) -> None:
    (text,) = changes_since(fakes.result(fakes.spec(model="no_such_model")), tmp_path)
    assert "no_such_model" in text
