"""Shared fixtures: where the measured reference data are, Hypothesis profiles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile("dev", max_examples=20, deadline=None)
settings.register_profile(
    "ci", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A night's properties take as long as they take."""
    if PROFILE == "nightly":
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    """Folder of the measured reference data: ``PTQLAB_REFERENCE``, else ``../shared/reference`` beside the project."""
    configured = os.environ.get("PTQLAB_REFERENCE")
    folder = Path(configured) if configured else ROOT.parent / "shared" / "reference"
    if not folder.is_dir():
        pytest.skip(f"no reference data: PTQLAB_REFERENCE is unset or not a folder ({folder})")
    return folder
