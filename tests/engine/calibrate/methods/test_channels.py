"""Which tensors take a threshold per channel, and the scales that equalise channels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.calibrate.methods.channels import (
    ChannelReaders,
    is_large,
    tensors_of_wide_sums,
    tensors_per_channel,
)
from engine.ir import MARK_MARCH
from tests.engine.calibrate.models import add_calibration, graph

WEIGHTS = {
    "w": np.ones((2, 2, 1, 1), np.float32),
    "least": np.full((2, 2, 1, 1), -0.215, np.float32),
    "small": np.full((2, 2, 1, 1), -0.195, np.float32),
    "apart": np.ones((2, 1, 1, 1), np.float32),
    "slope": np.full((2, 1, 1), 0.1, np.float32),
    "low": np.float32(0),
    "high": np.float32(100),
}


def chosen(nodes: str, tensors: str = "c", march: str = "bayes-e", size: int = 4) -> dict[str, tuple[list[int], bool]]:
    """Groups of the convolutions and whether a sum reads, in nodes such as ``Conv x w > c``; ``apart`` is depthwise."""
    made = []
    for index, text in enumerate(nodes.split("; ")):
        kind, *names = text.replace(" >", "").split()
        groups = {"group": 2} if kind == "Conv" and names[1] == "apart" else {}
        made.append(helper.make_node(kind, names[:-1], names[-1:], name=f"n{index}", **groups))
    model = graph(made, {"x": (1, 2, size, size)}, ["y"], WEIGHTS)
    model.metadata_props[MARK_MARCH] = march
    found = tensors_per_channel(model, tensors.split())
    return {name: ([groups for _, groups in each.convolutions], each.is_added) for name, each in found.items()}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("Conv x w > c; Conv c w > y", ([1], False)),
        ("Conv x w > d; Relu d > c; Conv c w > y", ([1], False)),
        ("Conv x w > d; PRelu d slope > c; Conv c w > y", ([1], False)),
        ("Conv x w > c; Conv c least > d; Add d c > y", ([1], True)),
        ("Conv x w > d; Relu d > c; Conv c apart > e; Conv c w > f; Add e f > y", ([2, 1], False)),
        ("Conv x w > d; Relu d > c; Conv c small > e; Conv c w > f; Add e f > y", ([1, 1], False)),
        ("Conv x w > c; Conv c apart > d; Conv c w > e; Add d c > f; Add f e > y", ([2, 1], True)),
        ("Conv x w > d; Add d x > c; Conv c w > y", ([1], False)),
        ("Conv x w > d; Relu d > c; Conv x w > e; Add c e > y", ([], True)),
    ],
)
def test_results_of_convolutions_that_convolutions_and_their_sums_read(
    nodes: str, expected: tuple[list[int], bool]
) -> None:
    assert chosen(nodes) == {"c": expected}


@pytest.mark.parametrize(
    "nodes",
    [
        "Conv x w > c; Conv c small > y",
        "Conv x w > c; Conv c small > d; Add d c > y",
        "ConvTranspose x w > c; Conv c w > y",
        "Conv x w > c; ConvTranspose c w > y",
        "Conv x w > d; Sigmoid d > c; Conv c w > y",
        "Conv x w > d; LeakyRelu d > c; Conv c w > y",
        "Conv x w > d; Clip d low high > c; Conv c w > y",
        "Conv x w > c; Sigmoid c > d; Conv c w > e; Mul d e > y",
        "Relu x > c; Conv c w > y",
        "Conv x w > d; Relu d > e; Add e x > c; Conv c w > y",
        "Conv x w > d; Relu d > c; Conv d w > e; Conv c w > f; Add e f > y",
        "Conv x w > c; Relu c > y",
        "Conv x w > d; Relu d > c; Relu x > e; Add c e > y",
    ],
)
def test_other_tensors_keep_one_threshold(nodes: str) -> None:
    assert chosen(nodes) == {}


@pytest.mark.parametrize(("reader", "expected"), [("Conv x w > y", {"x": ([1], False)}), ("Relu x > y", {})])
def test_inputs_of_the_network_that_convolutions_read(reader: str, expected: dict[str, tuple[list[int], bool]]) -> None:
    assert chosen(reader, "x") == expected


def test_bernoulli2_computes_sums_of_two_maps_as_depthwise_convolutions_of_the_first() -> None:
    first, second = "Add c e > y", "Add e c > y"
    nodes = "Conv x w > d; Relu d > c; Relu x > e; "
    assert chosen(nodes + first, march="bernoulli2") == {"c": ([2], False)}
    assert chosen(nodes + second, march="bernoulli2") == {"c": ([], True)}


@pytest.mark.parametrize(("march", "expected"), [("bernoulli2", 1), ("bayes", 0), ("bayes-e", 0)])
def test_products_of_matrices_count_as_convolutions_where_the_cpu_computes_them(march: str, expected: int) -> None:
    assert len(chosen("MatMul x x > c; Conv c w > y", march=march)) == expected
    assert chosen("MatMul x x > d; Transpose d > c; Conv c w > y", march=march) == {}


@pytest.mark.parametrize(("size", "expected"), [(3, 0), (4, 1)])
def test_small_maps_keep_one_threshold(size: int, expected: int) -> None:
    assert len(chosen("Conv x w > c; Conv c w > y", size=size)) == expected


def test_outputs_of_the_network_keep_one_threshold() -> None:
    assert chosen("Conv x w > y; Conv y w > c", "y") == {}


def test_maps_of_another_rank_keep_one_threshold() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "c"), helper.make_node("Conv", ["c", "w"], ["y"], "d")]
    weight = {"w": np.ones((2, 2, 1), np.float32)}
    assert tensors_per_channel(graph(nodes, {"x": (1, 2, 5)}, ["y"], weight), ["c"]) == {}


@pytest.mark.parametrize(("largest", "expected"), [(15.9, False), (16.0, True)])
def test_tensors_of_small_values_keep_one_threshold(largest: float, expected: bool) -> None:
    assert is_large(np.asarray([1.0, largest], np.float32)) is expected


def factors(maxima: list[float], weights: list[float], groups: int = 1, is_added: bool = False) -> NDArray[np.float32]:
    readers = ChannelReaders(((np.asarray(weights, np.float32), groups),) if weights else (), is_added)
    return readers.factors(np.asarray(maxima, np.float32))


def test_factors_are_finite_whatever_the_maxima() -> None:
    largest = np.finfo(np.float32).max
    for maxima in ([1.0, largest], [largest, largest], [0.0, largest], [0.0, 1e-45]):
        for found in (factors(maxima, [1.0, 1.0], 2), factors(maxima, [], is_added=True)):
            assert np.isfinite(found).all()
            assert found.min() == 1


def test_groups_of_one_channel_and_sums_ask_for_equal_maxima() -> None:
    """With the floor of 0.001 of the largest: (4 + 0.004) / (1 + 0.004), and so on, up to 16 for sums."""
    maxima = [4.0, 1.0, 0.0]
    np.testing.assert_allclose(factors(maxima, [1.0] * 3, 3), [1.0, 4.004 / 1.004, 1001.0], rtol=3e-7)
    np.testing.assert_allclose(factors(maxima, [], is_added=True), [1.0, 4.004 / 1.004, 16.0], rtol=3e-7)


@pytest.mark.parametrize(
    ("maxima", "weights", "expected"),
    [
        ([1.0, 0.1], [1.0, 2.0], [1.0, 2.0]),  # to the next largest weight, that of a channel without room
        ([1.0, 0.1], [1.0, 20.0], [1.0, 10.0]),  # as far as there is room
        ([1.0, 0.35], [1.0, 2.0], [1.0, 1.0]),  # room for less than 3
        ([1.0, 0.1], [2.0, 1.999], [1.0, 1.0]),  # weights that count as equal: one has no room
        ([1.0, 0.25, 0.01], [0.1, 2.0, 3.0], [1.0, 4.0, 6.0]),  # as far as the one with least room
        ([1.0, 0.2, 0.2], [0.1, 2.0, 4.0], [1.0, 1.0, 2.0]),  # the room that the last step left is less than 3
    ],
)
def test_channels_are_multiplied_where_their_weights_are_the_largest(
    maxima: list[float], weights: list[float], expected: list[float]
) -> None:
    np.testing.assert_allclose(factors(maxima, weights), expected, rtol=0.01)


def test_a_group_is_multiplied_by_the_room_of_its_largest_channel_first() -> None:
    np.testing.assert_allclose(factors([1.0, 0.5, 0.25, 0.05], [1.0, 1.0, 1.0, 2.0], 2), [1, 1, 4, 8], rtol=0.01)


def test_the_largest_factor_of_several_readers_counts() -> None:
    weights = (np.asarray([1.0, 2.0], np.float32), 1), (np.asarray([1.0, 3.0], np.float32), 1)
    found = ChannelReaders(weights).factors(np.asarray([1.0, 0.1], np.float32))
    np.testing.assert_allclose(found, [1.0, 3.0], rtol=0.01)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1e-45, 0.0]])
def test_a_convolution_of_zeros_asks_for_nothing(weights: list[float]) -> None:
    assert factors([1.0, 0.1], weights).tolist() == [1.0, 1.0]


def test_weights_that_are_no_numbers_count_as_zeros_and_infinite_ones_as_large() -> None:
    weights = {"v": np.asarray([[[[np.nan]], [[-np.inf]]]], np.float32), "w": np.ones((2, 2, 1, 1), np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "c"), helper.make_node("Conv", ["c", "v"], ["y"], "y")]
    model = graph(nodes, {"x": (1, 2, 4, 4)}, ["y"], weights)
    model.metadata_props[MARK_MARCH] = "bayes-e"
    found = tensors_per_channel(model, ["c"])["c"].factors(np.asarray([20.0, 1.0], np.float32))
    assert np.isfinite(found).all()
    assert (found[0], found[1] > 3) == (1.0, True)


def test_channels_without_values_are_left_alone() -> None:
    assert factors([0.0] * 3, [1.0] * 3).tolist() == [1.0, 1.0, 1.0]


def test_readers_are_found_behind_calibration() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "c"), helper.make_node("Conv", ["c", "w"], ["y"], "y")]
    model = graph(nodes, {"x": (1, 2, 4, 4)}, ["y"], WEIGHTS)
    model.metadata_props[MARK_MARCH] = "bayes-e"
    add_calibration(model, "c")
    assert list(tensors_per_channel(model, ["c"])) == ["c"]


@pytest.mark.parametrize(("first", "second", "kept"), [("int16", "int8", True), ("int8", "int8", False)])
def test_what_a_sum_in_int16_reads_or_gives_keeps_one_threshold(first: str, second: str, kept: bool) -> None:
    """No convolution computes such a sum; one operand that is not quantised is a convolution's own result."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        helper.make_node("Add", ["a", "x"], ["s"], name="sum"),
        helper.make_node("Relu", ["s"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w"], ["y"], name="last"),
    ]
    model = graph(nodes, {"x": (1, 2, 4, 4)}, ["y"], {"w": WEIGHTS["w"]})
    add_calibration(model, "x", qtype=first)
    assert not tensors_of_wide_sums(model)
    add_calibration(model, "a", qtype=second)
    assert tensors_of_wide_sums(model) == ({"x", "a", "s", "r"} if kept else set())
