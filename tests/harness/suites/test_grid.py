"""The grid of a sweep."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import OWN_OPTIMIZATIONS
from engine.errors import ConfigError
from engine.terms import CalibrationType
from harness.files.strict_yaml import parse
from harness.suites.grid import Grid, as_list
from harness.suites.settings import SWITCHES, Int16Kind, Int16Policy, Settings
from tests.harness.suites.made import ids, suite


def test_the_grid_has_every_option_of_the_engine() -> None:
    assert set(Grid.model_fields) == set(Settings.model_fields)
    assert {*OWN_OPTIMIZATIONS, "asymmetric", "bias_correction"} == set(SWITCHES)
    options = {"cross_layer_equalization": [False, True], "integer_bias_correction": [False, True]}
    assert ids(suite(sweep=options)) == [
        "mnist_a/bayes-e/max",
        "mnist_a/bayes-e/max-integer_bias_correction",
        "mnist_a/bayes-e/max-cross_layer_equalization",
        "mnist_a/bayes-e/max-cross_layer_equalization-integer_bias_correction",
    ]


def test_labels_differ_where_settings_differ() -> None:
    nodes = [
        Int16Policy(kind=Int16Kind.NODES, names=tuple(f"n{i}" for i in range(start, start + 9))) for start in (0, 1)
    ]
    percentiles = tuple(1 - 10.0**-exponent for exponent in range(2, 10))
    grid = Grid(
        calibration_type=(CalibrationType.MAX, CalibrationType.KL),
        max_percentile=percentiles,
        per_channel=(False, True),
        int16=(Int16Policy(), *nodes),
    )
    settings = grid.settings()
    assert len({setting.label for setting in settings}) == len(settings) == (len(percentiles) + 1) * 6


def grid(**axes: Any) -> Any:
    return parse(axes, Grid, "sweep")


def test_one_value_is_a_list_of_one() -> None:
    assert as_list("max") == ("max",)
    assert as_list(["max", "kl"]) == ["max", "kl"]
    assert grid(calibration_type="kl").settings() == [Settings(calibration_type=CalibrationType.KL)]
    with pytest.raises(ConfigError, match="per_channel"):
        grid(per_channel=[])


def test_combinations_stand_in_the_order_of_the_axes_each_once() -> None:
    found, skipped = grid(
        calibration_type=["kl", "max"], max_percentile=[0.9, 1.0], per_channel=[True, False]
    ).combinations()
    assert [settings.label for settings in found] == [
        label for method in ("kl", "max-0.9", "max") for label in (f"{method}-per_channel", method)
    ]
    assert skipped == []


def test_what_means_nothing_is_left_out_with_its_reason() -> None:
    found, skipped = grid(calibration_type=["max", "mix"], per_channel=[False, True]).combinations()
    assert [settings.label for settings in found] == ["max", "max-per_channel", "mix"]
    (left,) = skipped
    assert (left.values["calibration_type"], left.values["per_channel"]) == (CalibrationType.MIX, True)
    assert left.reason == "per_channel has no meaning with calibration_type 'mix'"


def test_values_are_those_that_were_chosen() -> None:
    """One value that is the default says nothing."""
    chosen = grid(calibration_type="max", per_channel=True, max_percentile=[1.0, 0.9], asymmetric=False)
    assert set(chosen.values()) == {("per_channel", True), ("max_percentile", 1.0), ("max_percentile", 0.9)}
