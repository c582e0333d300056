"""What a correction must have, and that a registered one runs behind ptqlab's own, on the calibrated model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate.corrections.correction import Correction, CorrectionWork
from engine.extensions import CORRECTIONS
from engine.ir import constant_of
from tests.engine.calibrate.models import calibrated_residual
from tests.registered import registered


class Doubled(Correction):
    """Every floating constant twice."""

    def correct(self, calibrated: ir.Model, work: CorrectionWork) -> ir.Model:
        assert work.options.corrections == ("doubled_constants_of_tests",)
        model = calibrated.clone()
        for value in model.graph.initializers.values():
            array = constant_of(value)
            if array is not None and array.dtype == np.float32:
                value.const_value = ir.tensor(array * np.float32(2), name=value.name)
        return model


def constants(model: ir.Model) -> dict[str, np.ndarray]:
    found = {name: constant_of(value) for name, value in model.graph.initializers.items()}
    return {name: array for name, array in found.items() if array is not None and array.dtype == np.float32}


@pytest.fixture(autouse=True, scope="module")
def _extensions() -> Iterator[None]:
    with registered(CORRECTIONS, doubled_constants_of_tests=Doubled):
        yield


def test_a_registered_correction_changes_the_calibrated_model() -> None:
    plain = constants(calibrated_residual())
    changed = constants(calibrated_residual(corrections="doubled_constants_of_tests"))
    assert plain
    for name, array in plain.items():
        np.testing.assert_array_equal(changed[name], 2 * array)


def test_what_a_correction_leaves_out_is_named() -> None:
    with pytest.raises(TypeError, match="correct"):
        type("Idle", (Correction,), {})()
