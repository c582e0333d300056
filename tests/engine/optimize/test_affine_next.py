"""Pads and arithmetic with constants, folded into convolutions behind them."""

from __future__ import annotations

import numpy as np
import pytest

from engine.optimize.affine_next import FoldPadIntoConv
from tests.engine.optimize.equivalence import applied, build, census, optimized
from tests.engine.optimize.networks import MAP, node, normal


def test_pad_becomes_part_of_the_convolution() -> None:
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
def test_other_pads_stay(pads: list[int], value: float, mode: str) -> None:
    channels = 4 + pads[1] + pads[5]
    nodes = [node("Pad", "x pads value", "p", mode=mode), node("Conv", "p w", kernel_shape=[1, 1])]
    constants = {"pads": np.array(pads), "value": np.float32(value), "w": normal(2, channels, 1, 1)}
    assert census(optimized(build(nodes, MAP, ["y"], constants))) == {"Pad": 1, "Conv": 1}


def test_a_pad_that_something_else_reads_stays() -> None:
    nodes = [
        node("Pad", "x pads zero", "p"),
        node("Conv", "p w", "y0", kernel_shape=[3, 3]),
        node("Relu", "p", "y1"),
    ]
    constants = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "zero": np.float32(0), "w": normal(2, 4, 3, 3)}
    modified, _ = applied(FoldPadIntoConv(), build(nodes, MAP, ["y0", "y1"], constants))
    assert not modified


@pytest.mark.parametrize("opset", [9, 10])
def test_pad_with_attributes(opset: int) -> None:
    nodes = [node("Pad", "x", "p", pads=[0, 0, 1, 1, 0, 0, 1, 1]), node("Conv", "p w", kernel_shape=[3, 3])]
    assert census(optimized(build(nodes, MAP, ["y"], {"w": normal(2, 4, 3, 3)}, opset))) == {"Conv": 1}


def test_pad_with_axes() -> None:
    nodes = [node("Pad", "x pads _ axes", "p"), node("Conv", "p w", kernel_shape=[3, 3])]
    constants = {"pads": np.array([1, 2, 0, 1]), "axes": np.array([-1, 2]), "w": normal(2, 4, 3, 3)}
    (conv,) = optimized(build(nodes, MAP, ["y"], constants, 18)).graph
    assert conv.attributes["pads"].value == (2, 1, 1, 0)


def test_affine_before_a_convolution_moves_into_it() -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("Mul", "r k", "m"),
        node("Add", "m s", "a"),
        node("Conv", "a w", group=2, kernel_shape=[3, 3]),
    ]
    after = optimized(build(nodes, MAP, ["y"], {"k": normal(4, 1, 1), "s": normal(4, 1, 1), "w": normal(6, 2, 3, 3)}))
    assert census(after) == {"Relu": 1, "Conv": 1}


def test_affine_before_a_reshape_moves_into_the_convolution_behind_it() -> None:
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


def test_a_reshape_that_joins_channels_lets_nothing_pass() -> None:
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
    arithmetic: list[str], side: int, expected: dict[str, int]
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
def test_one_number_for_all_channels_stays_in_front_of_a_convolution(added: tuple[int, ...]) -> None:
    nodes = [node("Add", "x k", "a"), node("Conv", "a w")]
    after = optimized(build(nodes, MAP, ["y"], {"k": normal(*added), "w": normal(6, 4, 1, 1)}))
    assert census(after) == {"Add": 1, "Conv": 1}


def test_a_sum_stays_where_another_axis_is_as_long_as_that_of_channels() -> None:
    nodes = [node("Add", "x k", "a"), node("Conv", "a w")]
    after = optimized(build(nodes, {"x": (1, 4, 4, 6)}, ["y"], {"k": normal(4, 1, 1), "w": normal(6, 4, 1, 1)}))
    assert census(after) == {"Add": 1, "Conv": 1}


@pytest.mark.parametrize(("shape", "sums"), [((1, 5, 4), 0), ((1, 2, 5, 4), 1)])
def test_a_product_of_rows_takes_the_sum_in_front_of_it(shape: tuple[int, ...], sums: int) -> None:
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
