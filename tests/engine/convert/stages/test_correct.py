"""The stage that corrects biases by what the integer model computes."""

from __future__ import annotations

import pytest

from engine.convert.items import CALIBRATED, THRESHOLDS
from engine.convert.stages.correct import CORRECT
from tests.engine.convert.work import configured, ran


@pytest.mark.parametrize(
    ("words", "asked"), [("", False), ("mean_bias_correction", False), ("integer_bias_correction", True)]
)
def test_it_works_on_request_only(words: str, asked: bool) -> None:
    assert CORRECT.is_asked(configured(calibration__optimization=words)) is asked
    assert CORRECT.passes == {CALIBRATED: THRESHOLDS}


def test_biases_are_corrected_on_data_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "engine.evaluate.integer_bias.correct_integer_biases",
        lambda calibrated, optimized, march, data, threads: (calibrated, optimized, march, data, threads),
    )
    given = {"thresholds": "t", "optimized_float": "o"}
    assert ran(CORRECT, configured(), **given) == {"calibrated": "t"}
    assert ran(CORRECT, configured(), **given, data="d", threads=2) == {"calibrated": ("t", "o", "bayes-e", "d", 2)}
