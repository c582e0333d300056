"""Whose threshold a tensor takes around operators that cannot rescale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.ir import MARK_TIE, calibration_nodes
from engine.place import place

CHANNELS, SIZE = 4, 8


def convolution(source: str, target: str, channels: int = CHANNELS) -> tuple[onnx.NodeProto, onnx.TensorProto]:
    weight = np.random.default_rng(channels).normal(size=(CHANNELS, channels, 1, 1)).astype(np.float32)
    node = helper.make_node("Conv", [source, f"{target}_w"], [target], name=f"conv_{target}")
    return node, numpy_helper.from_array(weight, f"{target}_w")


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), name=outputs, **attributes)


def ties(
    middle: Sequence[onnx.NodeProto | tuple[str, str, int]],
    results: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
) -> dict[str, str | None]:
    """What each calibrated tensor is tied to: ``a`` and ``b`` are Relus of convolutions, then comes ``middle``.

    Args:
        middle: nodes, or convolutions as source, target and input channels.
        results: outputs, on the CPU or int32.
        constants: initializers.
    """
    nodes: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    first: list[onnx.NodeProto | tuple[str, str, int]] = []
    for name in "ab":
        first += [("x", f"{name}0", CHANNELS), node("Relu", f"{name}0", name)]
    for item in (*first, *middle):
        if isinstance(item, tuple):
            made, weight = convolution(*item)
            nodes.append(made)
            weights.append(weight)
        else:
            nodes.append(item)
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, CHANNELS, SIZE, SIZE))
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph(nodes, "g", [source], outputs, weights)
    proto = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]), strict_mode=True
    )
    placed = place(ir.from_proto(proto), "bayes-e").model
    return {
        str(found.inputs[0].name): found.metadata_props.get(MARK_TIE)
        for found in calibration_nodes(placed)
        if "axis" not in found.attributes and found.inputs[0] is not None
    }


@pytest.mark.parametrize("also", ["Conv", "Add"])
def test_an_operand_of_concat_that_is_computed_with_keeps_its_own(also: str) -> None:
    other = ("a", "d", CHANNELS) if also == "Conv" else node("Add", "a a", "d")
    found = ties([node("Concat", "a b", "c", axis=1), ("c", "y", 8), other, ("d", "z", CHANNELS)], ["y", "z"])
    assert (found["a"], found["b"]) == (None, "c")


def test_outputs_of_a_split_keep_that_of_the_split_where_one_is_computed_with() -> None:
    split = node("Split", "a", "p q", axis=1, split=[2, 2])
    found = ties([split, node("Concat", "p q b", "c", axis=1), ("c", "y", 8), ("q", "z", 2)], ["y", "z"])
    assert (found["p"], found["q"], found["a"], found["b"]) == ("a", "a", None, "c")


def test_a_concat_reaches_back_through_what_only_moves() -> None:
    split = node("Split", "a", "p q", axis=1, split=[2, 2])
    found = ties([split, node("Concat", "p q b", "c", axis=1), ("c", "y", 8)], ["y"])
    assert {found[name] for name in "apqb"} == {"c"}


def test_of_two_concats_around_a_resize_the_last_one_decides() -> None:
    scales = {"roi": np.empty(0, np.float32), "up": np.asarray([1, 1, 2, 2], np.float32)}
    enlarged = node("Resize", "a roi up", "r", mode="nearest", coordinate_transformation_mode="asymmetric")
    found = ties(
        [
            enlarged,
            ("r", "e", CHANNELS),
            node("Relu", "e", "f"),
            node("Concat", "r f", "c", axis=1),
            ("c", "y", 8),
            node("Concat", "b a", "d", axis=1),
            ("d", "z", 8),
        ],
        ["y", "z"],
        scales,
    )
    assert (found["a"], found["r"], found["f"]) == ("r", None, "c")  # the convolution of "r" forbids both
    found = ties(
        [
            enlarged,
            node("Concat", "r r", "c", axis=1),
            ("c", "y", 8),
            node("Concat", "b a", "d", axis=1),
            ("d", "z", 8),
        ],
        ["y", "z"],
        scales,
    )
    assert (found["a"], found["r"], found["b"], found["c"]) == ("d", "d", "d", None)
