"""Where plain files are looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import ConfigError
from harness.files import paths
from harness.gates.baseline import baseline_path
from harness.suites.suite import suite_path


@pytest.mark.parametrize(
    ("look_up", "variable"), [(paths.external_data, "PTQLAB_DATA"), (paths.external_models, "PTQLAB_MODELS")]
)
class TestExternal:
    def test_below_the_folder_of_the_variable(
        self, look_up: object, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(variable, str(tmp_path))
        assert callable(look_up)
        assert look_up("net.onnx") == tmp_path / "net.onnx"

    def test_an_absolute_path_needs_no_variable(
        self, look_up: object, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv(variable, raising=False)
        assert callable(look_up)
        assert look_up(tmp_path / "net.onnx") == tmp_path / "net.onnx"

    def test_a_relative_path_names_the_variable_that_is_missing(
        self, look_up: object, variable: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv(variable, raising=False)
        assert callable(look_up)
        with pytest.raises(ConfigError, match=f"{variable} is not set.*net.onnx"):
            look_up("net.onnx")


class TestFoldersOfTheUser:
    """What a user adds is found beside what is bundled, and before it."""

    def test_they_add_to_what_is_bundled(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        for folder in (first, second):
            folder.mkdir()
            (folder / "mine.yaml").write_text("name: mine")
        (second / "smoke.yaml").write_text("name: smoke")
        monkeypatch.setenv("PTQLAB_SUITES", f"{first}{os.pathsep}{second}")
        found = paths.yaml_files(paths.suites())
        assert found["mine"] == first / "mine.yaml"
        assert found["smoke"] == second / "smoke.yaml"
        assert found["nightly"] == paths.bundled("suites") / "nightly.yaml"

    def test_without_variables_there_is_what_is_bundled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PTQLAB_SUITES", raising=False)
        monkeypatch.delenv("PTQLAB_DATASETS", raising=False)
        assert paths.suites() == (paths.bundled("suites"),)
        assert paths.datasets() == (paths.bundled("datasets"),)


def test_baselines_lie_beside_the_suite(tmp_path: Path) -> None:
    assert baseline_path(tmp_path / "mine.yaml") == tmp_path.resolve() / "baselines" / "mine.json"
    assert baseline_path(suite_path("smoke")) == paths.reports() / "baselines" / "smoke.json"
    assert not paths.is_installed(tmp_path)
    assert paths.is_installed(Path(paths.__file__).parent / "bundled" / "reports" / "baselines" / "smoke.json")


def test_a_suite_file_brings_the_cards_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQLAB_SUITES", "/elsewhere")
    monkeypatch.delenv("PTQLAB_DATASETS", raising=False)
    paths.find_beside(tmp_path / "suite.yaml")
    paths.find_beside("smoke")
    assert paths.suites()[:-1] == (Path("/elsewhere"),)
    for name in ("zoo", "datasets"):
        (tmp_path / name).mkdir()
    for _ in range(2):
        paths.find_beside(tmp_path / "suite.yaml")
        assert paths.suites()[:-1] == (tmp_path, Path("/elsewhere"))
        assert paths.datasets()[:-1] == (tmp_path / "datasets",)


def test_the_reference_is_where_its_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTQLAB_REFERENCE", str(tmp_path))
    assert paths.external_reference() == tmp_path
    monkeypatch.delenv("PTQLAB_REFERENCE")
    assert paths.external_reference() is None
