"""Registered engines: what they get, which settings they take, and what determines their trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from pydantic import ValidationError

from harness.backends.engines import OnnxRuntimeEngine, QuantizationTask, QuantizingEngine, engine_of
from harness.backends.pipeline import all_stages, environment, own_tools, results_for, stages_for
from harness.backends.stages.foreign import OWN_ENGINE
from harness.extensions import ENGINES, OwnEngine
from harness.suites.settings import Engine, Settings
from harness.zoo.cards import load_card
from tests.registered import registered


class Copies(QuantizingEngine):
    """Gives the float model."""

    takes = MappingProxyType({"per_channel": (False, True)})
    versions: Sequence[str] = ("tool 1.0",)

    def version(self) -> str:
        return self.versions[0]

    def quantize(self, task: QuantizationTask) -> Path:
        return task.model


@pytest.fixture(autouse=True, scope="module")
def _extensions() -> Iterator[None]:
    with registered(ENGINES, copies_of_tests=Copies):
        yield


@pytest.fixture
def settings() -> Settings:
    return Settings.model_validate({"engine": "copies_of_tests", "per_channel": True})


def test_an_engine_is_found_by_its_name_and_labels_its_settings(settings: Settings) -> None:
    assert isinstance(engine_of(settings), Copies)
    assert isinstance(engine_of(Settings(engine=Engine.ONNXRUNTIME)), OnnxRuntimeEngine)
    assert settings.label == "max-copies_of_tests-per_channel"
    assert settings.engine == OwnEngine("copies_of_tests")
    assert Settings.model_validate_json(settings.model_dump_json()) == settings


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"asymmetric": True}, "asymmetric True has no meaning with engine copies_of_tests; allowed: False"),
        ({"calibration_type": "kl"}, "calibration_type kl has no meaning with engine copies_of_tests; allowed: max"),
        ({"int16": "all"}, "int16 all has no meaning with engine copies_of_tests; allowed: none"),
        ({"compatibility": "clean"}, "compatibility has no meaning with engine copies_of_tests; it belongs to"),
        ({"engine": "copies_of_test"}, "unknown engine 'copies_of_test'; did you mean 'copies_of_tests'"),
    ],
)
def test_settings_that_it_does_not_take_are_refused(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate({"engine": "copies_of_tests", **setting})


def test_its_stages_and_what_determines_its_trials(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert OWN_ENGINE in stages_for(settings.engine)
    assert OWN_ENGINE in all_stages()
    assert results_for(settings.engine) == results_for(Engine.ONNXRUNTIME)
    ((what, first),) = own_tools(settings)
    assert what == "engine copies_of_tests"
    assert environment([settings], "1").tools[what] == first
    monkeypatch.setattr(Copies, "versions", ("tool 2.0",))
    assert own_tools(settings) != [(what, first)], "a tool's version is part of the key"


def test_a_task_feeds_the_samples_as_the_float_model_takes_them(settings: Settings, tmp_path: Path) -> None:
    card = load_card("mnist_lenet")
    samples = card.open_dataset().split("calibration").take(0, 2)
    task = QuantizationTask(card, settings, samples, tmp_path / "model.onnx")
    feeds = list(task.feeds())
    assert [feed["image"].shape for feed in feeds] == [(1, 1, 28, 28)] * 2
    assert engine_of(settings).quantize(task) == card.model_path()
