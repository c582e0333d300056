"""Cleaning up: constants, nodes that change nothing, reshapes, attributes, opset 9; the optimiser as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import ConfigError
from engine.ir import load_model, save_model, to_bytes
from engine.optimize import optimize
from tests.engine.optimize.equivalence import assert_equivalent, build, census, optimized
from tests.engine.optimize.networks import MAP, conv_then, node, normal


class TestClean:
    def test_constants_are_folded(self) -> None:
        nodes = [
            node("Shape", "x", "s"),
            node("ConstantOfShape", "s", "zeros"),
            node("Constant", "", "one", value_float=1.0),
            node("Add", "zeros one", "ones"),
            node("Relu", "x", "r"),
            node("Max", "r ones"),
        ]
        assert census(optimized(build(nodes, MAP, ["y"]))) == {"Relu": 1, "Max": 1}

    def test_infinite_and_undefined_constants_are_values(self) -> None:
        constants = {"inf": np.float32(-np.inf), "zero": np.float32(0), "pick": np.array([True, False])}
        nodes = [
            node("Where", "pick inf zero", "mask"),
            node("Add", "x mask", "masked"),
            node("Softmax", "masked", axis=-1),
        ]
        after = optimized(build(nodes, {"x": (3, 2)}, ["y"], constants))
        assert census(after) == {"Add": 1, "Softmax": 1}
        np.testing.assert_array_equal(after.graph.initializers["mask"].const_value.numpy(), [-np.inf, 0])

    @pytest.mark.parametrize("output_of_no_op", [True, False])
    def test_no_ops_are_dropped(self, output_of_no_op: bool) -> None:
        nodes = [
            node("Relu", "x", "r"),
            node("Identity", "r", "i"),
            node("Dropout", "i", "d"),
            node("Cast", "d", "k", to=1),
            node("Reshape", "k same", "s"),
            node("Transpose", "s", "t", perm=[0, 1, 2, 3]),
            node("Concat", "t", "u", axis=1),
            node("Slice", "u start end axes", "v"),
            node("Pad", "v pads", "y" if output_of_no_op else "p"),
        ]
        if not output_of_no_op:
            nodes.append(node("Sigmoid", "p"))
        constants = {
            "same": np.array([1, 4, 8, 8]),
            "start": np.array([0]),
            "end": np.array([99]),
            "axes": np.array([2]),
            "pads": np.zeros(8, np.int64),
        }
        after = optimized(build(nodes, MAP, ["y"], constants))
        assert census(after) == ({"Relu": 1} if output_of_no_op else {"Relu": 1, "Sigmoid": 1})
        assert not after.graph.initializers

    def test_an_identity_of_an_input_stays(self) -> None:
        assert census(optimized(build([node("Identity", "x")], MAP, ["y"]))) == {"Identity": 1}

    def test_slices_that_only_keep_the_shape_stay(self) -> None:
        constants = {"start": np.array([7]), "end": np.array([-9]), "axes": np.array([2]), "step": np.array([-1])}
        after = optimized(build([node("Slice", "x start end axes step")], MAP, ["y"], constants))
        assert census(after) == {"Slice": 1}

    def test_cropping_and_padding_at_once_stays(self) -> None:
        constants = {"pads": np.array([0, 0, 1, 0, 0, 0, -1, 0])}
        assert census(optimized(build([node("Pad", "x pads")], MAP, ["y"], constants))) == {"Pad": 1}

    def test_casts_that_lose_nothing_are_dropped(self) -> None:
        exact = [node("Cast", "x", "d", to=11), node("Cast", "d", "f", to=1), node("Relu", "f")]
        assert census(optimized(build(exact, MAP, ["y"]))) == {"Relu": 1}
        rounding = [node("Cast", "x", "d", to=6), node("Cast", "d", "f", to=1), node("Relu", "f")]
        assert census(optimized(build(rounding, MAP, ["y"]))) == {"Cast": 2, "Relu": 1}

    def test_casts_through_half_precision_are_dropped_but_those_to_integers_stay(self) -> None:
        half = [node("Cast", "x", "h", to=10), node("Cast", "h", "f", to=1), node("Relu", "f")]
        assert census(optimize(build(half, MAP, ["y"]), "bayes-e")) == {"Relu": 1}

    def test_reshapes_merge(self) -> None:
        nodes = [
            node("Flatten", "x", "f"),
            node("Unsqueeze", "f axes", "u"),
            node("Squeeze", "u axes", "s"),
            node("Reshape", "s shape"),
        ]
        constants = {"axes": np.array([0]), "shape": np.array([2, -1])}
        after = optimized(build(nodes, MAP, ["y"], constants))
        assert census(after) == {"Reshape": 1}

    def test_transposes_merge(self) -> None:
        nodes = [
            node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
            node("Transpose", "a", "b", perm=[0, 3, 1, 2]),
            node("Relu", "b"),
        ]
        assert census(optimized(build(nodes, MAP, ["y"]))) == {"Relu": 1}


def test_channel_shuffle_and_space_to_depth_collapse() -> None:
    constants = {"s5": np.array([1, 2, 2, 8, 8]), "s4": np.array([1, 4, 8, 8]), "s6": np.array([1, 4, 4, 2, 4, 2])}
    shuffle = [
        node("Reshape", "x s5", "a"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3, 4]),
        node("Reshape", "b s4", name="last"),
    ]
    (collapsed,) = optimized(build(shuffle, MAP, ["y"], constants)).graph
    assert (collapsed.op_type, collapsed.name, collapsed.attributes["group"].value) == ("HzChannelShuffle", "last", 2)
    constants["s4"] = np.array([1, 16, 4, 4])
    depth = [
        node("Reshape", "x s6", "a"),
        node("Transpose", "a", "b", perm=[0, 3, 5, 1, 2, 4]),
        node("Reshape", "b s4", name="last"),
    ]
    (collapsed,) = optimized(build(depth, MAP, ["y"], constants)).graph
    assert (collapsed.op_type, collapsed.name, collapsed.attributes["blocksize"].value) == ("SpaceToDepth", "last", 2)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op_type", ["Conv", "MaxPool"])
def test_automatic_pads_are_written_out(op_type: str, mode: str) -> None:
    inputs, constants = ("x w", {"w": normal(4, 4, 2, 3)}) if op_type == "Conv" else ("x", {})
    before = build([node(op_type, inputs, kernel_shape=[2, 3], strides=[2, 1], auto_pad=mode)], MAP, ["y"], constants)
    (after,) = optimized(before).graph
    assert "auto_pad" not in after.attributes
    assert len(after.attributes["pads"].value) == 4


def test_unknown_march() -> None:
    with pytest.raises(ConfigError, match="User input march invalid: 'nash-e'"):
        optimize(build([node("Relu", "x")], MAP, ["y"]), "nash-e")


def test_result_survives_a_file(tmp_path: Any) -> None:
    after = optimized(conv_then(node("Sigmoid", "c", "s"), node("Mul", "c s")))
    again = load_model(save_model(after, tmp_path / "m.onnx"))
    assert to_bytes(again) == to_bytes(after)
    assert again.metadata_props["hz.march"] == "bayes-e"
    assert_equivalent(after, again)
    assert b"onnxscript" not in to_bytes(after)


def test_opset_9_becomes_opset_10() -> None:
    nodes = [
        node("Slice", "x", "s", starts=[1], ends=[9], axes=[2]),
        node("Upsample", "s scales", "u", mode="linear"),
        node("TopK", "u", "y i", k=3, axis=1),
    ]
    before = build(nodes, MAP, ["y"], {"scales": np.array([1, 1, 2, 2], np.float32)}, 9)
    after = optimize(before, "bayes-e")
    assert after.opset_imports[""] == 10
    assert census(after) == {"Slice": 1, "Resize": 1, "TopK": 1}
    assert [item.name for item in after.graph if item.op_type == "Resize"] == ["Resize_1"]
    assert_equivalent(before, after)
    assert to_bytes(optimize(after, "bayes-e")) == to_bytes(after)
