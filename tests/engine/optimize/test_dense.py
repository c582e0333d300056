"""Matrix products as convolutions, and wide convolutions in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.chips import load_chip
from engine.optimize.dense import (
    FoldAffineIntoProduct,
    GemmToConv,
    MatMulToConv,
    dense_of,
    reader_of_channels,
)
from tests.engine.optimize.equivalence import applied, build, census, operators, optimized
from tests.engine.optimize.networks import MAP, node, normal


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
        weight = normal(10, 64) if trans_b else normal(64, 10)
        nodes = [
            node("Relu", "x", "r"),
            node("Flatten", "r", "f"),
            node("Gemm", "f w b", name="fc", transB=trans_b, alpha=0.5, beta=2.0),
        ]
        after = optimized(build(nodes, {"x": (1, 4, 4, 4)}, ["y"], {"w": weight, "b": normal(10)}), march)
        _, conv, reshape = after.graph
        prefix, suffix = (
            ("replaced_", "_reshape_output")
            if march == "bernoulli2"
            else ("transposed_replaced_", "_transpose_output_reshape")
        )
        assert (conv.name, conv.outputs[0].name, reshape.name) == ("fc", f"{prefix}y", f"fc{suffix}")
        assert [value.name for value in conv.inputs[1:]] == ["fcw_conv_weight", "fcb_conv_bias"]
        assert conv.attributes["kernel_shape"].value == (4, 4)
        assert reshape.inputs[1].name == "fc_reshape_output_shape_dim4"

    def test_large_map_is_flattened_before_its_gemm(self) -> None:
        nodes = [node("Flatten", "x", "f"), node("Gemm", "f w", name="fc")]
        after = optimized(build(nodes, MAP, ["y"], {"w": normal(256, 10)}), "bernoulli2")
        (conv,) = (item for item in after.graph if item.op_type == "Conv")
        assert (conv.attributes["kernel_shape"].value, conv.inputs[0].shape) == ((1, 1), (1, 256, 1, 1))

    @pytest.mark.parametrize("bias", [(), (1,), (1, 10), (10,)])
    def test_gemm_biases(self, bias: tuple[int, ...]) -> None:
        nodes = [node("Gemm", "x w b")]
        after = optimized(build(nodes, {"x": (3, 5)}, ["y"], {"w": normal(5, 10), "b": normal(*bias)}))
        assert census(after) == {"Reshape": 2, "Transpose": 2, "Conv": 1}

    def test_gate_of_a_gemm_is_computed_on_the_channels(self) -> None:
        nodes = [
            node("GlobalAveragePool", "x", "p"),
            node("Flatten", "p", "f"),
            node("Gemm", "f w", "g", name="fc"),
            node("Add", "g three", "a"),
            node("Clip", "a low high", "h"),
            node("Mul", "h sixth", "m"),
            node("Reshape", "m map", "r"),
            node("Mul", "x r"),
        ]
        limits = {"three": np.float32(3), "low": np.float32(0), "high": np.float32(6), "sixth": np.float32(1 / 6)}
        constants = {"w": normal(4, 4), "map": np.array([1, 4, 1, 1]), **limits}
        after = optimized(build(nodes, MAP, ["y"], constants), "bayes-e")
        assert [item.op_type for item in after.graph] == ["GlobalAveragePool", "Conv", "Clip", "Conv", "Mul"]

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
        assert census(after) == {"Reshape": 2, "Transpose": 2, "Conv": 1}

    def test_matmul_of_rank_4_is_a_convolution_over_its_last_axis(self) -> None:
        after = optimized(build([node("MatMul", "x w", name="fc")], {"x": (2, 3, 4, 5)}, ["y"], {"w": normal(5, 7)}))
        assert [item.op_type for item in after.graph] == ["Transpose", "Conv", "Transpose"]
        assert [item.name for item in after.graph] == ["fc_transpose_in", "fc", "fc_transpose_0"]

    def test_every_reader_of_a_product_of_rank_4_has_a_transpose_of_its_own(self) -> None:
        nodes = [node("MatMul", "x w", "p", name="fc"), *(node("Reshape", f"p s{i}", f"y{i}") for i in range(3))]
        shapes = {f"s{i}": np.array(shape) for i, shape in enumerate([(6, 28), (12, 14), (24, 7)])}
        after = optimized(build(nodes, {"x": (2, 3, 4, 5)}, ["y0", "y1", "y2"], {"w": normal(5, 7), **shapes}))
        moved = [str(item.outputs[0].name) for item in after.graph if item.op_type == "Transpose"][1:]
        assert sorted(moved, key=len) == ["p", "replaced_p", "replaced_replaced_p"]

    @pytest.mark.parametrize(("op_type", "operands", "passed"), [("Relu", "", 2), ("Clip", "l h", 2)])
    def test_a_function_of_a_gemm_row_passes_two_movements(self, op_type: str, operands: str, passed: int) -> None:
        nodes = [node("Gemm", "x w", "a"), node(op_type, f"a {operands}", "r", name="f"), node("Gemm", "r v")]
        bounds = {"l": np.float32(0), "h": np.float32(6)}
        constants = {"w": normal(5, 7), "v": normal(7, 3), "b": normal(1, 7), **bounds}
        after = optimized(build(nodes, {"x": (1, 5)}, ["y"], constants))
        results = [str(item.outputs[0].name) for item in after.graph]
        assert f"r{'_reshape' * passed}" in results

    @pytest.mark.parametrize("numbers", [(7,), (1, 7)])
    def test_numbers_per_column_become_part_of_the_gemm_behind_another(self, numbers: tuple[int, ...]) -> None:
        nodes = [node("Gemm", "x w", "a"), node("Mul", "a k", "m"), node("Add", "m b", "r"), node("Gemm", "r v")]
        constants = {"w": normal(5, 7), "v": normal(7, 3), "k": normal(*numbers), "b": normal(*numbers)}
        after = optimized(build(nodes, {"x": (1, 5)}, ["y"], constants))
        assert set(census(after)) == {"Reshape", "Conv"}

    def test_matmul_of_one_row_moves_only_axes_of_length_1(self) -> None:
        after = optimized(build([node("MatMul", "x w", name="fc")], {"x": (1, 1, 5)}, ["y"], {"w": normal(5, 7)}))
        assert [item.op_type for item in after.graph] == ["Reshape", "Conv", "Reshape"]

    @pytest.mark.parametrize("rank", [2, 3, 4])
    def test_scale_and_shift_along_the_last_axis_become_part_of_the_matrix(self, rank: int) -> None:
        nodes = [node("Mul", "x g", "m"), node("Add", "m h", "a"), node("MatMul", "a w", "p"), node("Add", "p b")]
        shape = (1, 2, 3, 5)[-rank:]
        constants = {"g": normal(5), "h": normal(5), "w": normal(5, 7), "b": normal(7)}
        assert set(census(optimized(build(nodes, {"x": shape}, ["y"], constants)))) <= {"Reshape", "Transpose", "Conv"}

    def test_scale_and_shift_of_a_transposed_map_reach_the_product_on_its_channels(self) -> None:
        nodes = [
            node("Sigmoid", "x", "s"),
            node("Reshape", "s to", "r"),
            node("Transpose", "r", "t", perm=[0, 2, 1]),
            node("Mul", "t k", "m"),
            node("Add", "m h", "a"),
            node("MatMul", "a w", "p", name="mm"),
            node("Add", "p b"),
        ]
        constants = {"to": np.array([1, 4, 64]), "k": normal(4), "h": normal(4), "w": normal(4, 6), "b": normal(6)}
        after = optimized(build(nodes, {"x": (1, 4, 8, 8)}, ["y"], constants))
        (conv,) = (item for item in after.graph if item.op_type == "Conv")
        assert conv.inputs[2].name == "mm_bias"
        assert census(after).keys() == {"Sigmoid", "Conv", "Reshape", "Transpose"}

    def test_a_shift_that_two_products_read_stays(self) -> None:
        nodes = [node("Add", "x h", "a"), node("MatMul", "a w"), node("MatMul", "a v", "z")]
        constants = {"h": normal(5), "w": normal(5, 7), "v": normal(5, 7)}
        after = optimized(build(nodes, {"x": (1, 3, 5)}, ["y", "z"], constants))
        assert census(after) == {"Add": 1, "Reshape": 3, "Transpose": 3, "Conv": 2}

    def test_bias_of_one_row_stays_an_addition(self) -> None:
        nodes = [node("MatMul", "x w", "m"), node("Add", "m b")]
        after = optimized(build(nodes, {"x": (1, 5)}, ["y"], {"w": normal(5, 7), "b": normal(7)}))
        assert [item.op_type for item in after.graph] == ["Reshape", "Conv", "Reshape", "Add", "Reshape"]

    @pytest.mark.parametrize(("march", "kernel"), [("bayes-e", (1, 7)), ("bernoulli2", (1, 1))])
    def test_second_gemm_reads_the_map_of_the_first(self, march: str, kernel: tuple[int, int]) -> None:
        nodes = [
            node("GlobalAveragePool", "x", "g"),
            node("Flatten", "g", "f"),
            node("Gemm", "f w", "a"),
            node("Relu", "a", "r"),
            node("Gemm", "r v"),
        ]
        after = optimized(build(nodes, {"x": (1, 5, 4, 4)}, ["y"], {"w": normal(5, 7), "v": normal(7, 3)}), march)
        convolutions = [item for item in after.graph if item.op_type == "Conv"]
        assert convolutions[-1].attributes["kernel_shape"].value == kernel

    def test_matmul_of_activations_stays(self) -> None:
        after = optimized(build([node("MatMul", "x z")], {"x": (2, 3, 5), "z": (2, 5, 4)}, ["y"]))
        assert census(after) == {"MatMul": 1}


@pytest.mark.parametrize(
    ("proto", "constants", "weight", "bias"),
    [
        (node("Gemm", "x w b"), {"w": [[1.0, 2.0], [3.0, 4.0]], "b": [5.0, 6.0]}, [[1, 3], [2, 4]], [5, 6]),
        (
            node("Gemm", "x w b", transB=1, alpha=2.0, beta=3.0),
            {"w": [[1.0, 2.0], [3.0, 4.0]], "b": [5.0, 6.0]},
            [[2, 4], [6, 8]],
            [15, 18],
        ),
        (node("Gemm", "x w b"), {"w": [[1.0, 2.0], [3.0, 4.0]], "b": 5.0}, [[1, 3], [2, 4]], [5, 5]),
        (node("Gemm", "x w b"), {"w": [[1.0, 2.0], [3.0, 4.0]], "b": [[5.0], [6.0]]}, None, None),
        (node("Gemm", "x w", transA=1), {"w": [[1.0, 2.0], [3.0, 4.0]]}, None, None),
        (node("MatMul", "x w"), {"w": [[1.0, 2.0], [3.0, 4.0]]}, [[1, 3], [2, 4]], None),
        (node("MatMul", "x w"), {"w": [1.0, 2.0]}, None, None),
        (node("MatMul", "x x"), {}, None, None),
    ],
)
def test_the_product_that_a_node_is(proto: Any, constants: dict[str, Any], weight: Any, bias: Any) -> None:
    arrays = {name: np.float32(value) for name, value in constants.items()}
    found = dense_of(build([proto], {"x": (2, 2)}, ["y"], arrays).graph[0])
    assert (found is None) == (weight is None)
    if found is not None:
        assert found.weight.tolist() == weight
        assert (None if found.bias is None else found.bias.tolist()) == bias


@pytest.mark.parametrize(("march", "expected"), [("bernoulli2", False), ("bayes-e", True)])
def test_rows_are_pixels_where_the_march_transposes(march: str, expected: bool) -> None:
    rules = load_chip(march).graph
    assert rules.dense_transposes is expected
    before = build([node("Gemm", "x w", name="g", transB=1)], {"x": (5, 2)}, ["y"], {"w": normal(3, 2)})
    _, after = applied(GemmToConv(rules), before)
    (conv,) = (item for item in after.graph if item.op_type == "Conv")
    assert tuple(conv.inputs[0].shape) == ((1, 2, 1, 5) if expected else (5, 2, 1, 1))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 2, 5, 3), ["Transpose", "Conv", "Transpose"]),
        ((5, 3), ["Reshape", "Transpose", "Conv", "Transpose", "Reshape"]),
    ],
)
def test_a_product_with_a_matrix_is_a_convolution_of_its_last_axis(shape: tuple[int, ...], expected: list[str]) -> None:
    _, after = applied(
        MatMulToConv(), build([node("MatMul", "x w", name="m")], {"x": shape}, ["y"], {"w": normal(3, 4)})
    )
    assert operators(after) == expected
    (conv,) = (item for item in after.graph if item.op_type == "Conv")
    assert conv.inputs[0].shape[1] == 3
    assert conv.metadata_props["hz.product"] == ("matmul" if len(shape) == 4 else "rows")


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [((1, 4, 3, 7), (3, 7)), ((1, 4, 8, 2), (1, 1)), ((2, 4, 3, 7), (1, 1)), ((1, 4, 1, 1), (1, 1))],
)
def test_a_product_of_one_flattened_map_covers_it(shape: tuple[int, ...], kernel: tuple[int, int]) -> None:
    nodes = [node("Flatten", "x", "f"), node("MatMul", "f w", name="m")]
    after = optimized(build(nodes, {"x": shape}, ["y"], {"w": normal(int(np.prod(shape[1:])), 5)}), "bayes-e")
    (conv,) = (item for item in after.graph if item.op_type == "Conv")
    assert conv.attributes["kernel_shape"].value == kernel
    assert (conv.inputs[0].name == "x") == (kernel != (1, 1) or shape[2:] == (1, 1))


def test_every_reader_of_a_product_but_the_first_has_a_transpose_of_its_own() -> None:
    nodes = [node("MatMul", "x w", "m", name="m"), node("Relu", "m", "a"), node("Abs", "m", "b"), node("Add", "a b")]
    _, after = applied(MatMulToConv(), build(nodes, {"x": (1, 2, 5, 3)}, ["y"], {"w": normal(3, 3)}))
    assert census(after)["Transpose"] == 3


def test_a_factor_along_the_axis_of_a_product_becomes_part_of_it() -> None:
    nodes = [node("Mul", "x s", "a"), node("Add", "a b", "c"), node("MatMul", "c w")]
    constants = {"s": normal(3), "b": normal(3), "w": normal(3, 4)}
    _, product = applied(MatMulToConv(), build(nodes, {"x": (1, 2, 5, 3)}, ["y"], constants))
    modified, after = applied(FoldAffineIntoProduct(), product)
    assert (modified, operators(after)) == (True, ["Transpose", "Conv", "Transpose"])
    assert len(after.graph[1].inputs) == 3


def test_single_numbers_have_no_last_axis() -> None:
    before = build([node("Mul", "x k", "m"), node("Neg", "m")], {"x": ()}, ["y"], {"k": np.float32(2)})
    assert operators(optimized(before)) == ["Mul", "Neg"]


class TestReaderOfChannels:
    """A number per channel behind movements of a map of 4096 x 4096 pixels, whose elements nothing writes down."""

    SIZE = 4096

    def reader(self, *steps: Any, axis: int = 3) -> str | None:
        """What :func:`reader_of_channels` finds behind permutations (tuples) and shapes (lists)."""
        nodes, constants = [node("Mul", "x s", "y0", name="scale")], {"s": normal(8), "w": normal(4, 8, 1, 1)}
        for index, step in enumerate(steps):
            target = f"y{index + 1}"
            if isinstance(step, tuple):
                nodes.append(node("Transpose", f"y{index}", target, perm=list(step)))
            else:
                constants[f"shape{index}"] = np.array(step, np.int64)
                nodes.append(node("Reshape", f"y{index} shape{index}", target))
        nodes.append(node("Conv", f"y{len(steps)} w", "z", name="conv", kernel_shape=[1, 1]))
        model = build(nodes, {"x": (1, self.SIZE, self.SIZE, 8)}, ["z"], constants)
        found = reader_of_channels(next(each for each in model.graph if each.op_type == "Mul"), axis)
        return None if found is None else str(found.name)

    def test_channels_are_turned_to_the_front(self) -> None:
        assert self.reader((0, 3, 1, 2)) == "conv"

    def test_windows_of_pixels_are_cut_and_turned(self) -> None:
        half = self.SIZE // 2
        windows = [[1, half, 2, half, 2, 8], (0, 2, 4, 1, 3, 5), [4, half, half, 8], (0, 3, 1, 2)]
        assert self.reader(*windows) == "conv"

    def test_an_axis_that_is_no_channels_is_none(self) -> None:
        assert self.reader((0, 3, 2, 1), axis=1) is None
        assert self.reader([1, 8, self.SIZE, self.SIZE]) is None
