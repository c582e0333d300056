"""Suites: what YAML is taken, what it expands to, what errors say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.chips import March
from engine.errors import ConfigError
from harness.suites.suite import bundled_suites, open_suite, suite_path
from harness.sweeps.planning import expansion_of
from tests.harness.suites.made import ids, suite


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
        ({"name": ".."}, r"name: '\.\.'"),  # names its folder of results
        ({"name": "x" * 101}, "at most 100"),
        ({"march": "bayes-f"}, r"march\.0: 'bayes-f'"),
        ({"gates": {"significance": 2}}, r"gates\.significance: 2"),
    ],
)
def test_errors_name_file_key_value_and_what_is_allowed(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        suite(**changes)


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
    assert {point.march for point in points} == {March("bayes-e")}


def test_a_suite_is_found_by_name_or_path(tmp_path: Path) -> None:
    assert suite_path("smoke").name == "smoke.yaml"
    with pytest.raises(ConfigError, match="unknown suite 'smok'; did you mean 'smoke'"):
        suite_path("smok")
    with pytest.raises(ConfigError, match="no such suite file"):
        suite_path(str(tmp_path / "none.yaml"))
    file = tmp_path / "mine.yaml"
    file.write_text("{name: other, version: 1, models: x, sweep: {}}")
    assert open_suite(str(file)).name == "other"


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
