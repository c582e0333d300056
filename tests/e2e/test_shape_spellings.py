"""Every command that takes shapes of inputs takes them as one word and as two, through its own entry point."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
import typer

from engine.cli.named import INPUT_SHAPE
from engine.cli.vendor import hb_compile, hb_mapper
from harness.cli import main as ptqlab
from tests.engine.spelled import network

SPELLINGS = pytest.mark.parametrize(
    "words", [["x=1x4x8x8"], ["x", "1x4x8x8"], ["x 1x4x8x8"]], ids=["=", "two", "blank"]
)


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network whose input has an open shape."""
    model = network("y = Conv(x, W(8, 4, 3, 3))", 11)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[2].dim_param, dims[3].dim_param = "h", "w"
    del model.graph.value_info[:]
    for dim in model.graph.output[0].type.tensor_type.shape.dim[2:]:
        dim.Clear()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    return path


def of_ptqlab(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["ptqlab", *words])
    return _exit_code(ptqlab.main)


def _exit_code(run: Callable[[], object]) -> int:
    try:
        run()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@SPELLINGS
@pytest.mark.parametrize("command", ["check", "predict", "explain", "rewrite"])
def test_ptqlab(command: str, words: list[str], net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_ptqlab([command, str(net)], monkeypatch) != 0
    assert of_ptqlab([command, str(net), INPUT_SHAPE, *words], monkeypatch) == 0


@SPELLINGS
def test_hb_mapper(words: list[str], net: Path) -> None:
    arguments = ["checker", "--model-type", "onnx", "--march", "bayes-e", "--model", str(net)]
    assert _exit_code(lambda: hb_mapper.main(arguments)) != 0
    assert _exit_code(lambda: hb_mapper.main([*arguments, INPUT_SHAPE, *words])) == 0


@SPELLINGS
def test_hb_compile(words: list[str], net: Path) -> None:
    arguments = ["--march", "nash-e", "--model", str(net)]
    assert _exit_code(lambda: hb_compile.main(arguments)) != 0
    assert _exit_code(lambda: hb_compile.main([*arguments, INPUT_SHAPE, *words])) == 0


def test_no_other_command_takes_shapes() -> None:
    def with_shapes(command: Any) -> set[str]:
        inner = getattr(command, "commands", {})
        options = {name: each.get_params(typer.Context(each)) for name, each in inner.items()}
        return {name for name, found in options.items() if any(INPUT_SHAPE in each.opts for each in found)}

    # init and run read them as the others do (harness/onboarding/fixed_inputs.py), for inputs that --fix names
    assert with_shapes(typer.main.get_command(ptqlab.app)) == {"check", "predict", "explain", "rewrite", "init", "run"}
    assert with_shapes(typer.main.get_command(hb_mapper.app)) == {"checker"}
