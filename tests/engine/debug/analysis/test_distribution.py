"""Distributions and boxes: shares of what is clipped and rounded away, quartiles, on values that are known."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.debug.analysis import distribution as module
from engine.debug.analysis.distribution import BINS, _histogram, _span, channels, distributions
from engine.debug.analysis.model import DebugModel, NodeType
from engine.errors import ConfigError
from tests.engine.calibrate.models import add_calibration, identity, residual


def known() -> ir.Model:
    """``t = |x|`` of (1, 2, 4), in steps of 1 up to 127."""
    model = identity((1, 2, 4))
    add_calibration(model, "t", thresholds=[127.0], scales=[1.0])
    return model


X = np.asarray([[[0.0, 0.4, 1.25, 200.0], [0.0, 0.0, -2.0, 127.0]]], np.float32)


def test_shares_of_values_that_are_clipped_or_rounded_to_zero() -> None:
    (found,) = distributions(DebugModel(known()), {"x": X}, ["t_HzCalibration"])
    assert (found.kind, found.thresholds, found.largest) == (NodeType.ACTIVATION, (127.0, 127.0), 200.0)
    assert (found.clipped, found.rounded) == (1 / 8, 1 / 8), "200 is clipped, and 0.4 becomes zero"
    assert found.before.counts.sum() == found.after.counts.sum() == 8
    assert (found.before.edges[0], found.before.edges[-1]) == (0.0, 200.0)
    assert (found.error.edges[0], found.error.edges[-1]) == (-73.0, 0.0)


def test_a_result_has_the_thresholds_of_what_reads_it() -> None:
    model = DebugModel(known())
    first, last = distributions(model, {"x": X}, ["abs", "neg"])
    assert (first.kind, first.thresholds) == (NodeType.NODE, (127.0, 127.0))
    assert (last.thresholds, last.clipped, last.rounded) == (None, None, None)
    assert last.largest == 200.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 3.0], (1.0, 3.0)), ([2.0, 2.0], (1.5, 2.5)), ([], (-0.5, 0.5)), ([np.nan, np.inf, 1.0, 4.0], (1.0, 4.0))],
)
def test_the_span_is_that_of_finite_values(values: list[float], expected: tuple[float, float]) -> None:
    array = np.asarray(values)
    assert _span(array) == expected
    histogram = _histogram(array, expected)
    assert histogram.counts.sum() == np.isfinite(array).sum()
    assert len(histogram.edges) == BINS + 1 == 129


def test_boxes_are_of_each_channel() -> None:
    (found,) = channels(DebugModel(known()), {"x": X}, ["t_HzCalibration"])
    rows = np.abs(X[0])
    assert found.axis == 1
    np.testing.assert_allclose(found.median, np.median(rows, axis=1))
    np.testing.assert_allclose(found.upper, np.percentile(rows, 75, axis=1))
    np.testing.assert_allclose(found.mean, rows.mean(axis=1), rtol=1e-6)
    assert found.thresholds.tolist() == [127.0, 127.0]
    (last,) = channels(DebugModel(known()), {"x": X}, ["t_HzCalibration"], axis=-1)
    assert (last.axis, last.maximum.tolist()) == (2, [0.0, 0.4000000059604645, 2.0, 200.0])


def test_a_weight_has_the_axis_of_its_calibration() -> None:
    model = residual()
    add_calibration(model, "w1", thresholds=[1.0, 2.0, 3.0, 4.0], scales=[1.0] * 4)
    (found,) = channels(DebugModel(model), {"x": np.zeros((1, 3, 6, 5), np.float32)}, ["w1_HzCalibration"])
    assert (found.axis, found.kind, found.thresholds.tolist()) == (0, NodeType.WEIGHT, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("names", "axis", "message"),
    [
        (["abs"], None, "is a regular node; calibration nodes"),
        (["t_HzCalibration"], 3, "axis is 3; what 't_HzCalibration' reads has 3 dimensions"),
        (["t_HzCalibration"], "1", "axis is '1'"),
    ],
)
def test_boxes_of_what_has_none(names: list[str], axis: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        channels(DebugModel(known()), {"x": X}, names, axis)


def test_of_many_values_some_samples_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VALUES", 16)
    feed = {"x": np.concatenate([X] * 6)}
    (found,) = distributions(DebugModel(known()), feed, ["neg"])
    assert found.before.counts.sum() == 2 * 8
