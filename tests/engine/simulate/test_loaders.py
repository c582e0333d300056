"""Files are opened by their first bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelError
from engine.ir import save_model
from engine.simulate.loaders import LoaderRegistry
from tests.engine.simulate.models import node_model

MODEL, OTHER = (node_model("Relu", [np.zeros((1, 2), np.float32)], {}, domain="") for _ in range(2))


def test_a_format_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    registry = LoaderRegistry(providers=())
    registry.register(b"AB", lambda _: OTHER)
    registry.register(b"LONGER", lambda _: MODEL)
    for name, content, found in (("a.bin", b"ABC", OTHER), ("b.bin", b"LONGER", MODEL)):
        (tmp_path / name).write_bytes(content)
        assert registry.open(tmp_path / name) is found
    (tmp_path / "c.bin").write_bytes(b"xAB")
    with pytest.raises(ModelError, match=r"c\.bin"):
        registry.open(tmp_path / "c.bin")


def test_onnx_files_need_no_loader_and_other_names_are_tried_as_onnx(tmp_path: Path) -> None:
    registry = LoaderRegistry(providers=("no.such.module",))
    save_model(MODEL, tmp_path / "m.onnx")
    assert registry.open(tmp_path / "m.onnx").graph.name == "one_node"
    plain = LoaderRegistry(providers=())
    save_model(MODEL, tmp_path / "m.model")
    assert plain.open(tmp_path / "m.model").graph.name == "one_node"
    with pytest.raises(ModelError, match=r"none.onnx: no such model file"):
        registry.open(tmp_path / "none.onnx")


def test_providers_register_when_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = LoaderRegistry(providers=("format_of_a_test",))
    (tmp_path / "format_of_a_test.py").write_text("raise ImportError('too early')")
    (tmp_path / "a.bin").write_bytes(b"AB")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "format_of_a_test", raising=False)
    with pytest.raises(ImportError, match="too early"):
        registry.open(tmp_path / "a.bin")
