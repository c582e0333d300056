"""Containers for the commands that read them, compiled once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.compile import CompileOptions, compile_model
from engine.ir import load_model
from tests.engine.cli.vendor.board import IMAGE, QUANTIZED


@pytest.fixture(scope="session")
def containers() -> Mapping[str, bytes]:
    """``feature`` (debug) and ``image``."""
    debug = CompileOptions(debug=True)
    return {
        "feature": compile_model(load_model(QUANTIZED), "bayes-e", debug, "feature").to_bytes(),
        "image": compile_model(load_model(IMAGE), "bayes-e", None, "image").to_bytes(),
    }


@pytest.fixture
def folder(containers: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two compiled models, ``feature.bin`` (debug) and ``image.bin``; the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, content in containers.items():
        (tmp_path / f"{name}.bin").write_bytes(content)
    return tmp_path
