"""The bundled engine, ONNX Runtime and the vendor's command side by side, in the same tables."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from harness.backends.foreign import HB_MAPPER
from harness.execution.coordinator import Plan, serial
from harness.files.strict_yaml import parse
from harness.report.results import Sweep, trial_rows
from harness.suites.settings import Engine
from harness.suites.suite import Suite
from harness.sweeps.sweep import run_suite
from harness.trials.tasks import Bench
from harness.trials.trial import Symptom, TrialResult

STAND_IN = shlex.join([sys.executable, "-c", "from engine.cli.vendor.hb_mapper import main; main()"])
"""Behaves as the vendor's command does."""

SUITE = parse(
    {
        "name": "engines",
        "version": 1,
        "models": "mnist_lenet",
        "calibration_samples": 20,
        "evaluation_samples": 100,
        "sweep": {
            "engine": ["bundled", "onnxruntime", "hb_mapper"],
            "calibration_type": ["max", "kl"],
            "max_percentile": [1.0, 0.999],
        },
        "trials": [
            {"engine": "onnxruntime", "asymmetric": True, "per_channel": True},
            {"engine": "onnxruntime", "int16": "all"},
            {"engine": "hb_mapper", "int16": {"types": ["Conv"]}},
            {"engine": "bundled", "int16": {"types": ["Conv"]}},
        ],
    },
    Suite,
    "engines.yaml",
)


def sweep(workdir: Path) -> Sweep:
    return run_suite(SUITE, Plan(bench=Bench(workdir), executor=serial), record=False)


def by_engine(found: Sweep, engine: Engine) -> dict[str, TrialResult]:
    """Results by what is left of the label without the engine's name."""
    return {
        result.spec.settings.model_copy(update={"engine": Engine.BUNDLED}).label: result
        for result in found.results
        if result.spec.settings.engine is engine
    }


@pytest.mark.nightly
def test_three_engines_land_in_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HB_MAPPER, STAND_IN)
    found = sweep(tmp_path)
    assert [result.failure for result in found.results if result.failure] == []
    assert len(trial_rows(found)) == 13
    ours, vendor = by_engine(found, Engine.BUNDLED), by_engine(found, Engine.HB_MAPPER)
    assert set(ours) == set(vendor) == {"max", "max-0.999", "kl", "max-int16.types(Conv)"}
    for label, result in vendor.items():  # the stand-in is our converter: all its figures are ours
        assert (result.accuracy, result.fidelity, result.footprint) == (
            ours[label].accuracy,
            ours[label].fidelity,
            ours[label].footprint,
        )
    runtime = by_engine(found, Engine.ONNXRUNTIME)
    assert set(runtime) == {"max", "max-0.999", "kl", "max-asymmetric-per_channel", "max-int16.all"}
    for result in runtime.values():
        assert result.footprint is None
        assert result.accuracy is not None
        assert result.accuracy.ratio > 0.97
    assert len({cosine(runtime[label]) for label in ("max", "max-0.999", "kl")}) == 3  # none of them does nothing
    assert cosine(runtime["max-int16.all"]) > cosine(runtime["max"]) > 0.99


SWITCHES: tuple[tuple[dict[str, bool], float], ...] = (
    ({"asymmetric": True, "per_channel": True}, 0.999),
    ({"bias_correction": True}, 0.998),  # the original's correction costs similarity, see docs/calibration.md
)
"""Options of the calibration with the least cosine."""


@pytest.mark.nightly
def test_options_of_calibration_are_those_of_the_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HB_MAPPER, STAND_IN)
    trials = [
        {"models": "mnist_mobilenet", "engine": engine, **switches}
        for switches, _ in SWITCHES
        for engine in ("bundled", "hb_mapper")
    ]
    content = {**SUITE.model_dump(mode="json"), "sweep": None, "trials": trials}
    results = run_suite(parse(content, Suite, "x"), Plan(bench=Bench(tmp_path), executor=serial), record=False).results
    for (_, least), ours, converted in zip(SWITCHES, results[::2], results[1::2], strict=True):
        assert [each.spec.settings.engine for each in (ours, converted)] == [Engine.BUNDLED, Engine.HB_MAPPER]
        assert (ours.accuracy, ours.fidelity, ours.footprint) == (
            converted.accuracy,
            converted.fidelity,
            converted.footprint,
        )
        assert cosine(ours) > least


def cosine(result: TrialResult) -> float:
    assert result.fidelity is not None
    return result.fidelity.cosine


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("command", "symptom", "message"),
    [
        ("", Symptom.ENVIRONMENT, "set PTQLAB_HB_MAPPER"),
        ("/no/such/hb_mapper", Symptom.ENVIRONMENT, "cannot be run: No such file"),
        ("sh -c 'echo no licence; exit 7'", Symptom.REFUSED, "exit code 7: no licence; see"),
    ],
)
def test_a_command_that_does_not_convert_fails_its_trials_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, symptom: Symptom, message: str
) -> None:
    monkeypatch.setenv(HB_MAPPER, command)
    smaller = {"sweep": None, "trials": SUITE.trials[2:3], "calibration_samples": 2, "evaluation_samples": 4}
    only = SUITE.model_copy(update=smaller)
    (result,) = run_suite(only, Plan(bench=Bench(tmp_path), executor=serial), record=False).results
    assert result.failure is not None
    assert (result.failure.stage, result.failure.symptom) == ("hb_mapper", symptom)
    assert message in result.failure.message
