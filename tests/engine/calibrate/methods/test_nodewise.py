"""A method per tensor."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate import ArrayData, CalibrationOptions, FloatSession, run_calibration
from engine.calibrate.data.samples import evenly_spread
from engine.calibrate.methods.nodewise import SAMPLES
from engine.calibrate.methods.sensitivity import similarity
from engine.place import place
from tests.engine.calibrate.models import residual

COUNT = 24


@pytest.mark.parametrize("spoilt", [False, True])
@pytest.mark.parametrize("calibration_type", ["max", pytest.param("kl", marks=pytest.mark.nightly)])
def test_samples_are_evenly_spread_and_finite(calibration_type: str, spoilt: bool) -> None:
    model = residual()
    placed = place(model, "bayes-e").model
    growth = np.geomspace(0.1, 10, COUNT).reshape(-1, 1, 1, 1)
    data = (np.random.default_rng(0).standard_normal((COUNT, 3, 6, 5)) * growth).astype(np.float32)
    judged = data[evenly_spread(COUNT, SAMPLES)[int(spoilt) :]]
    if spoilt:
        data[0, 0, 0, 0] = np.nan
    expected = FloatSession(model).run({"x": judged})

    def found(**options: object) -> float:
        chosen = CalibrationOptions.model_validate({"calibration_type": calibration_type, **options})
        calibrated = run_calibration(model, placed, ArrayData({"x": data}), chosen)
        return similarity(FloatSession(calibrated).run({"x": judged}), expected)

    assert found(nodewise_methods=True) > found()
