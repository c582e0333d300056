"""From a suite to its trials."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.errors import ConfigError
from engine.terms import InputType
from harness.suites.expansion import ModelFacts, expand, select
from tests.harness.suites.made import FACTS, TAGS, ids, suite


def test_grid_multiplies_its_axes_and_drops_what_means_nothing() -> None:
    grid = {"calibration_type": ["max", "kl"], "max_percentile": [1.0, 0.9999], "per_channel": [False, True]}
    assert ids(suite(sweep=grid)) == [
        "mnist_a/bayes-e/max",
        "mnist_a/bayes-e/max-per_channel",
        "mnist_a/bayes-e/max-0.9999",
        "mnist_a/bayes-e/max-0.9999-per_channel",
        "mnist_a/bayes-e/kl",
        "mnist_a/bayes-e/kl-per_channel",
    ]


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("input_type_rt", [None, "gray"], r"input_type_rt: 'gray': .* allowed: rgb, nv12"),
        ("calibration_samples", [20, 301], "calibration_samples: 301: the model's card has 300"),
    ],
)
def test_what_a_model_does_not_have_is_left_out_of_the_grid_and_refused_in_trials(
    key: str, values: list[Any], message: str
) -> None:
    end = {"input_type_rt": "-gray", "calibration_samples": "-n301"}[key]
    can = ModelFacts(TAGS["mnist_b"], tuple(InputType), 302)
    found = expand(suite(models=["mnist_a", "mnist_b"], sweep={key: values}), {**FACTS, "mnist_b": can})
    have = {point.id for point in found.points}
    assert f"mnist_a/bayes-e/max{end}" not in have
    assert f"mnist_b/bayes-e/max{end}" in have
    ((reason, count),) = found.skipped.items()
    assert re.search(message, reason)
    assert count == 1
    with pytest.raises(ConfigError, match=rf"suite mine: trials\.0\.{message} \(model mnist_a, march bayes-e\)"):
        ids(suite(trials=[{key: values[-1]}]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sweep": {"input_type_rt": [None, "gray"]}},
            r"sweep\.input_type_rt: 'gray' cannot be used in any trial: .*rgb, nv12",
        ),
        (
            {"sweep": {"calibration_seed": [None, 1]}},
            "sweep.calibration_seed: 1 cannot be used in any trial: .* there is no choice, because all 300 "
            "samples are taken",
        ),
        (
            {"sweep": {"calibration_type": "mix", "mse_thresholds": [False, True]}},
            r"sweep\.mse_thresholds: True cannot be used in any trial: mse_thresholds has no meaning with "
            r"calibration_type 'mix'",
        ),
        (
            {"sweep": {"calibration_type": "kl", "max_percentile": [1.0, 0.99]}},
            r"sweep\.max_percentile: 0\.99 cannot be used in any trial: max_percentile belongs to "
            r"calibration_type 'max'",
        ),
        (
            {"march": "bernoulli2", "sweep": {"int16": ["none", "all"]}},
            r"sweep\.int16: int16\.all cannot be used in any trial: .*bernoulli2 has no int16",
        ),
    ],
)
def test_a_value_that_no_combination_can_use_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ids(suite(**changes))


def test_combinations_that_mean_nothing_are_counted_by_reason() -> None:
    axes = {"calibration_type": ["max", "kl", "mix"], "max_percentile": [1.0, 0.99], "mse_thresholds": [False, True]}
    found = expand(suite(march=["bernoulli2", "bayes"], sweep={**axes, "int16": ["none", "all"]}), FACTS)
    assert found.skipped["mse_thresholds has no meaning with calibration_type 'mix'"] == 4
    no_int16 = [count for reason, count in found.skipped.items() if "bernoulli2 has no int16" in reason]
    assert no_int16 == [7]
    assert len(found.skipped) == 2


def test_trials_stand_by_model_and_march() -> None:
    marches = {"march": ["bayes", "bayes-e"], "trials": [{"calibration_type": "kl"}, {"march": "bernoulli2"}]}
    assert ids(suite(models=["mnist_b", "mnist_a"], **marches)) == [
        f"{model}/{trial}"
        for model in ("mnist_b", "mnist_a")
        for trial in ("bayes/max", "bayes/kl", "bayes-e/max", "bayes-e/kl", "bernoulli2/max")
    ]


def test_int16_is_left_out_of_the_grid_on_a_march_without_it() -> None:
    found = ids(suite(march=["bernoulli2", "bayes"], sweep={"int16": ["none", "all", {"types": ["Conv", "Add"]}]}))
    assert found == [
        "mnist_a/bernoulli2/max",
        "mnist_a/bayes/max",
        "mnist_a/bayes/max-int16.all",
        "mnist_a/bayes/max-int16.types(Conv+Add)",
    ]


def test_explicit_trials_follow_the_grid_of_their_model_and_are_not_doubled() -> None:
    trials = [{"calibration_type": "kl"}, {"calibration_type": "max"}, {"models": "scene", "march": "bayes"}]
    found = ids(suite(models=["mnist_b", "mnist_a"], trials=trials))
    assert found == [
        "mnist_b/bayes-e/max",
        "mnist_b/bayes-e/kl",
        "mnist_a/bayes-e/max",
        "mnist_a/bayes-e/kl",
        "scene/bayes/max",
    ]


def test_an_explicit_int16_trial_needs_a_march_that_has_it() -> None:
    with pytest.raises(ConfigError, match=r"trials\.0\.int16: int16\.all: march bernoulli2 has no int16; allowed on"):
        ids(suite(march="bernoulli2", trials=[{"int16": "all"}]))


def test_a_grid_that_leaves_nothing_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"sweep\.int16: int16\.all cannot be used in any trial"):
        ids(suite(march="bernoulli2", sweep={"int16": ["all"]}))


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["scene", "mnist_*"], ["scene", "mnist_a", "mnist_b"]),
        (["tag:small"], ["mnist_a", "mnist_b"]),
        (["mnist_b", "tag:small"], ["mnist_b", "mnist_a"]),
        (["tag:s*"], ["mnist_a", "mnist_b"]),
        (["task:detection"], ["scene"]),
        (["dataset:mn*"], ["mnist_a"]),
    ],
)
def test_selection_keeps_the_order_of_the_patterns(patterns: list[str], expected: list[str]) -> None:
    assert select(patterns, TAGS) == expected


@pytest.mark.parametrize(
    ("patterns", "message"),
    [(["mnist_c"], "unknown model 'mnist_c'; did you mean 'mnist_b'"), (["tag:smal"], "did you mean 'small'")],
)
def test_a_selection_of_nothing_names_the_nearest(patterns: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(patterns, TAGS)


@pytest.mark.parametrize(("samples", "offered", "fits"), [(None, 300, False), (300, 300, False), (299, 300, True)])
def test_a_seed_needs_images_to_choose_among(samples: int | None, offered: int, fits: bool) -> None:
    definition = suite(
        sweep=None, trials=[{"calibration_seed": 1}], **({"calibration_samples": samples} if samples else {})
    )
    if fits:
        assert ids(definition) == ["mnist_a/bayes-e/max-seed1"]
    else:
        with pytest.raises(ConfigError, match=f"there is no choice, because all {offered} samples are taken"):
            ids(definition)


def test_a_model_selected_twice_has_its_trials_once() -> None:
    assert ids(suite(models=["mnist_a", "mnist_*"])) == ["mnist_a/bayes-e/max", "mnist_b/bayes-e/max"]


def test_messages_name_the_place_of_a_wrong_selection() -> None:
    with pytest.raises(ConfigError, match=r"^suite mine: models: unknown model 'x'"):
        ids(suite(models="x"))
    with pytest.raises(ConfigError, match=r"^here: trials\.1\.models: unknown tag 'x'"):
        expand(suite(trials=[{}, {"models": "tag:x"}]), FACTS, "here")


def test_a_label_with_a_kind_is_no_tag() -> None:
    with pytest.raises(ConfigError, match="Allowed: detection, residual, small"):
        select(["tag:dataset*"], TAGS)
