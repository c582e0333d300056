"""Trials that compute nothing: what the harness does around them is measured with these.

Their figures follow from their settings, with noise from a seed: thresholds cut too low cost accuracy, int16 costs time
and gives some back. As a module of stages (``prepare`` and ``run_trial``) they run wherever trials do.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from engine.chips import DEFAULT_MARCH
from engine.terms import CalibrationType
from harness.files.strict_yaml import parse
from harness.metrics import Score
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.suites.suite import Suite
from harness.trials.figures import Accuracy, Fidelity, Footprint, TrialNode
from harness.trials.tasks import Bench, Preparation, Prepared
from harness.trials.trial import Outcome, TrialResult, TrialSpec

SAMPLES = 400
NODES = 60
MODELS = ("resnet", "mobilenet", "yolo", "unet", "efficientnet")
FLOAT = 0.93


def suite_of(trials: int) -> tuple[Suite, list[TrialSpec]]:
    """A suite with so many trials of five models, and its trials."""
    kinds = (Int16Kind.NONE, Int16Kind.ALL)
    percentiles = [round(1 - 0.00002 * index, 6) for index in range(max(1, trials // 40 + 1))]
    settings = [
        Settings(
            calibration_type=CalibrationType.MAX,
            max_percentile=percentile,
            per_channel=per_channel,
            bias_correction=bias,
            int16=Int16Policy(kind=kind),
        )
        for percentile, per_channel, bias, kind in itertools.product(percentiles, (False, True), (False, True), kinds)
    ]
    specs = [spec_of(model, setting) for setting in settings for model in MODELS][:trials]
    specs.sort(key=lambda spec: MODELS.index(spec.model))
    sweep = {
        "max_percentile": percentiles,
        "per_channel": [False, True],
        "bias_correction": [False, True],
        "int16": [kind.value for kind in kinds],
    }
    content = {"name": f"synthetic{trials}", "version": 1, "models": list(MODELS), "sweep": sweep}
    return parse(content, Suite, "synthetic"), specs


def spec_of(model: str, settings: Settings) -> TrialSpec:
    """The trial of a model that is nowhere."""
    return TrialSpec(
        model=model,
        march=DEFAULT_MARCH,
        settings=settings,
        calibration_samples=100,
        evaluation_samples=SAMPLES,
        card=f"card of {model}",
        file=f"file of {model}",
        data="synthetic",
        engine="0",
    )


def prepare(preparation: Preparation, bench: Bench) -> Prepared:
    """Nothing to do."""
    del preparation, bench
    return Prepared(statistics="none", seconds={"statistics": 0.0})


def run_trial(spec: TrialSpec, statistics: str, bench: Bench) -> TrialResult:
    """Figures that follow from the settings."""
    del statistics
    outcome = outcome_of(spec)
    bench.store.put(outcome)
    return outcome.result


def outcome_of(spec: TrialSpec) -> Outcome:
    """All that a trial leaves."""
    settings, random = spec.settings, np.random.RandomState(int(spec.key[:8], 16))
    wide = settings.int16.kind is Int16Kind.ALL
    cut = 80 * (1 - settings.max_percentile)
    right = FLOAT - 0.004 - cut + 0.003 * settings.per_channel + 0.002 * settings.bias_correction + 0.004 * wide
    image = np.random.RandomState(MODELS.index(spec.model)).rand(SAMPLES)  # which images are hard is the model's
    hits = (image + 0.02 * random.randn(SAMPLES) < right).astype(np.float64)
    floats = (image < FLOAT).astype(np.float64)
    latency = (1 + MODELS.index(spec.model)) * (1.8 if wide else 1.0) + 0.01 * random.rand()
    cosine = 0.9995 - cut / 10 + 0.0004 * wide
    result = TrialResult(
        spec=spec,
        accuracy=_accuracy(hits, floats),
        fidelity=Fidelity(cosine=cosine, cosine_min=cosine - 0.03, sqnr_db=30.0, max_abs=0.5, agreement=cosine - 0.01),
        footprint=Footprint(latency_ms=latency, cpu_ms=0.2, ddr_mb=4.0, cpu_nodes=2, subgraphs=1),
        seconds={"quantize": 0.1, "simulate": 0.5},
    )
    scores = {"per_sample": hits, "float_per_sample": floats, "per_sample_cosine": np.full(SAMPLES, cosine)}
    return Outcome(result, _nodes(random), scores)


def _accuracy(hits: np.ndarray, floats: np.ndarray) -> Accuracy:
    value = float(hits.mean())
    return Accuracy(
        metric="top1",
        float_value=float(floats.mean()),
        value=value,
        stderr=float(np.sqrt(value * (1 - value) / SAMPLES)),
        delta_stderr=Score.mean(hits - floats).stderr,
    )


def _nodes(random: np.random.RandomState) -> Sequence[TrialNode]:
    cosines = 1 - 0.01 * random.rand(NODES)
    return [
        TrialNode(
            node=f"stage{index // 10}/block{index % 10}/conv",
            on="BPU",
            subgraph=0,
            type="HzSQuantizedConv",
            data_type="int8",
            threshold=float(index),
            cosine=float(cosine),
        )
        for index, cosine in enumerate(cosines)
    ]
