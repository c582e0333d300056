"""Suites: what YAML is taken, what it expands to, what errors say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from engine.config import OWN_OPTIMIZATIONS
from engine.errors import ConfigError
from engine.terms import CalibrationType, InputType, March
from harness.strict_yaml import parse
from harness.suites.expansion import ModelFacts, expand, select
from harness.suites.grid import Grid
from harness.suites.settings import SWITCHES, Int16Kind, Int16Policy, Settings
from harness.suites.suite import Suite, bundled_suites, open_suite, suite_path
from harness.sweep import expansion_of

TAGS = {
    "mnist_a": ["small", "dataset:mnist"],
    "mnist_b": ["small", "residual"],
    "scene": ["detection", "task:detection"],
}
FACTS = {name: ModelFacts(labels, (InputType.RGB, InputType.NV12), 300) for name, labels in TAGS.items()}


def suite(**changes: Any) -> Suite:
    content = {"name": "mine", "version": 1, "models": "mnist_a", "sweep": {}, **changes}
    return parse(content, Suite, "mine.yaml")


def ids(definition: Suite) -> list[str]:
    return [point.id for point in expand(definition, FACTS).points]


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
        ({"sweep": {"input_type_rt": [None, "gray"]}}, r"sweep\.input_type_rt: 'gray' can never be used: .*rgb, nv12"),
        (
            {"sweep": {"calibration_seed": [None, 1]}},
            "sweep.calibration_seed: 1 can never be used: .* nothing to choose, all 300 samples are taken",
        ),
        (
            {"sweep": {"calibration_type": "mix", "mse_thresholds": [False, True]}},
            r"sweep\.mse_thresholds: True can never be used: mse_thresholds has no meaning with calibration_type 'mix'",
        ),
        (
            {"sweep": {"calibration_type": "kl", "max_percentile": [1.0, 0.99]}},
            r"sweep\.max_percentile: 0\.99 can never be used: max_percentile belongs to calibration_type 'max'",
        ),
        (
            {"march": "bernoulli2", "sweep": {"int16": ["none", "all"]}},
            r"sweep\.int16: int16\.all can never be used: .*bernoulli2 has no int16",
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


def test_trials_stand_by_model_and_march() -> None:
    marches = {"march": ["bayes", "bayes-e"], "trials": [{"calibration_type": "kl"}, {"march": "bernoulli2"}]}
    assert ids(suite(models=["mnist_b", "mnist_a"], **marches)) == [
        f"{model}/{trial}"
        for model in ("mnist_b", "mnist_a")
        for trial in ("bayes/max", "bayes/kl", "bayes-e/max", "bayes-e/kl", "bernoulli2/max")
    ]


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
    ]
    with pytest.raises(ConfigError, match=r"bias_correction has no meaning with calibration_type 'default'"):
        suite(trials=[{"calibration_type": "default", "bias_correction": True}])
    with pytest.raises(ConfigError, match=r"bias_correction has no meaning with asymmetric"):
        suite(trials=[{"asymmetric": True, "bias_correction": True}])
    with pytest.raises(ConfigError, match=r"trials\.0.*mse_thresholds has no meaning with calibration_type 'mix'"):
        suite(trials=[{"calibration_type": "mix", "mse_thresholds": True}])
    with pytest.raises(ConfigError, match="adaptive_rounding has no meaning with engine onnxruntime"):
        suite(trials=[{"engine": "onnxruntime", "adaptive_rounding": True}])


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
    with pytest.raises(ConfigError, match=r"sweep\.int16: int16\.all can never be used"):
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"swep": {}}, r"mine\.yaml: unknown key 'swep'; did you mean 'sweep'\? Allowed: name, version"),
        ({"sweep": {"per_chanel": True}}, "unknown key 'sweep.per_chanel'; did you mean 'per_channel'"),
        ({"sweep": {"calibration_type": "mx"}}, r"sweep\.calibration_type\.0: 'mx': .*'kl'"),
        ({"sweep": {"max_percentile": 1.5}}, r"sweep\.max_percentile\.0: 1\.5"),
        ({"sweep": {"int16": ["most"]}}, r"sweep\.int16\.0: 'most': allowed are none, all, \{nodes"),
        ({"sweep": {"int16": [{"nodes": []}]}}, "allowed are none, all"),
        ({"sweep": {"int16": [{"nodes": "conv"}]}}, "allowed are none, all"),
        ({"trials": [{"calibration_type": "kl", "max_percentile": 0.99}]}, "has no meaning with calibration_type 'kl'"),
        ({"sweep": None}, "needs 'sweep', 'trials' or both"),
        ({"version": 0}, "version: 0"),
        ({"name": "a b"}, "name: 'a b'"),
        ({"march": "bayes-f"}, r"march\.0: 'bayes-f'"),
        ({"gates": {"significance": 2}}, r"gates\.significance: 2"),
    ],
)
def test_errors_name_file_key_value_and_what_is_allowed(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        suite(**changes)


def test_settings_survive_json() -> None:
    for int16 in (Int16Policy(), Int16Policy(kind=Int16Kind.ALL), Int16Policy(kind=Int16Kind.NODES, names=("a", "b"))):
        settings = Settings(calibration_type=CalibrationType.KL, per_channel=True, int16=int16)
        assert Settings.model_validate_json(settings.model_dump_json()) == settings


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


def test_bundled_suites_are_valid_and_not_empty() -> None:
    expected = {"smoke", "nightly", "percentile_curve", "int16_pareto", "efficientnet_lite0", "torchvision", "packages"}
    assert {*expected, "ocr", "zoo_all"} == set(bundled_suites())
    for name in bundled_suites():
        points = expansion_of(open_suite(name)).points
        assert points
        assert len({point.id for point in points}) == len(points)


def test_smoke_sweeps_all_four_axes_over_two_models() -> None:
    points = expansion_of(open_suite("smoke")).points
    assert len({point.model for point in points}) == 2
    for axis in ("calibration_type", "max_percentile", "per_channel", "int16"):
        assert len({getattr(point.settings, axis) for point in points}) > 1
    assert {point.march for point in points} == {March.BAYES_E}


def test_a_suite_is_found_by_name_or_path(tmp_path: Path) -> None:
    assert suite_path("smoke").name == "smoke.yaml"
    with pytest.raises(ConfigError, match="unknown suite 'smok'; did you mean 'smoke'"):
        suite_path("smok")
    with pytest.raises(ConfigError, match="no such suite file"):
        suite_path(str(tmp_path / "none.yaml"))
    file = tmp_path / "mine.yaml"
    file.write_text("{name: other, version: 1, models: x, sweep: {}}")
    assert open_suite(str(file)).name == "other"


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


def test_an_included_suite_gives_what_is_not_said(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "{name: base, version: 3, models: mnist_a, march: bayes, trials: [{calibration_type: kl}], gates: {stderrs: 4}}"
    )
    (tmp_path / "mine.yaml").write_text(
        "{include: base.yaml, name: mine, version: 1, models: scene, trials: [{per_channel: true}]}"
    )
    found = open_suite(str(tmp_path / "mine.yaml"))
    assert ids(found) == ["scene/bayes/kl", "scene/bayes/max-per_channel"]
    assert (found.name, found.version, found.gates.stderrs) == ("mine", 1, 4)


@pytest.mark.parametrize(
    ("include", "message"),
    [("mine.yaml", "includes itself"), ("smok", "did you mean 'smoke'"), ("[1]", "expected the name or file")],
)
def test_an_include_that_cannot_be_is_an_error(tmp_path: Path, include: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{{include: {include}, name: mine, version: 1, models: scene, sweep: {{}}}}")
    with pytest.raises(ConfigError, match=message):
        open_suite(str(path))
