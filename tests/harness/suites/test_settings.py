"""Settings of trials: what means nothing, how they are written and called."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from engine.errors import ConfigError
from engine.terms import CalibrationType
from harness.suites.settings import Engine, Int16Kind, Int16Policy, Settings
from tests.harness.suites.made import ids, suite


def test_switches_stand_beside_the_methods_that_they_change() -> None:
    axes = {"calibration_type": ["max", "kl", "mix", "skip"]}
    for switch, methods in (
        ("per_channel", ["max", "kl"]),
        ("order_independent_kl", ["kl", "mix"]),
        ("bias_correction", ["max", "kl", "mix"]),
        ("integer_bias_correction", ["max", "kl", "mix"]),
    ):
        found = ids(suite(sweep={**axes, switch: [False, True]}))
        assert [name for name in found if switch in name] == [f"mnist_a/bayes-e/{kind}-{switch}" for kind in methods]
    assert ids(suite(sweep={"bias_correction": [False, True], "asymmetric": [False, True]})) == [
        "mnist_a/bayes-e/max",
        "mnist_a/bayes-e/max-bias_correction",
        "mnist_a/bayes-e/max-asymmetric",
        "mnist_a/bayes-e/max-asymmetric-bias_correction",
    ]
    with pytest.raises(ConfigError, match=r"bias_correction has no meaning with calibration_type 'skip'"):
        suite(trials=[{"calibration_type": "skip", "bias_correction": True}])
    with pytest.raises(ConfigError, match=r"bias_correction has no meaning with mean_bias_correction"):
        suite(trials=[{"mean_bias_correction": True, "bias_correction": True}])
    with pytest.raises(ConfigError, match=r"trials\.0.*mse_thresholds has no meaning with calibration_type 'mix'"):
        suite(trials=[{"calibration_type": "mix", "mse_thresholds": True}])
    with pytest.raises(ConfigError, match="adaptive_rounding has no meaning with engine onnxruntime"):
        suite(trials=[{"engine": "onnxruntime", "adaptive_rounding": True}])


def test_settings_survive_json() -> None:
    for int16 in (Int16Policy(), Int16Policy(kind=Int16Kind.ALL), Int16Policy(kind=Int16Kind.NODES, names=("a", "b"))):
        settings = Settings(calibration_type=CalibrationType.KL, per_channel=True, int16=int16)
        assert Settings.model_validate_json(settings.model_dump_json()) == settings


def test_every_axis_shows_in_the_id() -> None:
    axes = {
        "asymmetric": True,
        "mean_bias_correction": True,
        "int16": {"top_k": 3},
        "input_type_rt": "nv12",
        "calibration_samples": 20,
        "calibration_seed": 7,
    }
    assert ids(suite(sweep=axes)) == ["mnist_a/bayes-e/max-asymmetric-mean_bias_correction-nv12-n20-seed7-int16.top_3"]


def test_int16_by_sensitivity_survives_json() -> None:
    settings = Settings(int16=Int16Policy(kind=Int16Kind.TOP_K, count=3))
    assert settings.model_dump(mode="json")["int16"] == {"top_k": 3}
    assert Settings.model_validate_json(settings.model_dump_json()) == settings


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        ("none", Int16Policy()),
        ("all", Int16Policy(kind=Int16Kind.ALL)),
        ({"nodes": ["a"]}, Int16Policy(kind=Int16Kind.NODES, names=("a",))),
        ({"types": ["Conv", "Add"]}, Int16Policy(kind=Int16Kind.TYPES, names=("Conv", "Add"))),
        ({"top_k": 1}, Int16Policy(kind=Int16Kind.TOP_K, count=1)),
    ],
)
def test_policies_are_read_and_written(value: Any, policy: Int16Policy) -> None:
    settings = Settings.model_validate({"int16": value})
    assert settings.int16 == policy
    assert settings.model_dump(mode="json")["int16"] == value


@pytest.mark.parametrize(
    "value",
    [
        "top_k",
        "nodes",
        {"top_k": 0},
        {"top_k": True},
        {"top_k": "3"},
        {"nodes": [""]},
        {"nodes": ["a"], "types": ["b"]},
        {},
        3,
    ],
)
def test_other_policies_are_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="allowed are none, all"):
        Settings.model_validate({"int16": value})


@pytest.mark.parametrize(
    ("policy", "label"),
    [
        (Int16Policy(), ""),
        (Int16Policy(kind=Int16Kind.ALL), "int16.all"),
        (Int16Policy(kind=Int16Kind.TOP_K, count=5), "int16.top_5"),
        (Int16Policy(kind=Int16Kind.TYPES, names=("Conv", "Add")), "int16.types(Conv+Add)"),
    ],
)
def test_labels_of_policies(policy: Int16Policy, label: str) -> None:
    assert policy.label == label


def test_three_names_are_counted_and_told_apart() -> None:
    labels = [Int16Policy(kind=Int16Kind.NODES, names=names).label for names in (("a", "b", "c"), ("a", "b", "d"))]
    assert all(re.fullmatch(r"int16\.nodes\(3:[0-9a-f]{6}\)", label) for label in labels)
    assert len(set(labels)) == 2


def test_the_label_has_granularity_and_int16_behind_all_else() -> None:
    settings = Settings.model_validate(
        {
            "max_percentile": 0.9999,
            "per_channel": True,
            "int16": "all",
            "compatibility": "clean",
            "asymmetric": True,
            "input_type_rt": "nv12",
            "calibration_samples": 20,
            "calibration_seed": 0,
        }
    )
    assert settings.method == "max-0.9999"
    assert settings.variant == "max-0.9999-clean-asymmetric-nv12-n20-seed0"
    assert settings.label == "max-0.9999-clean-asymmetric-nv12-n20-seed0-per_channel-int16.all"
    assert Settings(engine=Engine.ONNXRUNTIME).label == "max-onnxruntime"


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("max_percentile", [1.0, 1e-6], [0.0, 1.0001]),
        ("calibration_samples", [1, None], [0]),
        ("calibration_seed", [0, 2**32 - 1, None], [-1, 2**32]),
    ],
)
def test_limits(name: str, allowed: list[Any], refused: list[Any]) -> None:
    for value in allowed:
        assert getattr(Settings.model_validate({name: value}), name) == value
    for value in refused:
        with pytest.raises(ValidationError, match=name):
            Settings.model_validate({name: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"calibration_type": "mix"}, "calibration_type mix has no meaning with engine onnxruntime; allowed: max, kl"),
        ({"int16": {"types": ["Conv"]}}, "int16 .* has no meaning with engine onnxruntime; allowed: none, all"),
        ({"input_type_rt": "nv12"}, "input_type_rt nv12 has no meaning with engine onnxruntime"),
        ({"bias_correction": True}, "bias_correction True has no meaning with engine onnxruntime"),
        ({"compatibility": "clean"}, "compatibility has no meaning with engine onnxruntime; it belongs to 'bundled'"),
    ],
)
def test_what_onnxruntime_does_not_have(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate({"engine": "onnxruntime", **settings})


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"calibration_type": "load", "cross_layer_equalization": True}, "cross_layer_equalization"),
        ({"calibration_type": "skip", "integer_bias_correction": True}, "integer_bias_correction"),
        ({"calibration_type": "max", "order_independent_kl": True}, "order_independent_kl"),
        ({"calibration_type": "default", "per_channel": True}, "per_channel"),
        ({"calibration_type": "mix", "nodewise_methods": True}, "nodewise_methods"),
        ({"mean_bias_correction": True, "bias_correction": True}, "bias_correction"),
    ],
)
def test_switches_that_change_nothing(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name} has no meaning with"):
        Settings.model_validate(settings)
