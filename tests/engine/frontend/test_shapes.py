"""Shapes of all tensors: inferred, by values where those are short, refused where no machine holds the tensor."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.errors import ModelError, UnsupportedError
from engine.frontend.onnx import load_onnx
from engine.frontend.shapes import brief, check_sizes, infer_shapes
from engine.ir import load_model
from tests.engine.frontend.networks import network, saved


def doubling(levels: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Concat", ["x" if level == 0 else f"c{level - 1}"] * 2, [f"c{level}"], axis=1)
        for level in range(levels)
    ]
    return network([*nodes, helper.make_node("Relu", [f"c{levels - 1}"], ["y"])], {"x": (1, 4, 8, 8)}, ["y"])


def test_a_tensor_that_doubles_is_refused(tmp_path: Path) -> None:
    assert load_onnx(saved(doubling(10), tmp_path)).graph.outputs[0].shape == (1, 4096, 8, 8)
    message = r"tensor 'c23' of shape \(1, 67108864, 8, 8\) has more than 2147483648 elements of one tensor of a model"
    for levels in (24, 50):
        with pytest.raises(UnsupportedError, match=message):
            load_onnx(saved(doubling(levels), tmp_path))


def test_inputs_that_no_machine_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 1 << 20, 1 << 15, 1 << 15)}, ["y"])
    with pytest.raises(UnsupportedError, match="tensor 'x' of shape"):
        load_onnx(saved(model, tmp_path))
    monkeypatch.setenv("PTQLAB_MAX_TENSOR_ELEMENTS", str(1 << 50))
    check_sizes(load_onnx(saved(model, tmp_path)), Path("m.onnx"))


def lists(levels: int, middle: str = "Identity") -> onnx.ModelProto:
    """A shape for a Reshape out of a list that doubles, so that only its values tell the shape."""
    nodes = [helper.make_node(middle, ["k"], ["t"])]
    nodes += [
        helper.make_node("Concat", ["t" if level == 0 else f"c{level - 1}"] * 2, [f"c{level}"], axis=0)
        for level in range(levels)
    ]
    nodes += [
        helper.make_node("Gather", [f"c{levels - 1}", "first"], ["g"], axis=0),
        helper.make_node("Reshape", ["x", "g"], ["y"]),
    ]
    constants = {"k": np.array([1, 8, 4, 2]), "first": np.array([0, 1, 2, 3])}
    return network(nodes, {"x": (1, 4, 4, 4)}, ["y"], constants)


@pytest.mark.parametrize("levels", [1, 8, 16])
def test_values_of_lists_are_followed(levels: int, tmp_path: Path) -> None:
    assert load_onnx(saved(lists(levels), tmp_path)).graph.outputs[0].shape == (1, 8, 4, 2)


@pytest.mark.parametrize("levels", [24, 40])
def test_lists_that_double_are_not_written_out(levels: int, tmp_path: Path) -> None:
    start = time.process_time()
    with pytest.raises(UnsupportedError, match=r"depends on the data|more than 2147483648 elements"):
        load_onnx(saved(lists(levels), tmp_path))
    assert time.process_time() - start < 5


def test_ranges_that_no_machine_holds(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Range", ["zero", "many", "one"], ["r"]),
        helper.make_node("Gather", ["r", "first"], ["g"], axis=0),
        helper.make_node("Cast", ["g"], ["f"], to=1),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "many": np.int64(10**12), "one": np.int64(1), "first": np.array([0])}
    with pytest.raises(UnsupportedError, match=r"tensor 'r' of shape \(1000000000000,\) has more than"):
        load_onnx(saved(network(nodes, {"x": (1, 1, 4, 4)}, ["y"], constants), tmp_path))


def test_what_the_checker_refuses(tmp_path: Path) -> None:
    nodes = [helper.make_node("Concat", ["x", "x"], ["y"], axis=9)]
    model = load_model(saved(network(nodes, {"x": (1, 4)}, ["y"]), tmp_path))
    with pytest.raises(ModelError, match=r"m\.onnx: not a valid ONNX model: .*axis"):
        infer_shapes(model, Path("m.onnx"))


def test_messages_are_cut() -> None:
    assert brief(ValueError("a\n  b")) == "a b"
    assert len(brief(ValueError("a" * 1000))) == 402
