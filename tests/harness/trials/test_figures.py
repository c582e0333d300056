"""Figures of a trial: differences, shares, intervals."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy import stats

from harness.trials.figures import Accuracy, Fidelity, Footprint


def accuracy(value: float, float_value: float, **changes: Any) -> Accuracy:
    fields = {"metric": "m", "float_value": float_value, "value": value, "stderr": 0.1, "delta_stderr": 0.02}
    return Accuracy.model_validate({**fields, **changes})


def test_differences_and_their_interval() -> None:
    found = accuracy(0.75, 0.8)
    assert found.delta == pytest.approx(-0.05)
    assert found.ratio == pytest.approx(0.9375)
    assert found.margin == pytest.approx(stats.norm.ppf(0.975) * 0.02, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "float_value", "higher", "expected"),
    [
        (0.6, 0.8, True, 0.75),
        (0.0, 0.8, True, 0.0),
        (0.5, 0.0, True, 1.0),
        (0.0, 0.0, True, 1.0),
        (0.8, 0.6, False, 0.75),
        (0.0, 0.0, False, 1.0),
        (0.0, 0.6, False, math.inf),
        (0.6, 0.0, False, 0.0),
    ],
)
def test_goodness_is_below_one_where_the_quantised_model_is_worse(
    value: float, float_value: float, higher: bool, expected: float
) -> None:
    found = accuracy(value, float_value, higher_is_better=higher)
    assert found.goodness == pytest.approx(expected)
    assert found.direction == (1 if higher else -1)


def test_how_many_images_hold_something_to_find_is_said() -> None:
    objects = accuracy(0.9, 1.0, informative=19, sought="objects")
    assert objects.found(50) == "19 of 50 images have objects by their labels."
    by_float = objects.model_copy(update={"by_float": True})
    assert by_float.found(50) == "The float model finds objects in 19 of 50 images."
    assert (objects.found(19), accuracy(0.9, 1.0).found(50)) == ("", "")
    assert (objects.images, accuracy(0.9, 1.0).images) == ("images with objects", "images")


def test_the_least_similar_output_is_named() -> None:
    alone = Fidelity(cosine=0.99, cosine_min=0.9, sqnr_db=None, max_abs=0, agreement=None)
    assert alone.lowest_cosine == ("output", 0.99)
    assert alone.model_copy(update={"parts": {"boxes": 0.999, "classes": 0.97}}).lowest_cosine == ("classes", 0.97)


def test_times_add_up() -> None:
    assert Footprint(latency_ms=1.5, cpu_ms=0.25, ddr_mb=1, cpu_nodes=1, subgraphs=1).total_ms == 1.75


def test_times_on_the_cpu_that_were_not_measured_are_marked() -> None:
    known = {"latency_ms": 1.5, "cpu_ms": 0.25, "ddr_mb": 1, "cpu_nodes": 1, "subgraphs": 1}
    texts = [Footprint(**known, cpu_measured_ms=measured).cpu_text for measured in (0.0, 0.125, 0.25)]
    assert texts == ["~0.250", "~0.250", "0.250"]
