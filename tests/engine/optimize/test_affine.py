"""Pads, batch normalisation and arithmetic with constants, folded into convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ir import MARK_SHARED
from engine.optimize import optimize
from engine.optimize.affine import Affine, FactorBetweenReshapes, FoldAffineIntoPrevious, NormOfRowsToProduct
from engine.terms import Compatibility
from tests.engine.optimize.equivalence import applied, build, census, optimized
from tests.engine.optimize.networks import MAP, conv_then, node, normal


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

    @pytest.mark.parametrize("axis", [1, -3])
    def test_batch_normalisation_of_joined_convolutions_is_folded_into_each(self, axis: int) -> None:
        """The blocks of YOLOv5 2.0 (published log)."""
        nodes = [
            node("Conv", "x w", "c", name="first"),
            node("Conv", "x u e", "d", name="second"),
            node("Concat", "c d", "j", axis=axis),
            node("BatchNormalization", "j g h m v", "n"),
            node("LeakyRelu", "n", "y", alpha=0.1),
        ]
        parameters = {name: np.abs(normal(8)) + 0.1 for name in "ghmv"}
        constants = {"w": normal(2, 4, 1, 1), "u": normal(6, 4, 1, 1), "e": normal(6), **parameters}
        after = optimized(build(nodes, MAP, ["y"], constants))
        assert census(after) == {"Conv": 2, "Concat": 1, "LeakyRelu": 1}
        assert [conv.inputs[2].name for conv in list(after.graph)[:2]] == ["first_hz_bias", "e"]

    @pytest.mark.parametrize("also", ["x", "c"])
    def test_batch_normalisation_of_other_joined_channels_stays(self, also: str) -> None:
        """The input of a network joins in, or a convolution that something else reads too (``densenet``)."""
        nodes = [
            node("Conv", "x w", "c", name="first"),
            node("Conv", "x w", "d", name="second"),
            node("Concat", f"d {also}", "j", axis=1),
            node("BatchNormalization", "j g h m v", "n", name="norm"),
            node("Sigmoid", "n", "y"),
            *([node("Sigmoid", "c", "z")] if also == "c" else []),
        ]
        parameters = {name: np.abs(normal(8)) + 0.1 for name in "ghmv"}
        after = optimized(
            build(
                nodes[1:] if also == "x" else nodes,
                MAP,
                ["y", "z"][: 1 + (also == "c")],
                {"w": normal(4, 4, 1, 1), **parameters},
            )
        )
        assert "UNIT_CONV_FOR_norm" in {each.name for each in after.graph}

    def test_batch_normalisation_of_a_grouped_transposed_convolution(self) -> None:
        nodes = [node("ConvTranspose", "x w", "c", group=2, strides=[2, 2]), node("BatchNormalization", "c g h m v")]
        parameters = {"g": normal(6), "h": normal(6), "m": normal(6), "v": np.abs(normal(6)) + 0.1}
        after = optimized(build(nodes, MAP, ["y"], {"w": normal(4, 3, 2, 2), **parameters}))
        assert census(after) == {"ConvTranspose": 1}

    @pytest.mark.parametrize("shape", [(), (1,), (6, 1, 1), (1, 6, 1, 1)])
    @pytest.mark.parametrize(
        "arithmetic",
        [
            ("Add", "c k"),
            ("Add", "k c"),
            ("Sub", "c k"),
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

    def test_constants_of_whole_maps_stay(self) -> None:
        for pixels in (np.zeros((1, 6, 8, 8), np.float32), np.broadcast_to(normal(6, 1, 1), (1, 6, 8, 8))):
            assert census(optimized(conv_then(node("Add", "c k"), k=pixels))) == {"Conv": 1, "Add": 1}
            assert census(optimized(conv_then(node("Mul", "c k"), k=pixels))) == {"Conv": 1, "Mul": 1}
        assert census(optimized(conv_then(node("Add", "c k"), k=normal(1, 6, 8, 8)))) == {"Conv": 1, "Add": 1}
        assert census(optimized(conv_then(node("Mul", "c k"), k=normal(8)))) == {"Conv": 1, "Mul": 1}

    @pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
    def test_a_constant_minus_a_map_stays(self, march: str) -> None:
        assert census(optimized(conv_then(node("Sub", "k c"), k=np.ones((), np.float32)), march)) == {
            "Conv": 1,
            "Sub": 1,
        }

    def test_shared_weights_and_shared_results_are_respected(self) -> None:
        nodes = [
            node("Conv", "x w", "a", name="first"),
            node("Mul", "a k", "am"),
            node("Conv", "x w", "b", name="second"),
            node("Mul", "b k", "bm"),
            node("Concat", "am b bm", axis=1),
        ]
        before = build(nodes, MAP, ["y"], {"w": normal(6, 4, 1, 1), "k": normal(6, 1, 1)})
        after = optimized(before, compatibility=Compatibility.CLEAN)
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

    def test_affine_before_a_reshape_moves_into_the_convolution_behind_it(self) -> None:
        nodes = [
            node("Sigmoid", "x", "p"),
            node("Mul", "p k", "m"),
            node("Add", "m s", "a"),
            node("Reshape", "a to", "r"),
            node("Conv", "r w", kernel_shape=[1, 1]),
        ]
        constants = {"k": normal(4, 1), "s": normal(4, 1), "to": np.array([2, 4, 2, 4]), "w": normal(6, 4, 1, 1)}
        after = optimized(build(nodes, {"x": (2, 4, 8)}, ["y"], constants))
        assert census(after) == {"Sigmoid": 1, "Reshape": 1, "Conv": 1}

    def test_a_reshape_that_joins_channels_lets_nothing_pass(self) -> None:
        nodes = [
            node("Sigmoid", "x", "p"),
            node("Mul", "p k", "m"),
            node("Reshape", "m to", "r"),
            node("Conv", "r w", kernel_shape=[1, 1]),
        ]
        constants = {"k": normal(4, 1), "to": np.array([2, 8, 1, 4]), "w": normal(6, 8, 1, 1)}
        after = optimized(build(nodes, {"x": (2, 4, 8)}, ["y"], constants))
        assert census(after)["Mul"] == 1

    @pytest.mark.parametrize(
        ("op_type", "bias", "expected"),
        [
            ("Add", False, "conv_bias"),
            ("Add", True, "convb_fuse_add_sub"),
            ("Mul", True, "b"),
            ("Mul", False, None),
        ],
    )
    def test_names_of_biases(self, op_type: str, bias: bool, expected: str | None) -> None:
        (conv,) = optimized(conv_then(node(op_type, "c k"), bias=bias, k=normal(6, 1, 1))).graph
        assert [value.name for value in conv.inputs[2:]] == ([] if expected is None else [expected])

    def test_names_of_results_that_a_batch_normalisation_gave(self) -> None:
        parameters = {"g": normal(4), "h": normal(4), "m": normal(4), "v": np.abs(normal(4)) + 0.1}
        nodes = [
            node("ConvTranspose", "x w", "c"),
            node("BatchNormalization", "c g h m v", "n"),
            node("Relu", "n", "r"),
            node("BatchNormalization", "r g h m v", "z", name="norm"),
            node("Sigmoid", "z"),
        ]
        graph = optimized(build(nodes, MAP, ["y"], {"w": normal(4, 4, 2, 2), **parameters})).graph
        assert [item.outputs[0].name for item in graph] == ["c", "r", "UNIT_CONV_FOR_norm", "y"]

    @pytest.mark.parametrize(
        ("arithmetic", "side", "expected"),
        [
            (["Add"], 1, {"Conv": 1}),
            (["Add"], 3, {"Add": 1, "Conv": 1}),
            (["Sub"], 1, {"Sub": 1, "Conv": 1}),
            (["Sub"], 3, {"Sub": 1, "Conv": 1}),
            (["Mul"], 1, {"Conv": 1}),
            (["Mul"], 3, {"Conv": 2}),
            (["Mul", "Add"], 1, {"Conv": 1}),
            (["Add", "Mul"], 1, {"Conv": 1}),
        ],
    )
    def test_a_convolution_takes_factors_and_the_sums_behind_them(
        self, arithmetic: list[str], side: int, expected: dict[str, int]
    ) -> None:
        """As asked of the original (``tests/parity/recorded/sums``); a convolution that pads takes neither."""
        nodes, last = [node("Relu", "x", "r")], "r"
        for index, op_type in enumerate(arithmetic):
            nodes.append(node(op_type, f"{last} k{index}", f"a{index}"))
            last = f"a{index}"
        nodes.append(node("Conv", f"{last} w", kernel_shape=[side] * 2, pads=[side // 2] * 4))
        constants = {f"k{index}": normal(4, 1, 1) for index in range(len(arithmetic))}
        after = optimized(build(nodes, MAP, ["y"], {**constants, "w": normal(6, 4, side, side)}))
        assert census(after) == {"Relu": 1, **expected}

    @pytest.mark.parametrize("added", [(), (1,)])
    def test_one_number_for_all_channels_stays_in_front_of_a_convolution(self, added: tuple[int, ...]) -> None:
        nodes = [node("Add", "x k", "a"), node("Conv", "a w")]
        after = optimized(build(nodes, MAP, ["y"], {"k": normal(*added), "w": normal(6, 4, 1, 1)}))
        assert census(after) == {"Add": 1, "Conv": 1}

    def test_a_sum_stays_where_another_axis_is_as_long_as_that_of_channels(self) -> None:
        nodes = [node("Add", "x k", "a"), node("Conv", "a w")]
        after = optimized(build(nodes, {"x": (1, 4, 4, 6)}, ["y"], {"k": normal(4, 1, 1), "w": normal(6, 4, 1, 1)}))
        assert census(after) == {"Add": 1, "Conv": 1}

    @pytest.mark.parametrize(("shape", "sums"), [((1, 5, 4), 0), ((1, 2, 5, 4), 1)])
    def test_a_product_of_rows_takes_the_sum_in_front_of_it(self, shape: tuple[int, ...], sums: int) -> None:
        back = list(range(len(shape)))
        back[-2:] = back[:-3:-1]
        nodes = [
            node("Relu", "x", "r"),
            node("Transpose", "r", "t", perm=back),
            node("Add", "t k", "a"),
            node("MatMul", "a w"),
        ]
        turned = tuple(shape[axis] for axis in back)
        constants = {"k": normal(turned[-1]), "w": normal(turned[-1], 3)}
        after = optimized(build(nodes, {"x": shape}, ["y"], constants))
        assert census(after).get("Add", 0) == sums

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

    def test_bias_behind_a_batch_normalisation_is_rounded_in_every_step(self) -> None:
        bias, mean, scale, shift = (np.float32(number) for number in (0.1, 0.7, 1.1, 0.3))
        found = Affine(*(np.asarray([number], np.float64) for number in (scale, shift, mean)))
        assert found.of(np.asarray([bias], np.float64))[0] == (bias - mean) * scale + shift
        assert found.offset[0] == (np.float32(0) - mean) * scale + shift

    def test_zero_divisors_stay(self) -> None:
        constant = np.array([1, 2, 0, 4, 5, 6], np.float32).reshape(6, 1, 1)
        assert census(optimize(conv_then(node("Div", "c k"), k=constant), "bayes-e")) == {"Conv": 1, "Div": 1}


@pytest.mark.parametrize("shape", [(1, 5), (2, 5, 3)])
def test_norms_of_rows_and_lines_are_a_product_and_a_sum(shape: tuple[int, ...]) -> None:
    constants = {name: np.abs(normal(5)) + 0.5 for name in ("s", "b", "m", "v")}
    modified, after = applied(
        NormOfRowsToProduct(),
        build([node("BatchNormalization", "x s b m v", name="n")], {"x": shape}, ["y"], constants),
    )
    assert modified
    assert [(item.op_type, item.name) for item in after.graph] == [("Mul", "n_mul"), ("Add", "n_add")]
    assert [tuple(item.inputs[1].shape) for item in after.graph] == [(1, 5) + (1,) * (len(shape) - 2)] * 2


def test_the_norm_of_a_gemm_waits() -> None:
    constants = {name: np.abs(normal(5)) + 0.5 for name in ("s", "b", "m", "v")} | {"w": normal(4, 5), "k": normal(5)}
    nodes = [node("Gemm", "x w k", "g"), node("BatchNormalization", "g s b m v", name="n")]
    modified, _ = applied(NormOfRowsToProduct(), build(nodes, {"x": (1, 4)}, ["y"], constants))
    assert not modified


@pytest.mark.parametrize(("compatibility", "factors"), [("original", (3.0, 3.0)), ("clean", (2.0, 1.5))])
def test_factors_of_convolutions_that_share_a_weight_are_multiplied(
    compatibility: str, factors: tuple[float, float]
) -> None:
    """The original multiplies the shared weight by both; each convolution that has another's factor is marked."""
    weight = normal(4, 3, 1, 1)
    nodes = [
        node("Conv", "x w", "a"),
        node("Mul", "a two", "y0"),
        node("Conv", "z w", "b"),
        node("Mul", "b half", "y1"),
    ]
    constants = {"w": weight, "two": np.float32(2), "half": np.float32(1.5)}
    model = build(nodes, {"x": (1, 3, 4, 4), "z": (1, 3, 2, 2)}, ["y0", "y1"], constants)
    after = FoldAffineIntoPrevious(Compatibility(compatibility))(model).model
    assert census(after) == {"Conv": 2}
    for conv, factor in zip(after.graph, factors, strict=True):
        np.testing.assert_allclose(conv.inputs[1].const_value.numpy(), weight * factor, rtol=1e-6)
        assert (MARK_SHARED in conv.metadata_props) == (compatibility == "original")


def test_a_factor_of_one_channel_between_reshapes_multiplies_channels() -> None:
    nodes = [
        node("Reshape", "x row", "r"),
        node("Conv", "r w b", "c", name="k"),
        node("Reshape", "c flat", "y"),
    ]
    constants = {"row": np.array([1, 1, 1, 5]), "w": np.full((1, 1, 1, 1), 1.5, np.float32)}
    constants |= {"b": np.zeros(1, np.float32), "flat": np.array([1, 5])}
    modified, after = applied(FactorBetweenReshapes(), build(nodes, {"x": (1, 5, 1, 1)}, ["y"], constants))
    conv = after.graph[1]
    assert modified
    assert conv.name == "k_reshape_conv"
    assert tuple(conv.inputs[0].shape) == tuple(conv.outputs[0].shape) == (1, 5, 1, 1)
    np.testing.assert_allclose(conv.inputs[1].const_value.numpy()[:, :, 0, 0], 1.5 * np.eye(5))
