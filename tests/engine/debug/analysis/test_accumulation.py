"""Accumulated errors: which variants are asked for, and means over what is finite."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate import FloatSession
from engine.debug.analysis.accumulation import Curve, Curves, accumulated_error, averaged, requested_variants
from engine.debug.analysis.metrics import DistanceMeasure, measure
from engine.debug.analysis.model import DebugModel
from engine.errors import ConfigError
from tests.engine.calibrate.models import DATA, calibrated_residual
from tests.engine.debug.models import in_variant

MODEL = DebugModel(calibrated_residual())
WEIGHTS = frozenset({"w0_HzCalibration", "w1_HzCalibration"})


@pytest.mark.parametrize(
    ("quantize", "others", "labels"),
    [
        ("conv0", None, ["conv0"]),
        (["conv0", "conv1"], None, ["conv0", "conv1"]),
        (["weight", "activation"], None, ["weight + activation", "weight", "activation"]),
        ([["weight", "activation"]], None, ["partial_qmodel_0: weight, activation"]),
        (None, ["conv0"], ["all but conv0"]),
        (
            None,
            [["conv0"], ["conv0", "conv1", "add", "gap"]],
            ["partial_qmodel_0: conv0", "partial_qmodel_1: conv0, conv1 and 2 more"],
        ),
    ],
)
def test_labels(quantize: object, others: object, labels: list[str]) -> None:
    assert list(requested_variants(MODEL, quantize, others)) == labels


def test_what_quantises() -> None:
    found = requested_variants(MODEL, ["weight", "activation"], None)
    assert found["weight"] == WEIGHTS
    assert found["weight + activation"] == MODEL.all == found["weight"] | found["activation"]
    assert requested_variants(MODEL, None, "conv0") == {"all but conv0": MODEL.all - MODEL.groups["conv0"]}


@pytest.mark.parametrize(
    ("quantize", "others", "message"),
    [
        (None, None, "give either quantize_node or non_quantize_node"),
        ("conv0", "conv1", "give either"),
        ([], None, "the list of nodes is empty"),
        ([3], None, "give names, or lists of names"),
        ("conv9", None, "did you mean 'conv"),
    ],
)
def test_mistakes(quantize: object, others: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        requested_variants(MODEL, quantize, others)


def test_every_nodes_error_is_the_mean_over_samples() -> None:
    found = accumulated_error(MODEL, DATA, {"all": MODEL.all}, DistanceMeasure.MSE)
    assert found.nodes == ("conv0", "relu0", "conv1", "add", "gap", "reshape")
    (curve,) = found.curves
    exact, quantized = (
        FloatSession(in_variant(MODEL, variant), ["y"]).run(DATA)["y"] for variant in (frozenset(), MODEL.all)
    )
    expected = np.mean([measure(DistanceMeasure.MSE, a, b) for a, b in zip(quantized, exact, strict=True)])
    assert curve.values[-1] == pytest.approx(expected, rel=1e-4)
    assert curve.values[0] > 0


def test_means_are_over_the_finite_values_so_far() -> None:
    inf = float("inf")
    curves = Curves(("a", "b", "c", "d"), DistanceMeasure.SQNR, (Curve("one", (inf, 4.0, inf, 8.0)),))
    assert averaged(curves).curves[0].values == (inf, 4.0, 4.0, 6.0)
