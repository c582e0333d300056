"""What a card promises of the float model."""

from __future__ import annotations

import pytest

from harness.gates.promised import CHECK, float_checks
from harness.gates.verdicts import Verdict
from harness.trials.origins import ModelOrigin
from tests.harness import fakes

ORIGIN = ModelOrigin(
    file="",
    preprocessing={},
    calibration="",
    evaluation="",
    data="",
    data_digest="",
    metric="top1",
    evaluation_count=1000,
    float_score=0.95,
    float_stderr=0.01,
)


@pytest.mark.parametrize(
    ("count", "promised", "is_named"),
    [
        (1000, 0.95, False),
        (1000, 0.951, False),  # one image
        (1000, 0.96, True),
        (40, 0.96, False),  # a part of the images: standard errors
        (40, 0.70, True),
    ],
)
def test_the_measured_score_is_the_cards(count: int, promised: float, is_named: bool) -> None:
    result = fakes.result(fakes.spec(evaluation_samples=count))
    found = float_checks([result], {"net": ORIGIN.model_copy(update={"float_score": promised})})
    assert bool(found) is is_named
    for check in found.values():
        assert (check.name, check.verdict) == (CHECK, Verdict.REGRESSION)
        assert "scores 0.9500" in check.message
        assert "colour order" in check.message


def test_failed_trials_and_unknown_models_promise_nothing() -> None:
    assert float_checks([fakes.failed(fakes.spec()), fakes.result(fakes.spec("other"))], {"net": ORIGIN}) == {}
