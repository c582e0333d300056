"""A regression has a name: what was planted between two nights is what the verdict says."""

from __future__ import annotations

import pytest

from tests.e2e.planted import PLANTS, Laboratory, Plant, planted

INPUTS = (
    "model file",
    "preprocessing",
    "calibration data",
    "evaluation data",
    "metric",
    "engine",
    "tools",
)


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory.made(tmp_path_factory.mktemp("laboratory"))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_what_was_planted_is_named(laboratory: Laboratory, plant: Plant) -> None:
    found = planted(laboratory, plant, budget=300.0 if plant.name == "a wrong mean" else 0.0)
    assert (found.verdict, found.exit_code) == (plant.verdict, plant.exit_code), found.printed
    causes = found.trial.get("causes", found.shared)
    assert tuple(cause["kind"] for cause in causes if cause["kind"] in INPUTS) == plant.kinds, found.printed
    for word in plant.words:
        assert word in found.printed
    if found.trial:
        assert found.trial["headline"] in found.printed
        assert "<h2>Why</h2>" in found.page
    if found.trial and found.trial["flips"] is not None and found.trial["flips"]["images"]:
        assert "data:image/png;base64," in found.page
    if plant.name == "a wrong mean":
        assert found.bisection is not None
        assert found.bisection["report"] in found.page
