"""``ptqlab export``: what it writes, what it refuses, and that a refusal writes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import typer
from typer.testing import CliRunner, Result

from engine.cli.lab.export import export as command
from engine.errors import ModelError
from engine.ir import load_model, save_model
from engine.simulate import Session
from harness.cli.main import app
from tests.engine.simulate.models import node_model
from tests.golden_cases import BUNDLED, conversion_cases

CASES = {str(case): case for case in conversion_cases(BUNDLED)}
CASE = next(iter(CASES.values()))


def export(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_exported_file_runs_without_the_engine(tmp_path: Path) -> None:
    target = tmp_path / "new" / "standard.onnx"
    result = export("--standard", CASE.model, target)
    assert result.exit_code == 0, result.output
    assert str(target) in result.output
    assert [path.name for path in target.parent.iterdir()] == ["standard.onnx"]
    session = ort.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    for inputs, expected in CASE.samples:
        names = [output.name for output in session.get_outputs()]
        for name, array in zip(names, session.run(names, inputs), strict=True):
            np.testing.assert_array_equal(array, expected[name])


def test_same_file_twice(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        assert export("--standard", CASE.model, tmp_path / name).exit_code == 0
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_exported_file_is_not_exported_again(tmp_path: Path) -> None:
    assert export("--standard", CASE.model, tmp_path / "standard.onnx").exit_code == 0
    result = export("--standard", tmp_path / "standard.onnx", tmp_path / "again.onnx")
    assert isinstance(result.exception, ModelError)
    assert not (tmp_path / "again.onnx").exists()


def test_session_runs_exported_file(tmp_path: Path) -> None:
    """Our own session takes it for a float model."""
    target = tmp_path / "standard.onnx"
    assert export("--standard", CASE.model, target).exit_code == 0
    inputs, expected = CASE.samples[0]
    for name, array in Session(target).run(inputs).items():
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("old", [None, b"kept"], ids=["no file", "a file"])
def test_float_model_is_refused(old: bytes | None, tmp_path: Path) -> None:
    source, target = tmp_path / "float.onnx", tmp_path / "standard.onnx"
    save_model(node_model("Relu", [np.zeros((1, 2), np.float32)], {}, domain=""), source)
    if old is not None:
        target.write_bytes(old)
    result = export("--standard", source, target)
    assert isinstance(result.exception, ModelError)
    assert "quantised" in str(result.exception)
    assert (target.read_bytes() if target.exists() else None) == old


def test_form_must_be_named(tmp_path: Path) -> None:
    result = export(CASE.model, tmp_path / "standard.onnx")
    assert result.exit_code == 2
    assert "--standard" in result.output


def test_source_is_left_alone(tmp_path: Path) -> None:
    before = CASE.model.read_bytes()
    assert export("--standard", CASE.model, tmp_path / "standard.onnx").exit_code == 0
    assert CASE.model.read_bytes() == before
    assert len(load_model(tmp_path / "standard.onnx").graph) > len(onnx.load(CASE.model).graph.node)


def test_the_line_says_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(CASE.model, tmp_path / "m.onnx", standard=True)
    model = onnx.load(tmp_path / "m.onnx")
    expected = f"{tmp_path / 'm.onnx'}: {len(model.graph.node)} nodes, operator set {model.opset_import[0].version}\n"
    assert capsys.readouterr().out == expected
    with pytest.raises(typer.BadParameter, match="choose a form"):
        command(CASE.model, tmp_path / "n.onnx")
    assert not (tmp_path / "n.onnx").exists()
