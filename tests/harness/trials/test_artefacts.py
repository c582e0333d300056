"""The order of artefacts is the order in which they come about."""

from __future__ import annotations

from harness.trials.artefacts import Artefact


def test_inputs_come_before_what_is_made_of_them() -> None:
    order = list(Artefact)
    assert order.index(Artefact.SOURCE) < order.index(Artefact.ORIGINAL) < order.index(Artefact.FOLDED)
    assert order.index(Artefact.CALIBRATION_IMAGES) < order.index(Artefact.CALIBRATED)
    assert order.index(Artefact.CALIBRATED) < order.index(Artefact.QUANTIZED) < order.index(Artefact.OUTPUTS)
