"""The check of the oldest allowed dependencies (``.ci/lower_bounds.py``)."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("lower_bounds", ROOT / ".ci" / "lower_bounds.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_bounds_of_requirements(script: ModuleType) -> None:
    given = ["numpy>=2.0", "moto[server]>=5.0", "mkdocs>=1.6,<2", "torch==2.13.0", "types-PyYAML", "a>=1; python<'4'"]
    assert script.pinned(given) == ["numpy==2.0", "moto==5.0", "mkdocs==1.6", "torch==2.13.0", "a==1"]


def test_every_dependency_has_a_bound(script: ModuleType) -> None:
    bounds = script.lower_bounds(ROOT / "pyproject.toml")
    assert {"numpy", "mlflow", "pillow", "distributed", "s3fs"} <= {bound.partition("==")[0] for bound in bounds}
    assert len(bounds) > 25


def test_without_a_network_one_line_says_so(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(script.urllib.request, "urlopen", fail)
    assert script.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("skipped: the data of pip-audit")
