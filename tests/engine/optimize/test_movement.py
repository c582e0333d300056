"""Reduced axes that stay, normalisations taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from engine.march import MARCHES
from engine.optimize.recurrent import MAX_STEPS
from tests.engine.optimize.equivalence import build, census, optimized
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
        assert census(optimized(conv_then(*nodes, shape=np.array([1, 6, 64]), **parameters))) == {
            "Conv": 1,
            "Reshape": 1,
        }

    @pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0], "count_include_pad": 1}, {"auto_pad": "VALID"}])
    def test_average_pool_over_one_dimension(self, attributes: dict[str, Any]) -> None:
        before = build([node("AveragePool", "x", kernel_shape=[2], strides=[2], **attributes)], {"x": (1, 3, 9)}, ["y"])
        assert census(optimized(before)) == {"Reshape": 2, "Conv": 1}

    @pytest.mark.parametrize("opset", [11, 14])
    @pytest.mark.parametrize("march", MARCHES)
    def test_lstm_is_unrolled(self, march: str, opset: int) -> None:
        after = census(optimized(self.lstm(3, opset=opset), march))
        assert "LSTM" not in after
        assert (after["Split"], after["Conv"], after["Tanh"], after["Sigmoid"]) == (4, 4 + 2 * 4, 6, 8)

    @pytest.mark.parametrize(
        "attributes", [{"direction": "reverse"}, {"input_forget": 1}, {"activations": ["Sigmoid", "Tanh", "Relu"]}]
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
