"""Reduced axes that stay, normalisations taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from engine.chips import MEASURED_MARCHES, load_chip
from engine.optimize.movement import KeepReducedAxis
from engine.optimize.recurrent import MAX_STEPS
from tests.engine.optimize.equivalence import applied, build, census, operators, optimized
from tests.engine.optimize.networks import MAP, conv_then, node, normal


class TestMovement:
    @pytest.mark.parametrize(
        ("reduction", "opset"),
        [
            (node("ReduceMean", "x", axes=[1], keepdims=0), 13),
            (node("ReduceMax", "x", axes=[-1], keepdims=0), 13),
            (node("ReduceSum", "x axis", keepdims=0), 13),
            (node("Gather", "x index", axis=-2), 13),
        ],
    )
    def test_one_reduced_axis_is_kept(self, reduction: onnx.NodeProto, opset: int) -> None:
        before = build([reduction], MAP, ["y"], {"axis": np.array([2]), "index": np.int64(-1)}, opset)
        assert census(optimized(before)) == {reduction.op_type: 1, "Reshape": 1}

    def test_several_reduced_axes_are_not(self) -> None:
        before = build([node("ReduceMax", "x", axes=[2, 3], keepdims=0)], MAP, ["y"])
        assert census(optimized(before)) == {"ReduceMax": 1}

    @pytest.mark.parametrize(("march", "reshapes"), [("bayes-e", 1), ("bernoulli2", 0)])
    def test_argmax_keeps_its_axis_on_the_bpu(self, march: str, reshapes: int) -> None:
        before = build([node("ArgMax", "x", "i", axis=1, keepdims=0), node("Cast", "i", to=1)], MAP, ["y"])
        assert census(optimized(before, march)).get("Reshape", 0) == reshapes


class TestDecomposition:
    @pytest.mark.parametrize("opset", [17, 18])
    @pytest.mark.parametrize("axis", [1, -1])
    def test_layer_normalisation(self, opset: int, axis: int) -> None:
        scale = {1: normal(4, 5), -1: normal(5)}[axis]
        before = build(
            [node("LayerNormalization", "x s b", axis=axis, epsilon=1e-3)],
            {"x": (2, 4, 5)},
            ["y"],
            {"s": scale, "b": scale + 1},
            opset,
        )
        assert census(optimized(before)) == {"ReduceMean": 2, "Sub": 1, "Pow": 1, "HzRsqrt": 1, "Mul": 2, "Add": 1}

    @pytest.mark.parametrize("opset", [10, 18])
    def test_instance_normalisation(self, opset: int) -> None:
        before = build(
            [node("InstanceNormalization", "x s b")],
            {"x": (1, 4, 5, 6)},
            ["y"],
            {"s": normal(4), "b": normal(4)},
            opset,
        )
        after = optimized(before)
        assert census(after) == {"GlobalAveragePool": 2, "Sub": 1, "HzRsqrt": 1, "Mul": 2, "Conv": 1}

    def test_batch_normalisation_behind_a_reshape(self) -> None:
        parameters = {"g": normal(6), "h": normal(6), "m": normal(6), "v": np.abs(normal(6)) + 0.1}
        nodes = [node("Reshape", "c shape", "r"), node("BatchNormalization", "r g h m v")]
        after = optimized(conv_then(*nodes, shape=np.array([1, 6, 64]), **parameters))
        assert census(after) == {"Conv": 2, "Reshape": 1}  # a factor that passes a Reshape, and a Conv that pads

    @pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0], "count_include_pad": 1}, {"auto_pad": "VALID"}])
    def test_average_pool_over_one_dimension(self, attributes: dict[str, Any]) -> None:
        before = build([node("AveragePool", "x", kernel_shape=[2], strides=[2], **attributes)], {"x": (1, 3, 9)}, ["y"])
        assert census(optimized(before)) == {"Reshape": 2, "Conv": 1}

    @pytest.mark.parametrize("opset", [11, 14])
    @pytest.mark.parametrize("march", MEASURED_MARCHES)
    def test_lstm_is_unrolled(self, march: str, opset: int) -> None:
        after = census(optimized(self.lstm(3, opset=opset), march))
        assert "LSTM" not in after
        assert (after["Split"], after["Conv"], after["Tanh"], after["Sigmoid"]) == (4, 4 + 2 * 4, 6, 8)

    @pytest.mark.parametrize(
        "attributes", [{"clip": 1.0}, {"input_forget": 1}, {"activations": ["Sigmoid", "Tanh", "Relu"]}]
    )
    def test_other_lstms_stay(self, attributes: dict[str, Any]) -> None:
        assert census(optimized(self.lstm(3, **attributes))).get("LSTM") == 1

    def test_long_lstms_stay(self) -> None:
        assert census(optimized(self.lstm(MAX_STEPS + 1))).get("LSTM") == 1

    @staticmethod
    def lstm(steps: int, opset: int = 13, **attributes: Any) -> Any:
        """A cell of 3 features and 4 hidden units, batch 2; all hidden states are the output."""
        weights = {"w": normal(1, 16, 3), "r": normal(1, 16, 4), "b": normal(1, 32)}
        cell = node("LSTM", "x w r b", "y", hidden_size=4, **attributes)
        return build([cell], {"x": (steps, 2, 3)}, ["y"], weights, opset)


@pytest.mark.parametrize(
    ("proto", "shape", "march", "names"),
    [
        (
            node("ReduceMean", "x", name="n", axes=[1], keepdims=0),
            (1, 4, 5),
            "bayes-e",
            ("n_keepdims_output", "n_reshape"),
        ),
        (
            node("ReduceMean", "x", name="n", axes=[1], keepdims=0),
            (4, 5),
            "bayes-e",
            ("n_keepdims_output", "n_reshape"),
        ),
        (node("ReduceMean", "x", name="n", axes=[0], keepdims=0), (5,), "bayes-e", None),
        (node("ReduceMean", "x", name="n", axes=[1], keepdims=1), (1, 4, 5), "bayes-e", None),
        (node("ReduceMax", "x", name="n", axes=[1, 2], keepdims=0), (1, 4, 5), "bayes-e", None),
        (node("Gather", "x i", name="n", axis=1), (1, 4, 5), "bayes-e", ("replaced_y", "n_reshape")),
        (node("ArgMax", "x", "a", name="n", axis=1, keepdims=0), (1, 4, 5), "bayes-e", ("4dim_a", "n_output_reshape")),
        (node("ArgMax", "x", "a", name="n", axis=2, keepdims=0), (1, 4, 5), "bayes-e", None),
        (node("ArgMax", "x", "a", name="n", axis=1, keepdims=0), (1, 4, 5), "bernoulli2", None),
    ],
)
def test_which_axes_are_kept_and_under_which_names(
    proto: onnx.NodeProto, shape: tuple[int, ...], march: str, names: tuple[str, str] | None
) -> None:
    nodes = [proto, *([node("Cast", "a", to=1)] if proto.op_type == "ArgMax" else [])]
    constants = {"i": np.int64(2)} if proto.op_type == "Gather" else {}
    modified, after = applied(KeepReducedAxis(load_chip(march).graph), build(nodes, {"x": shape}, ["y"], constants))
    assert modified == (names is not None)
    if names is not None:
        kept, reshape = list(after.graph)[:2]
        assert (kept.outputs[0].name, reshape.name, kept.name) == (*names, "n")
        assert operators(after)[:2] == [proto.op_type, "Reshape"]


def test_an_index_of_one_dimension_drops_no_axis() -> None:
    before = build([node("Gather", "x i", axis=1)], {"x": (1, 4, 5)}, ["y"], {"i": np.asarray([2])})
    assert not applied(KeepReducedAxis(load_chip("bayes-e").graph), before)[0]


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 3, 1, 5), 1), ((1, 1, 3, 5), 2), ((1, 3, 5, 1), 0), ((3, 1, 1, 5), 0)]
)
def test_joined_states_are_joined_where_a_reshape_puts_them(shape: tuple[int, ...], axis: int) -> None:
    """As the states of crnn_gru: the Reshape is gone where it only moves the axis that is joined."""
    inputs = dict.fromkeys("abc", (1, 1, 1, 5))
    nodes = [node("Concat", "a b c", "j", axis=0), node("Reshape", "j shape")]
    after = optimized(build(nodes, inputs, ["y"], {"shape": np.array(shape)}))
    assert after.graph[0].attributes["axis"].value == axis
    assert ("Reshape" in census(after)) is (shape == (1, 3, 5, 1))
