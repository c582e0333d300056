"""Rows of single channels, as attention in linear time has them."""

from __future__ import annotations

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.overhead import Overhead
from engine.compile.layers import Layer
from engine.compile.singles import becomes_rows, singles_amounts
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import layer


def named(name: str, of: Layer, *inputs: str) -> Layer:
    return of.model_copy(update={"name": name, "output": name, "inputs": inputs or of.inputs})


def found(*layers: Layer) -> dict[str, dict[Overhead, float]]:
    return {each.name: dict(own) for each, own in zip(layers, singles_amounts(layers), strict=True)}


def spread(channels: int, height: int, width: int) -> tuple[Layer, Layer]:
    """A map in NCHW and the transposition that makes a row of single channels of each of its pixels."""
    pixels = height * width
    flat = layer(CostKind.RESHAPE, (1, 1, channels, pixels), (1, channels, height, width))
    turned = layer(CostKind.TRANSPOSE, (1, pixels, channels, 1), (1, 1, channels, pixels), motion="elements")
    return named("flat", flat), named("rows", turned, "flat")


def part(name: str, pixels: int, channels: int) -> Layer:
    cut = layer(CostKind.MOVE, (1, pixels, channels // 3, 1), (1, pixels, channels, 1))
    return named(name, cut, "rows")


def us(march: str, *layers: Layer) -> float:
    costs = load_latency(march).overheads
    return sum(amount * costs[overhead].us for own in singles_amounts(layers) for overhead, amount in own)


@pytest.mark.parametrize(
    ("shape", "march", "page"),
    [
        ((48, 12, 12), "bayes-e", 173),
        ((36, 9, 7), "bayes-e", 67),
        ((72, 10, 10), "bayes-e", 200),
        ((48, 12, 12), "bayes", 117),
        ((36, 9, 7), "bayes", 47),
        ((72, 10, 10), "bayes", 133),
    ],
)
def test_one_reader_takes_the_pixels_element_by_element(shape: tuple[int, int, int], march: str, page: float) -> None:
    """Asked, computing times; rows are padded to 4 pixels."""
    layers = (*spread(*shape), part("only", shape[1] * shape[2], shape[0]))
    assert us(march, *layers) == pytest.approx(page, rel=0.17)


@pytest.mark.parametrize(
    ("shape", "march", "page"),
    [((48, 12, 12), "bayes-e", 15), ((36, 9, 7), "bayes-e", 9), ((48, 12, 12), "bayes", 7.5)],
)
def test_for_several_readers_rows_of_each_channel_are_joined_and_turned(
    shape: tuple[int, int, int], march: str, page: float
) -> None:
    """Asked: a change of layout, a reshape and another change of layout."""
    pixels = shape[1] * shape[2]
    layers = (*spread(*shape), part("one", pixels, shape[0]), part("two", pixels, shape[0]))
    assert us(march, *layers) == pytest.approx(page, rel=0.15)


def test_rows_that_are_scaled_and_become_a_map_again() -> None:
    """Pages: 15 and 23 us for 144 rows of 16 on bayes-e, 9 and 15 on bayes."""
    rows, map_ = (1, 144, 16, 1), (1, 16, 12, 12)
    product = named("product", layer(CostKind.MATMUL, rows, (1, 144, 17, 1), (1, 17, 16, 1)), "x", "y")
    scaled = named("scaled", layer(CostKind.MUL, rows, rows, (1, 144, 1, 1)), "product", "sums")
    turned = named("turned", layer(CostKind.TRANSPOSE, (1, 1, 16, 144), rows, motion="none"), "scaled")
    back = named("map", layer(CostKind.RESHAPE, map_, (1, 1, 16, 144), motion="view"), "turned")
    amounts = found(product, scaled, turned, back)
    assert amounts["product"] == {}
    assert amounts["scaled"] == {Overhead.SINGLES_SCALED: 2.304}
    assert amounts["turned"] == {}
    assert amounts["map"] == {Overhead.SINGLES_JOINED: 2.304}
    assert us("bayes-e", product, scaled, turned, back) == pytest.approx(38, rel=0.05)
    assert us("bayes", product, scaled, turned, back) == pytest.approx(24, rel=0.05)


def test_rows_of_anything_but_a_product_are_not_scaled_one_by_one() -> None:
    rows = (1, 144, 16, 1)
    assert found(named("scaled", layer(CostKind.MUL, rows, rows, (1, 144, 1, 1)), "x", "sums")) == {"scaled": {}}


def test_a_line_of_elements_is_none() -> None:
    line = layer(CostKind.TRANSPOSE, (1, 2, 320, 1), (1, 1, 2, 320), motion="elements")
    assert not becomes_rows(line)
    assert found(named("sum", layer(CostKind.MUL, (1, 144, 16, 1), (1, 144, 16, 1), (1, 144, 16, 1)))) == {"sum": {}}
