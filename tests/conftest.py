"""Shared fixtures: where the measured reference data are, Hypothesis profiles."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
"""Where this project's own machines keep measured data, data sets and models; absent elsewhere."""
for _variable, _folder in (("PTQLAB_REFERENCE", "reference"), ("PTQLAB_DATA", "data"), ("PTQLAB_MODELS", "models")):
    if (SHARED / _folder).is_dir():
        os.environ.setdefault(_variable, str(SHARED / _folder))

os.environ["PTQLAB_BOARDS"] = os.devnull  # what was measured on a developer's own boards changes no test

settings.register_profile("dev", max_examples=10, deadline=None)
settings.register_profile(
    "ci", max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Where two processes run all tests, the second imports them from the last to the first.

    pytest rewrites the assertions of a file once, but every process reads all files, and two that go the same way do
    most of that work twice: 30 CPU seconds after a checkout.
    """
    everything = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if everything and os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        for path in sorted((ROOT / "tests").rglob("test_*.py"), reverse=True):
            with suppress(Exception, pytest.skip.Exception):  # the collection tells what is wrong
                import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A night's properties take as long as they take; the original is asked only where there is one."""
    original = os.environ.get("PTQLAB_HB_MAPPER")
    for item in items:
        if PROFILE == "nightly":
            item.add_marker(pytest.mark.timeout(0))
        if not original and item.get_closest_marker("original"):
            item.add_marker(pytest.mark.skip(reason="no original toolchain: PTQLAB_HB_MAPPER is unset"))


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    """Folder of the measured reference data: ``PTQLAB_REFERENCE``."""
    configured = os.environ.get("PTQLAB_REFERENCE")
    if not configured or not Path(configured).is_dir():
        pytest.skip(f"no reference data: PTQLAB_REFERENCE is unset or not a folder ({configured})")
    return Path(configured)


def unexpected_skips(reasons: list[str], lists: str) -> list[str]:
    """``reasons`` that no line of the files in ``lists``, one path a line, allows."""
    text = "\n".join(Path(name).read_text(encoding="utf-8") for name in lists.splitlines() if name)
    allowed = [re.compile(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return sorted({reason for reason in reasons if not any(pattern.match(reason) for pattern in allowed)})


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where ``PTQLAB_EXPECTED_SKIPS`` names lists of reasons, a test that is skipped for another one fails the run."""
    lists = os.environ.get("PTQLAB_EXPECTED_SKIPS")
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if not lists or reporter is None or hasattr(session.config, "workerinput"):
        return
    skipped = [report.longrepr[2].removeprefix("Skipped: ") for report in reporter.stats.get("skipped", [])]
    found = unexpected_skips(skipped, lists)
    if found:
        reporter.write_line("")
        for reason in found:
            reporter.write_line(f"ERROR: skipped, and not expected to be: {reason}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
