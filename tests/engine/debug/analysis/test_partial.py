"""Partial quantisation: which nodes are sensitive, why, and what leaving them in float brings back."""

from __future__ import annotations

import pytest

from engine.calibrate import FloatSession
from engine.calibrate.methods.sensitivity import similarity
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import DebugModel
from engine.debug.analysis.partial import partial_quantisation
from tests.engine.calibrate.models import DATA, add_calibration, residual
from tests.engine.debug.models import in_variant


def coarse() -> DebugModel:
    """The weight of conv0 and the input of conv1 in wide steps, so that each has another cause."""
    model = residual()
    add_calibration(model, "x", thresholds=[4.0], scales=[4 / 127])
    add_calibration(model, "w0", thresholds=[8.0] * 4, scales=[1.0] * 4)
    add_calibration(model, "r0", thresholds=[127.0], scales=[4.0])
    add_calibration(model, "w1", thresholds=[4.0] * 4, scales=[4 / 127] * 4)
    return DebugModel(model)


def test_causes_are_what_alone_does_more_harm() -> None:
    found = partial_quantisation(coarse(), DATA, 1.0)
    assert found.causes == {"conv0": "weight", "conv1": "activation"}
    assert set(found.sensitive) == {"conv0", "conv1"}
    scores = [found.scores[name][DistanceMeasure.COSINE] for name in found.sensitive]
    assert scores == sorted(scores)


def test_what_leaving_nodes_in_float_brings_back() -> None:
    model = coarse()
    found = partial_quantisation(model, DATA, 1.0)
    exact = FloatSession(residual()).run(DATA)

    def cosine(variant: frozenset[str]) -> float:
        return similarity(FloatSession(in_variant(model, variant)).run(DATA), exact)

    first, second = (model.groups[name] for name in found.sensitive)
    assert found.baseline == pytest.approx(cosine(model.all), abs=1e-6)
    assert found.single == pytest.approx((cosine(model.all - first), cosine(model.all - second)), abs=1e-6)
    assert found.cumulative == pytest.approx((cosine(model.all - first), 1.0), abs=1e-6)


def test_nodes_above_the_threshold_are_left() -> None:
    every = partial_quantisation(coarse(), DATA, 1.0)
    worst = every.scores[every.sensitive[0]][DistanceMeasure.COSINE]
    found = partial_quantisation(coarse(), DATA, worst)
    assert (found.sensitive, found.single, found.cumulative) == ((), (), ()), "below it, not at it"
