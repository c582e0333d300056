"""Each pass on the smallest network that needs it: what remains, and that it computes the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.errors import ConfigError
from engine.ir import load_model, save_model, to_bytes
from engine.optimize import optimize
from engine.optimize.pooling import factors, split_window
from tests.engine.optimize.equivalence import assert_equivalent, build, census, optimized

RNG = np.random.default_rng(3)
MAP = {"x": (1, 4, 8, 8)}


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node from space-separated names; ``_`` is an absent input."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), **attributes)


def normal(*shape: int) -> NDArray[np.float32]:
    return RNG.normal(size=shape).astype(np.float32)


def conv_then(*nodes: onnx.NodeProto, bias: bool = True, **constants: Any) -> Any:
    """A 3x3 convolution from ``x`` to ``c``, then ``nodes`` to ``y``."""
    inputs = "x w b" if bias else "x w"
    first = node("Conv", inputs, "c", name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return build([first, *nodes], MAP, ["y"], {"w": normal(6, 4, 3, 3), "b": normal(6), **constants})


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


class TestAffine:
    def test_pad_becomes_part_of_the_convolution(self) -> None:
        nodes = [
            node("Pad", "x pads zero", "p"),
            node("Conv", "p w", kernel_shape=[3, 3], pads=[0, 1, 0, 0], strides=[2, 2]),
        ]
        constants = {"pads": np.array([0, 0, 1, 0, 0, 0, 2, 3]), "zero": np.float32(0), "w": normal(2, 4, 3, 3)}
        (conv,) = optimized(build(nodes, MAP, ["y"], constants)).graph
        assert conv.attributes["pads"].value == (1, 1, 2, 3)

    @pytest.mark.parametrize(
        ("pads", "value", "mode"),
        [
            ([0, 0, 1, 1, 0, 0, 1, 1], 1.0, "constant"),
            ([0, 1, 1, 1, 0, 0, 1, 1], 0.0, "constant"),
            ([0, 0, 1, 1] * 2, 0.0, "edge"),
        ],
    )
    def test_other_pads_stay(self, pads: list[int], value: float, mode: str) -> None:
        channels = 4 + pads[1] + pads[5]
        nodes = [node("Pad", "x pads value", "p", mode=mode), node("Conv", "p w", kernel_shape=[1, 1])]
        constants = {"pads": np.array(pads), "value": np.float32(value), "w": normal(2, channels, 1, 1)}
        assert census(optimized(build(nodes, MAP, ["y"], constants))) == {"Pad": 1, "Conv": 1}

    @pytest.mark.parametrize("opset", [9, 10])
    def test_pad_with_attributes(self, opset: int) -> None:
        nodes = [node("Pad", "x", "p", pads=[0, 0, 1, 1, 0, 0, 1, 1]), node("Conv", "p w", kernel_shape=[3, 3])]
        assert census(optimized(build(nodes, MAP, ["y"], {"w": normal(2, 4, 3, 3)}, opset))) == {"Conv": 1}

    def test_pad_with_axes(self) -> None:
        nodes = [node("Pad", "x pads _ axes", "p"), node("Conv", "p w", kernel_shape=[3, 3])]
        constants = {"pads": np.array([1, 2, 0, 1]), "axes": np.array([-1, 2]), "w": normal(2, 4, 3, 3)}
        (conv,) = optimized(build(nodes, MAP, ["y"], constants, 18)).graph
        assert conv.attributes["pads"].value == (2, 1, 1, 0)

    @pytest.mark.parametrize("bias", [True, False])
    def test_batch_normalisation_is_folded(self, bias: bool) -> None:
        parameters = {"g": normal(6), "h": normal(6), "m": normal(6), "v": np.abs(normal(6)) + 0.1}
        after = optimized(conv_then(node("BatchNormalization", "c g h m v", epsilon=1e-3), bias=bias, **parameters))
        (conv,) = after.graph
        assert conv.name == "conv"
        assert conv.inputs[2].name == ("b" if bias else "conv_hz_bias")

    def test_batch_normalisation_of_a_grouped_transposed_convolution(self) -> None:
        nodes = [node("ConvTranspose", "x w", "c", group=2, strides=[2, 2]), node("BatchNormalization", "c g h m v")]
        parameters = {"g": normal(6), "h": normal(6), "m": normal(6), "v": np.abs(normal(6)) + 0.1}
        after = optimized(build(nodes, MAP, ["y"], {"w": normal(4, 3, 2, 2), **parameters}))
        assert census(after) == {"ConvTranspose": 1}

    @pytest.mark.parametrize("shape", [(), (1,), (6, 1, 1), (1, 6, 1, 1), (1, 6, 8, 8)])
    @pytest.mark.parametrize(
        "arithmetic",
        [
            ("Add", "c k"),
            ("Add", "k c"),
            ("Sub", "c k"),
            ("Sub", "k c"),
            ("Mul", "c k"),
            ("Mul", "k c"),
            ("Div", "c k"),
        ],
    )
    def test_arithmetic_with_channel_constants_is_folded(
        self, arithmetic: tuple[str, str], shape: tuple[int, ...]
    ) -> None:
        op_type, inputs = arithmetic
        constant = (
            np.full(shape, 1.7, np.float32)
            if len(shape) != 3 and len(shape) != 4
            else np.broadcast_to(normal(6, 1, 1) + 3, shape).astype(np.float32)
        )
        assert census(optimized(conv_then(node(op_type, inputs), k=constant))) == {"Conv": 1}

    def test_constants_that_differ_over_the_map_stay(self) -> None:
        assert census(optimized(conv_then(node("Add", "c k"), k=normal(1, 6, 8, 8)))) == {"Conv": 1, "Add": 1}
        assert census(optimized(conv_then(node("Mul", "c k"), k=normal(8)))) == {"Conv": 1, "Mul": 1}

    def test_shared_weights_and_shared_results_are_respected(self) -> None:
        nodes = [
            node("Conv", "x w", "a", name="first"),
            node("Mul", "a k", "am"),
            node("Conv", "x w", "b", name="second"),
            node("Mul", "b k", "bm"),
            node("Concat", "am b bm", axis=1),
        ]
        after = optimized(build(nodes, MAP, ["y"], {"w": normal(6, 4, 1, 1), "k": normal(6, 1, 1)}))
        assert census(after) == {"Conv": 3, "Concat": 1}

    def test_affine_before_a_convolution_moves_into_it(self) -> None:
        nodes = [
            node("Relu", "x", "r"),
            node("Mul", "r k", "m"),
            node("Add", "m s", "a"),
            node("Conv", "a w", group=2, kernel_shape=[3, 3]),
        ]
        after = optimized(
            build(nodes, MAP, ["y"], {"k": normal(4, 1, 1), "s": normal(4, 1, 1), "w": normal(6, 2, 3, 3)})
        )
        assert census(after) == {"Relu": 1, "Conv": 1}

    def test_an_addition_cannot_pass_padding(self) -> None:
        nodes = [
            node("Relu", "x", "r"),
            node("Add", "r s", "a"),
            node("Conv", "a w", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        ]
        after = optimized(build(nodes, MAP, ["y"], {"s": normal(4, 1, 1), "w": normal(6, 4, 3, 3)}))
        assert census(after) == {"Relu": 1, "Conv": 2}

    def test_a_lone_batch_normalisation_becomes_depthwise(self) -> None:
        parameters = {"g": normal(4), "h": normal(4), "m": normal(4), "v": np.abs(normal(4)) + 0.1}
        nodes = [
            node("MaxPool", "x", "p", kernel_shape=[2, 2]),
            node("BatchNormalization", "p g h m v", "n"),
            node("Sigmoid", "n"),
        ]
        after = optimized(build(nodes, MAP, ["y"], parameters))
        assert census(after) == {"MaxPool": 1, "Conv": 1, "Sigmoid": 1}
        assert after.graph[1].attributes["group"].value == 4

    def test_zero_divisors_stay(self) -> None:
        constant = np.array([1, 2, 0, 4, 5, 6], np.float32).reshape(6, 1, 1)
        assert census(optimize(conv_then(node("Div", "c k"), k=constant), "bayes-e")) == {"Conv": 1, "Div": 1}


class TestWideConvolution:
    CHANNELS = 2100

    def wide(self, *, group: int = 1, channels: int = CHANNELS, opset: int = 13) -> Any:
        """A 1x1 convolution that a batch normalisation follows."""
        parameters = {"g": normal(4), "h": normal(4), "m": normal(4), "v": np.abs(normal(4)) + 0.1}
        first = node("Conv", "x w b", "c", name="conv", kernel_shape=[1, 1], group=group)
        constants = {"w": normal(4, channels // group, 1, 1), "b": normal(4), **parameters}
        return build(
            [first, node("BatchNormalization", "c g h m v")], {"x": (2, channels, 2, 3)}, ["y"], constants, opset
        )

    @pytest.mark.parametrize("opset", [11, 13])
    def test_is_computed_in_parts(self, opset: int) -> None:
        after = optimized(self.wide(opset=opset), "bernoulli2")
        assert [item.name for item in after.graph] == ["conv_split", "conv_part_0", "conv", "conv_sum_1"]
        assert [value.shape[1] for value in after.graph[0].outputs] == [1050, 1050]
        assert [len(item.inputs) for item in after.graph if item.op_type == "Conv"] == [2, 3]

    def test_stays_whole_where_it_fits_or_is_beyond_the_limit(self) -> None:
        assert census(optimized(self.wide(), "bayes-e")) == {"Conv": 1}
        assert census(optimized(self.wide(channels=2048), "bernoulli2")) == {"Conv": 1}
        assert census(optimized(self.wide(channels=4104), "bernoulli2")) == {"Conv": 1}
        assert census(optimized(self.wide(group=2), "bernoulli2")) == {"Conv": 1}


class TestDense:
    @pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
    @pytest.mark.parametrize("trans_b", [0, 1])
    def test_gemm_of_a_flattened_map(self, march: str, trans_b: int) -> None:
        weight = normal(10, 256) if trans_b else normal(256, 10)
        nodes = [
            node("Relu", "x", "r"),
            node("Flatten", "r", "f"),
            node("Gemm", "f w b", name="fc", transB=trans_b, alpha=0.5, beta=2.0),
        ]
        after = optimized(build(nodes, MAP, ["y"], {"w": weight, "b": normal(10)}), march)
        _, conv, reshape = after.graph
        prefix, suffix = (
            ("replaced_", "_reshape_output")
            if march == "bernoulli2"
            else ("transposed_replaced_", "_transpose_output_reshape")
        )
        assert (conv.name, conv.outputs[0].name, reshape.name) == ("fc", f"{prefix}y", f"fc{suffix}")
        assert [value.name for value in conv.inputs[1:]] == ["fcw_conv_weight", "fcb_conv_bias"]
        assert conv.attributes["kernel_shape"].value == (8, 8)
        assert reshape.inputs[1].name == "fc_reshape_output_shape_dim4"

    @pytest.mark.parametrize("bias", [(), (1,), (1, 10), (10,)])
    def test_gemm_biases(self, bias: tuple[int, ...]) -> None:
        nodes = [node("Gemm", "x w b")]
        after = optimized(build(nodes, {"x": (3, 5)}, ["y"], {"w": normal(5, 10), "b": normal(*bias)}))
        assert census(after) == {"Reshape": 2, "Conv": 1}

    def test_gemm_that_is_no_convolution_stays(self) -> None:
        transposed = build([node("Gemm", "x w", transA=1)], {"x": (5, 3)}, ["y"], {"w": normal(5, 10)})
        assert census(optimized(transposed)) == {"Gemm": 1}
        computed = build([node("Gemm", "x z")], {"x": (3, 5), "z": (5, 2)}, ["y"])
        assert census(optimized(computed)) == {"Gemm": 1}
        rows = build([node("Gemm", "x w b")], {"x": (3, 5)}, ["y"], {"w": normal(5, 2), "b": normal(3, 1)})
        assert census(optimized(rows)) == {"Gemm": 1}

    def test_matmul_takes_its_bias(self) -> None:
        nodes = [node("MatMul", "x w", "m", name="fc"), node("Add", "b m")]
        after = optimized(build(nodes, {"x": (2, 3, 5)}, ["y"], {"w": normal(5, 7), "b": normal(7)}))
        assert census(after) == {"Reshape": 2, "Conv": 1}

    def test_matmul_of_activations_stays(self) -> None:
        after = optimized(build([node("MatMul", "x z")], {"x": (2, 3, 5), "z": (2, 5, 4)}, ["y"]))
        assert census(after) == {"MatMul": 1}


class TestPooling:
    @pytest.mark.parametrize(
        ("attributes", "march", "kernels"),
        [
            ({"kernel_shape": [3, 3]}, "bayes-e", [(3, 3)]),
            ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, "bayes-e", [(3, 3)]),
            ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, "bayes-e", None),
            ({"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, "bayes-e", None),
            ({"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, "bayes-e", [(2, 2)]),
            ({"kernel_shape": [8, 8], "strides": [8, 8]}, "bayes-e", [(4, 4), (2, 2)]),
            ({"kernel_shape": [8, 8]}, "bayes-e", None),
            ({"kernel_shape": [16, 16]}, "bayes-e", None),
            ({"kernel_shape": [16, 16]}, "bernoulli2", [(4, 4), (4, 4)]),
            ({"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, "bayes-e", None),
            ({"kernel_shape": [2, 2], "auto_pad": "VALID"}, "bayes-e", [(2, 2)]),
        ],
    )
    def test_windows(self, attributes: dict[str, Any], march: str, kernels: list[tuple[int, int]] | None) -> None:
        after = optimized(
            build([node("AveragePool", "x", name="p", **attributes)], {"x": (1, 3, 16, 16)}, ["y"]), march
        )
        if kernels is None:
            assert census(after) == {"AveragePool": 1}
        else:
            assert [item.attributes["kernel_shape"].value for item in after.graph] == kernels
            assert after.graph[-1].name == "p"
            assert after.graph[-1].inputs[1].name == "AVERAGE_WEIGHT_FOR_p"

    @pytest.mark.parametrize(("march", "convolutions"), [("bayes-e", 0), ("bernoulli2", 2)])
    @pytest.mark.parametrize("keepdims", [0, 1])
    def test_mean_over_the_map(self, march: str, convolutions: int, keepdims: int) -> None:
        for opset, mean, constants in (
            (13, node("ReduceMean", "x", "m", axes=[-2, 3], keepdims=keepdims), {}),
            (18, node("ReduceMean", "x axes", "m", keepdims=keepdims), {"axes": np.array([3, 2])}),
        ):
            after = census(
                optimized(build([mean, node("Relu", "m")], {"x": (1, 3, 14, 10)}, ["y"], constants, opset), march)
            )
            assert after.get("Conv", 0) == convolutions
            assert after.get("GlobalAveragePool", 0) == (0 if convolutions else 1)
            assert after.get("Reshape", 0) == 1 - keepdims

    def test_other_means_stay(self) -> None:
        assert census(optimized(build([node("ReduceMean", "x", axes=[1])], MAP, ["y"]))) == {"ReduceMean": 1}

    @pytest.mark.parametrize(
        ("size", "expected"),
        [(7, [7]), (8, [4, 2]), (12, [4, 3]), (16, [4, 4]), (49, [7, 7]), (56, [4, 14 // 2, 2]), (22, None)],
    )
    def test_factors(self, size: int, expected: list[int] | None) -> None:
        found = factors(size, 7)
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert math.prod(found) == size
            assert len(found) == len(expected)
            assert found == sorted(found, reverse=True)

    def test_rectangular_windows_split(self) -> None:
        assert split_window((8, 3), 7) == [(4, 3), (2, 1)]
        assert split_window((11, 3), 7) is None


HALF, ONE, ROOT = np.float32(0.5), np.float32(1), np.float32(math.sqrt(2))
SCALARS = {
    "half": HALF,
    "one": ONE,
    "root": ROOT,
    "inverse": np.float32(math.sqrt(0.5)),
    "three": np.float32(3),
    "six": np.array([6], np.float32),
    "sixth": np.float32(1 / 6),
    "zero": np.float32(0),
}
RELU6 = [node("Add", "three x", "a"), node("Clip", "a zero six0", "k")]
ERF = [node("Div", "x root", "d"), node("Erf", "d", "e"), node("Add", "e one", "f")]


@pytest.mark.parametrize(
    ("nodes", "op_type"),
    [
        ([node("Sigmoid", "x", "s"), node("Mul", "s x", name="named")], "HzSwish"),
        ([node("Softplus", "x", "s"), node("Tanh", "s", "t"), node("Mul", "x t", name="named")], "HzMish"),
        ([*RELU6, node("Mul", "x k", "m", name="named"), node("Div", "m six")], "HzHardSwish"),
        ([*RELU6, node("Mul", "k x", "m", name="named"), node("Mul", "sixth m")], "HzHardSwish"),
        ([*RELU6, node("Div", "k six", "q"), node("Mul", "x q", name="named")], "HzHardSwish"),
        ([*RELU6, node("Mul", "k sixth", "q"), node("Mul", "x q", name="named")], "HzHardSwish"),
        ([node("HardSigmoid", "x", "h", alpha=1 / 6), node("Mul", "x h", name="named")], "HzHardSwish"),
        ([node("HardSwish", "x", name="named")], "HzHardSwish"),
        ([node("Mish", "x", name="named")], "HzMish"),
        ([*ERF, node("Mul", "x half", "h"), node("Mul", "h f", name="named")], "HzGelu"),
        ([*ERF, node("Mul", "x f", "h"), node("Mul", "h half", name="named")], "HzGelu"),
        ([*ERF, node("Mul", "half f", "h"), node("Mul", "x h", name="named")], "HzGelu"),
        (
            [node("Mul", "x inverse", "d"), *ERF[1:], node("Mul", "x half", "h"), node("Mul", "h f", name="named")],
            "HzGelu",
        ),
    ],
)
def test_activations_collapse(nodes: list[onnx.NodeProto], op_type: str) -> None:
    constants = {**SCALARS, "six0": np.float32(6)}
    before = build(nodes, {"x": (2, 3, 4, 5)}, ["y"], constants, 18)
    (collapsed,) = optimized(before).graph
    assert (collapsed.domain, collapsed.op_type, collapsed.name) == ("horizon", op_type, "named")


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Add", "x three", "a"), node("Clip", "a zero one", "k"), node("Mul", "x k", "m"), node("Div", "m six")],
        [node("Sigmoid", "x", "s"), node("Tanh", "x", "t"), node("Mul", "t s")],
        [node("HardSigmoid", "x", "h", alpha=0.2), node("Mul", "x h")],
    ],
)
def test_similar_activations_do_not(nodes: list[onnx.NodeProto]) -> None:
    after = optimized(build(nodes, {"x": (2, 3, 4, 5)}, ["y"], SCALARS))
    assert not any(item.domain for item in after.graph)


def test_a_shared_sigmoid_is_no_swish() -> None:
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "s x"), node("Relu", "s", "z")]
    assert census(optimized(build(nodes, MAP, ["y", "z"]))) == {"Sigmoid": 1, "Mul": 1, "Relu": 1}


def test_relu6_of_old_opsets_collapses() -> None:
    nodes = [
        node("Add", "x three", "a"),
        node("Clip", "a", "k", min=0.0, max=6.0),
        node("Mul", "x k", "m"),
        node("Div", "m six"),
    ]
    assert census(optimized(build(nodes, MAP, ["y"], SCALARS, 10))) == {"HzHardSwish": 1}


def test_reciprocal_square_root_collapses() -> None:
    nodes = [
        node("Mul", "x x", "q"),
        node("Add", "q eps", "a"),
        node("Sqrt", "a", "s", name="root"),
        node("Div", "x s"),
    ]
    after = optimized(build(nodes, MAP, ["y"], {"eps": np.float32(1e-5)}))
    assert census(after) == {"Mul": 2, "HzRsqrt": 1}
    assert after.graph[1].attributes["epsilon"].value == pytest.approx(1e-5)


def test_division_becomes_a_product() -> None:
    after = optimized(build([node("Exp", "x", "e"), node("Div", "x e", name="d")], MAP, ["y"]))
    assert [item.name for item in after.graph] == ["Exp_0", "d_reciprocal", "d_mul"]
    assert after.graph[1].outputs[0].name == "de_reciprocal"
    of_one = build([node("Exp", "x", "e"), node("Div", "one e")], MAP, ["y"], SCALARS)
    assert census(optimized(of_one)) == {"Exp": 1, "Reciprocal": 1}
    by_constant = build([node("Div", "x k")], {"x": (2, 5)}, ["y"], {"k": normal(5) + 4})
    assert census(optimized(by_constant)) == {"Mul": 1}


@pytest.mark.parametrize("constant", [False, True])
def test_a_choice_becomes_products(constant: bool) -> None:
    rng = np.random.default_rng(1)
    constants = {"zero": np.float32(0), "other": rng.normal(size=(1, 4, 8, 8)).astype(np.float32)}
    if constant:
        constants["c"] = rng.random((1, 4, 8, 8)) > 0.5
        before = build([node("Where", "c x other")], MAP, ["y"], constants)
        assert census(optimized(before)) == {"Mul": 1, "Add": 1}
    else:
        before = build([node("Greater", "x zero", "c"), node("Where", "c x other")], MAP, ["y"], constants)
        assert census(optimized(before)) == {"Greater": 1, "Cast": 2, "Equal": 1, "Mul": 2, "Add": 1}


def test_a_choice_of_infinity_stays() -> None:
    constants = {"zero": np.float32(0), "other": np.float32(-np.inf)}
    before = build([node("Greater", "x zero", "c"), node("Where", "c x other")], MAP, ["y"], constants)
    assert census(optimized(before)) == {"Greater": 1, "Where": 1}


def test_sum_becomes_additions() -> None:
    inputs = {"x": (2, 3), "u": (2, 3), "v": (2, 3)}
    after = optimized(build([node("Sum", "x u v", name="s")], inputs, ["y"]))
    assert census(after) == {"Add": 2}
    assert after.graph[1].name == "s"
    assert census(optimized(build([node("Sum", "x", name="s"), node("Relu", "y", "z")], inputs, ["z"]))) == {"Relu": 1}
    broadcast = build([node("Sum", "x u")], {"x": (2, 3), "u": (3,)}, ["y"])
    assert census(optimized(broadcast)) == {"Sum": 1}


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


class TestMovement:
    @pytest.mark.parametrize(
        ("nodes", "last"),
        [
            ([node("Sigmoid", "r")], "Sigmoid"),
            ([node("Sigmoid", "r", "s"), node("Mul", "r s")], "HzSwish"),
            ([node("Sigmoid", "r", "s"), node("Sub", "r s")], "Sub"),
            ([node("Exp", "x", "e"), node("Reshape", "e shape", "q"), node("Div", "r q")], "Mul"),
        ],
    )
    def test_reshapes_sink(self, nodes: list[onnx.NodeProto], last: str) -> None:
        before = build([node("Reshape", "x shape", "r"), *nodes], MAP, ["y"], {"shape": np.array([1, 4, -1])})
        after = optimized(before)
        assert [item.op_type for item in after.graph][-2:] == [last, "Reshape"]
        assert census(after)["Reshape"] == 1

    def test_reshapes_do_not_sink_where_shapes_broadcast(self) -> None:
        before = build(
            [node("Reshape", "x shape", "r"), node("Add", "r z")],
            {**MAP, "z": (64,)},
            ["y"],
            {"shape": np.array([1, 4, 64])},
        )
        assert [item.op_type for item in optimized(before).graph] == ["Reshape", "Add"]

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
            {"x": (2, 4, 5, 6)},
            ["y"],
            {"s": normal(4), "b": normal(4)},
            opset,
        )
        after = optimized(before)
        assert census(after) == {"GlobalAveragePool": 2, "Sub": 1, "Pow": 1, "HzRsqrt": 1, "Mul": 1, "Conv": 1}

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
    assert_equivalent(before, after)
    assert to_bytes(optimize(after, "bayes-e")) == to_bytes(after)
