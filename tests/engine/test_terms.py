"""The closed choices: properties of their members, and what may become of what."""

from __future__ import annotations

import pytest

from engine.terms import (
    DEFAULT_OPTIMIZE_LEVEL,
    SUPPORTED_CONVERSIONS,
    CalibrationType,
    InputType,
    NormType,
    OptimizeLevel,
)


@pytest.mark.parametrize(
    ("name", "has_mean", "has_scale"),
    [
        ("data_mean_and_scale", True, True),
        ("data_mean", True, False),
        ("data_scale", False, True),
        ("no_preprocess", False, False),
    ],
)
def test_a_norm_type_says_which_values_it_needs(name: str, has_mean: bool, has_scale: bool) -> None:
    assert (NormType(name).has_mean, NormType(name).has_scale) == (has_mean, has_scale)


def test_only_load_and_skip_do_without_calibration_data() -> None:
    assert {kind.value for kind in CalibrationType if not kind.needs_data} == {"load", "skip"}
    assert CalibrationType.KL.needs_data


@pytest.mark.parametrize(
    ("train", "runtime"),
    [
        ("yuv444", {"nv12", "yuv444"}),
        ("rgb", {"nv12", "yuv444", "rgb", "bgr"}),
        ("bgr", {"nv12", "yuv444", "rgb", "bgr"}),
        ("gray", {"gray"}),
        ("featuremap", {"featuremap"}),
    ],
)
def test_the_documents_table_of_conversions(train: str, runtime: set[str]) -> None:
    assert set(SUPPORTED_CONVERSIONS[InputType(train)]) == runtime


def test_no_network_is_trained_on_nv12() -> None:
    assert set(InputType) - SUPPORTED_CONVERSIONS.keys() == {InputType.NV12}


def test_the_level_where_nobody_says() -> None:
    assert DEFAULT_OPTIMIZE_LEVEL is OptimizeLevel.O2
