"""The stage that scales channels alike."""

from __future__ import annotations

import pytest

from engine.convert.items import EQUALIZED, FOLDED
from engine.convert.stages import equalize as stage
from engine.convert.stages.equalize import EQUALIZE
from tests.engine.convert.work import configured, ran


def test_it_works_on_request_only() -> None:
    assert not EQUALIZE.is_asked(configured())
    assert not EQUALIZE.is_asked(configured(calibration__optimization="adaptive_rounding"))
    assert EQUALIZE.is_asked(configured(calibration__optimization="cross_layer_equalization"))
    assert EQUALIZE.passes == {EQUALIZED: FOLDED}


def test_the_log_says_how_many_pairs_were_scaled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stage, "equalize", lambda model: (f"scaled {model}", 7))
    with caplog.at_level("INFO", "engine.convert"):
        assert ran(EQUALIZE, configured(), folded="m") == {"equalized": "scaled m"}
    assert "Equalizing channels of 7 pairs of convolutions: cross_layer_equalization." in caplog.text
