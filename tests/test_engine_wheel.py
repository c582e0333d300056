"""The engine's own distribution follows from the one ``pyproject.toml``."""

from __future__ import annotations

import importlib.util
import tomllib
from types import ModuleType

import pytest

from engine.cli.start import PAGES
from tests.conftest import ROOT

WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("engine_wheel", ROOT / ".ci" / "engine_wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lab_is_left_out_and_pages_are_an_extra(script: ModuleType) -> None:
    table = script.project(WHOLE)
    needed = {script.package_of(one) for one in table["dependencies"]}
    pages = {script.package_of(one) for one in table["optional-dependencies"]["pages"]}
    assert {"numpy", "onnx", "numba", "pydantic", "typer"} <= needed
    assert not needed & {"mlflow", "plotly", "scikit-learn", "fsspec"}
    assert pages == PAGES
    assert "ptqlab" not in table["scripts"]
    assert table["scripts"]["hb_mapper"] == "engine.cli.start:hb_mapper"
    assert table["version"] == WHOLE["project"]["version"]


def test_the_lab_without_mlflow_has_it_as_an_extra(script: ModuleType) -> None:
    table = script.minimal(WHOLE)
    needed = {script.package_of(one) for one in table["dependencies"]}
    whole = {script.package_of(one) for one in WHOLE["project"]["dependencies"]}
    assert whole - needed == {"mlflow"}
    assert [script.package_of(one) for one in table["optional-dependencies"]["mlflow"]] == ["mlflow"]
    assert table["scripts"] == WHOLE["project"]["scripts"]
    assert table["entry-points"] == WHOLE["project"]["entry-points"]
    assert table["name"] == "ptqlab-minimal"


def test_every_dependency_that_is_split_off_is_one_of_the_whole(script: ModuleType) -> None:
    named = [name for names in WHOLE["tool"]["ptqlab"]["engine"].values() for name in names]
    assert {script.package_of(one) for one in WHOLE["project"]["dependencies"]} >= set(named)


def test_the_table_is_read_back_as_it_was(script: ModuleType) -> None:
    for table in (script.project(WHOLE), script.minimal(WHOLE)):
        assert tomllib.loads(script.toml(table))["project"] == table
