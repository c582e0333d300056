"""Softmax as a chain of six operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import UnsupportedError
from engine.graph.scales import scale_source
from engine.ir import constant_of
from engine.ops.core.reasons import Code
from engine.ops.softmax import SoftmaxRule, normalised_axes, softmax_axis
from tests.engine.ops.operators import Recorder, float_node, int8, refused, results, tensor


def softmax(opset: int = 11, shape: tuple[int, ...] = (1, 4, 8), **attributes: Any) -> ir.Node:
    x = tensor("x", *shape)
    node = float_node("Softmax", [x], shape, **attributes)
    ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": opset}, name="g")
    return node


@pytest.mark.parametrize(("opset", "attributes", "axis"), [(11, {}, 1), (13, {}, 2), (11, {"axis": -1}, 2)])
def test_the_axis_depends_on_the_operator_set(opset: int, attributes: dict[str, int], axis: int) -> None:
    node = softmax(opset, **attributes)
    assert softmax_axis(node) == axis
    assert refused(SoftmaxRule(), node, late=True) is (None if axis == 2 else Code.LAST_AXIS)
    assert refused(SoftmaxRule(), node) is None
    assert SoftmaxRule().on_request


@pytest.mark.parametrize(("attributes", "op_type"), [({"axis": -1}, "Softmax"), ({"axis": 2}, "HzSoftmax")])
def test_more_values_than_a_reduction_takes_stay(attributes: dict[str, int], op_type: str) -> None:
    """The original's compiler fails on the ReduceSum of 4104 values."""
    for length, reason in ((4096, None), (4097, Code.REDUCED_VALUES)):
        node = softmax(13, (1, 4, length), **attributes)
        node.op_type = op_type
        assert refused(SoftmaxRule(), node, late=True) is reason


def test_the_six_nodes_their_names_and_marks() -> None:
    nodes = SoftmaxRule().decompose(softmax(11, axis=2))
    assert [(node.op_type, str(node.name)) for node in nodes] == [
        ("ReduceMax", "n_reducemax_FROM_QUANTIZED_SOFTMAX"),
        ("Sub", "n_sub_FROM_QUANTIZED_SOFTMAX"),
        ("Exp", "n_exp_FROM_QUANTIZED_SOFTMAX"),
        ("ReduceSum", "n_reducesum_FROM_QUANTIZED_SOFTMAX"),
        ("Reciprocal", "n_reciprocal_FROM_QUANTIZED_SOFTMAX"),
        ("Mul", "n_mul_FROM_QUANTIZED_SOFTMAX"),
    ]
    outputs = [str(node.outputs[0].name) for node in nodes]
    assert outputs == ["y_max", "y_sub", "y_exp", "y_reducesum", "y_reciprocal", "y"]
    assert [[str(value.name) for value in node.inputs if value] for node in nodes] == [
        ["x"],
        ["x", "y_max"],
        ["y_sub"],
        ["y_exp"],
        ["y_reducesum"],
        ["y_exp", "y_reciprocal"],
    ]
    assert [tuple(node.outputs[0].shape or ()) for node in nodes][:2] == [(1, 4, 1), (1, 4, 8)]
    assert [scale_source(node).fixed for node in nodes] == [None, None, 1.0, None, 1.0, 1.0]
    wide, moved = softmax(11, axis=2), softmax(11, axis=2)
    reader = ir.node("Transpose", [moved.outputs[0]])
    assert [scale_source(node).fixed for node in SoftmaxRule().decompose(wide, wide=True)] == [
        None,
        None,
        1,
        None,
        1,
        1,
    ]
    parts = SoftmaxRule().decompose(moved, wide=True)
    assert [scale_source(node).fixed for node in parts] == [None, None, 1, None, 1, None]
    assert reader.inputs[0] is moved.outputs[0]


@pytest.mark.parametrize(
    ("opset", "inputs"),
    [(11, {}), (13, {"ReduceSum"}), (17, {"ReduceSum"}), (18, {"ReduceSum", "ReduceMax"})],
)
def test_newer_operator_sets_take_the_axis_as_an_input(opset: int, inputs: set[str]) -> None:
    nodes = SoftmaxRule().decompose(softmax(opset, axis=2))
    reductions = [node for node in nodes if node.op_type.startswith("Reduce")]
    for node in reductions:
        if node.op_type in inputs:
            axes = constant_of(node.inputs[1])
            assert axes is not None
            assert axes.tolist() == [2]
        else:
            assert tuple(node.attributes["axes"].as_ints()) == (2,)


def test_it_is_never_lowered_itself() -> None:
    with pytest.raises(UnsupportedError, match="Softmax n: placement decomposes it"):
        SoftmaxRule().lower([softmax()], Recorder())


def test_axes_before_and_since_opset_13() -> None:
    plain, second = ir.node("Softmax", [], {}, name="n"), ir.node("Softmax", [], {"axis": -2}, name="n")
    assert (normalised_axes(plain, 3, 13), normalised_axes(plain, 3, 11)) == ((2,), (1, 2))
    assert (normalised_axes(second, 4, 13), normalised_axes(second, 4, 11)) == ((2,), (2, 3))


def test_bernoulli2_gives_floats_along_the_channels() -> None:
    """A pixel of a file of the original, whose result is the original's: a Sigmoid's map, of threshold 1.195111."""
    table = np.rint(127 * np.exp(np.arange(-255, 1) * 1.19511079788208 / 127)).astype(int).tolist()
    x = int8(92, 80, 53, 53, 74, 53, 86, 58, shape=(1, 1, 1, 8))
    (y,) = results("HzQuantizedSoftmax", [x], axis=3, table_params=[0, *table[1:]])
    answer = [0.15431349, 0.13730255, 0.10692588, 0.10692588, 0.13001215, 0.10692588, 0.14580803, 0.11178615]
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y.ravel(), np.array(answer, np.float32))
