"""Where plain files are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from harness import paths


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
