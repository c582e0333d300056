"""GroupNorm as exporters write it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.rewrite.group_norm import GroupNormOfMaps
from tests.engine.rewrite.networks import HEAD, operators, rewritten, source, stays

AFFINE = "; y = Add(Mul(n, W(8, 1, 1)), W(8, 1, 1))"
PARTS = (
    "d = Sub(r, ReduceMean(r, axes={axes})); v = ReduceMean({square}, axes={axes}); "
    "n = Reshape({quotient}, [1, 8, 8, 8])" + AFFINE
)


def parts(shape: list[int], axes: list[int], square: str = "Mul(d, d)", quotient: str = "") -> str:
    quotient = quotient or "Div(d, Sqrt(Add(v, 0.001)))"
    return f"r = Reshape(c, {shape}); " + PARTS.format(axes=axes, square=square, quotient=quotient)


@pytest.mark.parametrize(
    "text",
    [
        "r = InstanceNormalization(Reshape(c, [0, 2, -1]), [1., 1.], [0., 0.]); n = Reshape(r, [1, 8, 8, 8])" + AFFINE,
        "r = InstanceNormalization(Reshape(c, [1, 2, 32, 8]), W(2), W(2)); n = Reshape(r, [1, 8, 8, 8])" + AFFINE,
        parts([1, 2, 4, 8, 8], [2, 3, 4]),
        parts([1, 2, 256], [2], square="Pow(d, 2.0)"),
        parts([1, 2, 256], [2], quotient="Mul(Reciprocal(Sqrt(Add(0.001, v))), d)"),
        "d = Sub(c, ReduceMean(c, axes=[1, 2, 3])); v = ReduceMean(Mul(d, d), axes=[1, 2, 3]); "
        "y = Div(d, Sqrt(Add(v, 0.001)))",
    ],
)
def test_it_is_poolings_and_convolutions_of_maps(text: str) -> None:
    after = rewritten(GroupNormOfMaps(), source(HEAD + text))
    found = operators(after)
    assert found.count("GlobalAveragePool") == 2
    assert not {"Reshape", "InstanceNormalization", "ReduceMean", "Sub", "Div"} & set(found)
    assert {len(value.shape or ()) for node in after.graph for value in node.outputs} == {4}


@pytest.mark.parametrize(("opset", "scales"), [(18, 2), (21, 8)])
def test_the_operator_of_its_own(opset: int, scales: int) -> None:
    rng = np.random.default_rng(0)
    constants = {name: rng.normal(size=scales).astype(np.float32) for name in ("s", "b")}
    graph = helper.make_graph(
        [helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], name="gn", num_groups=2, epsilon=1e-3)],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, 4, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 4, 6))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    change, before = GroupNormOfMaps(), ir.from_proto(proto)
    after = rewritten(change, before)
    assert operators(after).count("Conv") == 2
    assert change.places == ["gn"]


@pytest.mark.parametrize(
    "text",
    [
        "y = InstanceNormalization(c, W(8), W(8))",
        parts([1, 2, 256], [2], square="Mul(d, r)"),
        parts([1, 2, 256], [2], quotient="Div(r, Sqrt(Add(v, 0.001)))"),
        parts([1, 2, 256], [1]),
        "d = Sub(c, ReduceMean(c, axes=[1])); v = ReduceMean(Mul(d, d), axes=[1]); y = Div(d, Sqrt(Add(v, 0.001)))",
    ],
)
def test_other_normalisations_stay(text: str) -> None:
    assert stays(GroupNormOfMaps(), source(HEAD + text))
