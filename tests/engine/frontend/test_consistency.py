"""Models that ONNX's checker accepts and that nothing can compute: refused where they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.errors import ModelError
from engine.frontend.consistency import check_consistency
from engine.frontend.onnx import load_onnx
from tests.engine.frontend.networks import network, saved

Case = tuple[str, tuple[int, ...], dict[str, Any], dict[str, Any], str]
"""Operator, shape of its first input, its constants (in the order of inputs), its attributes, the message."""


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


CASES: list[Case] = [
    ("Conv", (1, 4, 8, 8), {"w": ones(4, 3, 3, 3)}, {}, "and group 1 do not fit each other"),
    ("Conv", (1, 6, 8, 8), {"w": ones(3, 3, 3, 3)}, {"group": 2}, "and group 2 do not fit each other"),
    ("Conv", (1, 3, 8, 8), {"w": ones(4, 3, 3, 3)}, {"group": 0}, "and group 0 do not fit each other"),
    ("Conv", (1, 3, 8, 8), {"w": ones(4, 3, 3, 3), "b": ones(5)}, {}, "4 channels need a bias of as many values"),
    ("Conv", (1, 3, 8, 8), {"w": ones(4, 3, 3, 3)}, {"kernel_shape": [5, 5]}, r"kernel_shape \(5, 5\) and a weight of"),
    ("Conv", (1, 3, 2, 2), {"w": ones(4, 3, 3, 3)}, {}, "the window is larger than the padded input"),
    ("ConvTranspose", (1, 4, 8, 8), {"w": ones(3, 3, 3, 3)}, {}, "and group 1 do not fit each other"),
    ("ConvTranspose", (1, 2, 8, 8), {"w": ones(2, 3, 2, 2), "b": ones(4)}, {}, "3 channels need a bias"),
    ("MaxPool", (1, 3, 8, 8), {}, {"kernel_shape": [9, 9]}, "the window is larger than the padded input"),
    ("BatchNormalization", (1, 3, 8, 8), dict.fromkeys("abcd", ones(5)), {}, "3 channels need operands of as many"),
    ("InstanceNormalization", (1, 3, 8, 8), dict.fromkeys("ab", ones(2)), {}, "3 channels need operands of as many"),
    ("PRelu", (1, 3, 8, 8), {"a": ones(5, 1, 1)}, {}, r"a slope of shape \(5, 1, 1\) does not spread over"),
    ("Reshape", (1, 3, 8, 8), {"s": np.array([1, 7])}, {}, "they differ in the number of elements"),
    ("Reshape", (1, 3, 8, 8), {"s": np.array([[1, 192]])}, {}, "its second input must be a list"),
    ("Gather", (1, 3, 8, 8), {"i": np.array([3])}, {"axis": 1}, "indices 3 to 3 do not lie within 3 elements"),
    ("DepthToSpace", (1, 4, 8, 8), {}, {"blocksize": 3}, "cannot become blocks of 3x3"),
    ("SpaceToDepth", (1, 4, 8, 8), {}, {"blocksize": 3}, "no multiples of blocksize 3"),
    ("Resize", (1, 3, 8, 8), {"r": ones(8), "s": np.float32([1, 1, 0, 1])}, {}, "scales .* must be positive"),
    ("LRN", (1, 3, 8, 8), {}, {"size": 2}, "size 2 must be odd"),
    ("Clip", (1, 3, 8, 8), {"low": ones(0)}, {}, r"limits must be single numbers, one is of shape \(0,\)"),
    ("Slice", (1, 3, 8, 8), {"a": np.array([[0]]), "b": np.array([[2]])}, {}, "must be lists of the same length"),
    ("LSTM", (3, 1, 4), {"w": ones(1, 8, 5), "r": ones(1, 8, 2)}, {"hidden_size": 2}, "do not fit each other"),
    ("GRU", (3, 1, 4), {"w": ones(1, 6, 4), "r": ones(1, 6, 2)}, {"hidden_size": 3}, "do not fit each other"),
]


@pytest.mark.parametrize(("op_type", "shape", "constants", "attributes", "message"), CASES)
def test_operands_that_do_not_fit_are_refused(
    tmp_path: Path, op_type: str, shape: tuple[int, ...], constants: Any, attributes: Any, message: str
) -> None:
    node = helper.make_node(op_type, ["x", *constants], ["y"], "bad", **attributes)
    with pytest.raises(ModelError, match=message) as caught:
        load_onnx(saved(network([node], {"x": shape}, ["y"], constants), tmp_path))
    assert f"node 'bad' ({op_type})" in str(caught.value)


def made(
    kind: str, shapes: list[tuple[int, ...] | None], result: tuple[int, ...] | None = None, **attributes: Any
) -> ir.Model:
    """A model of one node whose shapes nothing has checked."""
    values = [None if shape is None else ir.val(f"x{i}", ir.DataType.FLOAT, shape) for i, shape in enumerate(shapes)]
    output = ir.val("y", ir.DataType.FLOAT, result)
    node = ir.node(kind, values, attributes, outputs=[output], name="n")
    inputs = [value for value in values if value is not None]
    return ir.Model(ir.Graph(inputs, [output], nodes=[node], opset_imports={"": 13}), ir_version=8)


FITS: list[ir.Model] = [
    made("Conv", [(1, 6, 8, 8), (4, 3, 3, 3), (4,)], (1, 4, 6, 6), group=2),
    made("ConvTranspose", [(1, 6, 8, 8), (6, 2, 3, 3), (4,)], (1, 4, 9, 9), group=2),
    made("BatchNormalization", [(1, 3, 2, 2), *[(3,)] * 4], (1, 3, 2, 2)),
    made("PRelu", [(1, 3, 2, 2), (3, 1, 1)], (1, 3, 2, 2)),
    made("PRelu", [(1, 3, 2, 2), (1,)], (1, 3, 2, 2)),
    made("DepthToSpace", [(1, 8, 2, 2)], (1, 2, 4, 4), blocksize=2),
    made("LRN", [(1, 8, 2, 2)], (1, 8, 2, 2), size=3),
    made("LSTM", [(5, 1, 2), (1, 12, 2), (1, 12, 3), (1, 24)], (5, 1, 1, 3), hidden_size=3),
    made("GRU", [(5, 1, 2), (2, 9, 2), (2, 9, 3)], (5, 2, 1, 3), direction="bidirectional"),
    made("RNN", [(5, 1, 2), (1, 3, 2), (1, 3, 3)], (5, 1, 1, 3)),
    made("Slice", [(4,), (0,), (0,)], (0,)),
    made("Relu", [(0, 3)], (0, 3)),
]


@pytest.mark.parametrize("model", FITS, ids=lambda model: model.graph[0].op_type)
def test_operands_that_fit_pass(model: ir.Model) -> None:
    check_consistency(model, Path("m.onnx"))
    assert len(model.graph) == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (made("Conv", [(1, 6, 8, 8), (5, 3, 3, 3)], (1, 5, 6, 6), group=2), "do not fit each other"),
        (made("Conv", [(1, 3, 8), (4, 3, 3, 3)], (1, 4, 6)), "do not fit each other"),
        (
            made("ConvTranspose", [(1, 6, 8, 8), (6, 2, 3, 3), (2,)], (1, 4, 9, 9), group=2),
            "4 channels need a bias of as many values, not",
        ),
        (made("ConvTranspose", [(1, 6, 8, 8), (6, 2, 3, 3)], (1, 2, 9, 9), kernel_shape=[2, 2]), "kernel_shape"),
        (made("AveragePool", [(1, 6, 8, 8)], (1, 6, 0, 8)), "the window is larger than the padded input"),
        (made("Pad", [(1, 6), (4,)], (1, -1)), "it takes away more than there is"),
        (made("PRelu", [(1, 3, 2, 2), (3,)], (1, 3, 2, 2)), "does not spread over"),
        (made("PRelu", [(3,), (1, 3)], (1, 3)), "does not spread over"),
        (made("SpaceToDepth", [(1, 2, 4, 5)], (1, 8, 2, 2), blocksize=2), "no multiples of blocksize 2"),
        (made("DepthToSpace", [(1, 8, 2)], (1, 2, 4), blocksize=2), "cannot become blocks of 2x2"),
        (made("LSTM", [(5, 1, 2), (1, 12, 2), (1, 12, 3), (1, 12)], (5, 1, 1, 3)), "do not fit each other"),
        (
            made("RNN", [(5, 1, 2), (1, 3, 2), (1, 3, 3)], (5, 2, 1, 3), direction="bidirectional"),
            "do not fit each other",
        ),
        (made("Tile", [(2, 2), (2, 1)], (2, 2)), "its second input must be a list"),
        (made("Slice", [(4,), (1,), (2,)], (1,)), "lists of the same length"),
    ],
)
def test_operands_that_contradict_do_not(model: ir.Model, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        check_consistency(model, Path("m.onnx"))
    assert str(caught.value).startswith("m.onnx: node 'n'")


def test_what_is_not_known_or_not_onnxs_is_not_checked() -> None:
    unknown = made("Conv", [None, (4, 3, 3, 3)], None)
    check_consistency(unknown, Path("m.onnx"))
    other = made("Conv", [(1, 6, 8, 8), (5, 3, 3, 3)], (1, 5, 6, 6), group=2)
    other.graph[0].domain = "horizon"
    check_consistency(other, Path("m.onnx"))
    assert (unknown.graph[0].domain, other.graph[0].domain) == ("", "horizon")
