"""The stage that makes integers."""

from __future__ import annotations

from engine.convert.stages.quantize import QUANTIZE
from engine.ir import to_bytes
from engine.quantize import quantize
from tests.engine.calibrate.models import calibrated_residual
from tests.engine.convert.work import configured, ran


def test_the_calibrated_model_is_quantised_for_the_march() -> None:
    found = ran(QUANTIZE, configured(), calibrated=calibrated_residual())["quantized"]
    assert to_bytes(found) == to_bytes(quantize(calibrated_residual(), "bayes-e"))
    assert QUANTIZE.parameters == ("model_parameters.march",)
