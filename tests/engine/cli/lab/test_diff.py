"""``ptqlab diff``: what it prints, as text and as JSON, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import typer
from typer.testing import CliRunner, Result

from engine.cli.lab.diff import EXIT_DIFFERENT
from engine.cli.lab.diff import diff as command
from engine.errors import ModelError
from engine.ir import load_model, save_model
from harness.cli.main import app
from tests.golden_cases import BUNDLED

FIRST = BUNDLED / "conversions" / "res.quant.onnx"
KEYS = {"aspect", "where", "what", "first", "second", "elements", "total"}


def diff(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["diff", *map(str, arguments)])


def changed(folder: Path, change: Callable[[ir.Model], None]) -> Path:
    model = load_model(FIRST)
    change(model)
    return save_model(model, folder / "changed.onnx")


def node(model: ir.Model, name: str) -> ir.Node:
    return next(item for item in model.graph if item.name == name)


def change_weights(model: ir.Model) -> None:
    weights = node(model, "Conv_1").inputs[1]
    assert weights is not None
    assert weights.const_value is not None
    array = weights.const_value.numpy().copy()
    array[0, 0, 0, :2] += 1
    weights.const_value = ir.tensor(array, name=weights.name)


def change_shift(model: ir.Model) -> None:
    conv = node(model, "Conv_2")
    shifts = np.array(conv.attributes["out_shift"].as_ints())
    shifts[3] += 1
    conv.attributes["out_shift"] = ir.AttrInt64s("out_shift", shifts.tolist())


def change_scale(model: ir.Model) -> None:
    (scale,) = [item.inputs[1] for item in model.graph if item.op_type == "HzDequantize"][:1]
    assert scale is not None
    assert scale.const_value is not None
    scale.const_value = ir.tensor(scale.const_value.numpy() * np.float32(2), name=scale.name)


def change_name(model: ir.Model) -> None:
    node(model, "Conv_1").name = "another"


def change_operator(model: ir.Model) -> None:
    node(model, "Conv_1").op_type = "HzSQuantizedPreprocess"


def change_output(model: ir.Model) -> None:
    model.graph.outputs[0].name = "renamed"


def test_equal_models(tmp_path: Path) -> None:
    same = changed(tmp_path, lambda model: None)
    for arguments in ((FIRST, FIRST), (FIRST, same)):
        result = diff(*arguments)
        assert (result.exit_code, result.output) == (0, "no differences\n")
    assert json.loads(diff(FIRST, same, "--json").output) == []


@pytest.mark.parametrize(
    ("change", "aspect", "where", "elements"),
    [
        (change_weights, "integers", "Conv_1", 2),
        (change_shift, "attribute", "Conv_2", 1),
        (change_name, "name", "Conv_1", 1),
        (change_operator, "structure", "", 1),
        (change_output, "name", "graph output", 1),
    ],
)
def test_a_change_is_found(
    change: Callable[[ir.Model], None], aspect: str, where: str, elements: int, tmp_path: Path
) -> None:
    other = changed(tmp_path, change)
    text, as_json = diff(FIRST, other), diff(FIRST, other, "--json")
    assert text.exit_code == as_json.exit_code == 1
    rows = json.loads(as_json.output)
    assert all(set(row) == KEYS for row in rows)
    assert any(row["aspect"] == aspect and where in row["where"] and row["elements"] == elements for row in rows)
    summary, _, listed = text.output.partition("\n\n")
    assert summary.startswith(f"{len(rows)} differences in {len({row['where'] for row in rows})} places: ")
    assert f"{len([row for row in rows if row['aspect'] == aspect])} {aspect}" in summary
    assert f"first: {rows[0]['where'] or '(graph)'}; most: " in summary
    for row, line in zip(rows, listed.splitlines(), strict=True):
        assert line.startswith(f"{row['aspect']}: {row['where']} {row['what']}: {row['first']} | {row['second']}")


def test_floats_are_told_from_integers(tmp_path: Path) -> None:
    """The scale of a tail, one value per channel."""
    (row,) = json.loads(diff(FIRST, changed(tmp_path, change_scale), "--json").output)
    assert row["aspect"] == "floats"
    assert row["elements"] == row["total"]


def test_order_of_the_models_is_kept(tmp_path: Path) -> None:
    other = changed(tmp_path, change_name)
    (forwards,), (backwards,) = (json.loads(diff(*pair, "--json").output) for pair in ((FIRST, other), (other, FIRST)))
    assert (forwards["first"], forwards["second"]) == (backwards["second"], backwards["first"])


def test_unrelated_models_differ() -> None:
    result = diff(FIRST, BUNDLED / "conversions" / "bpu_softmax3.quant.onnx")
    assert result.exit_code == 1
    assert "structure" in result.output


def test_what_is_not_a_model_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.onnx"
    text.write_text("not a model")
    assert isinstance(diff(FIRST, text).exception, ModelError)
    missing = diff(FIRST, tmp_path / "missing.onnx")
    assert missing.exit_code == 2
    assert "missing.onnx" in "".join(missing.output.replace("│", "").split())


def test_the_exit_code_tells_whether_there_are_any(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(tmp_path, change_shift)
    command(FIRST, FIRST)
    assert capsys.readouterr().out == "no differences\n"
    assert EXIT_DIFFERENT == 1
    with pytest.raises(typer.Exit) as caught:
        command(FIRST, other)
    assert caught.value.exit_code == 1
    assert capsys.readouterr().out.startswith("1 differences in 1 places: 1 attribute\n")
