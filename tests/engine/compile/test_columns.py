"""Columns of pixels, as separable attention has them, and rows that are added up."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.overhead import Overhead
from engine.chips.latency.through_ddr import Columns
from engine.compile.columns import adds_rows, column_amounts, column_bytes, is_column
from engine.compile.layers import Layer
from engine.compile.memory import Memory
from engine.compile.schedule import InputTensor, schedule_layers
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import layer

COLUMN, GATE = (1, 144, 1, 8), (1, 1, 1, 8)
MEBIBYTE = 1 << 20


def named(name: str, of: Layer, *inputs: str, **more: object) -> Layer:
    return of.model_copy(update={"name": name, "output": name, "inputs": inputs or of.inputs, **more})


def found(*layers: Layer, handed: Collection[str] = ()) -> dict[str, dict[Overhead, float]]:
    amounts = column_amounts(layers, handed)
    return {each.name: dict(own) for each, own in zip(layers, amounts, strict=True)}


def stacked(channels: int, pixels: int = 12) -> Layer:
    """The pixels of a map that become a column."""
    shapes = (1, pixels * 12, 1, channels), (1, pixels, 12, channels)
    return named("column", layer(CostKind.RESHAPE, *shapes, motion="view"))


def summed(channels: int = 8) -> Layer:
    reduced = layer(CostKind.REDUCE, (1, 1, 1, channels), (1, 144, 1, channels))
    return named("sum", reduced, "column", op_type="HzReduceSum")


def test_the_parts_of_separable_attention() -> None:
    """Pages of the original for 12 x 12 pixels of 8 channels: 18, 0.5, 13, 6 and 7 us on bayes-e."""
    whole = (1, 144, 1, 17)
    one = named("one", layer(CostKind.MOVE, (1, 144, 1, 1), whole), "column", leaves=True)
    key = named("key", layer(CostKind.MOVE, COLUMN, whole), "column", leaves=True)
    value = named("value", layer(CostKind.MOVE, COLUMN, whole), "column")
    table = named("table", layer(CostKind.LUT, COLUMN, COLUMN), "value", leaves=True)
    amounts = found(stacked(17), one, key, value, table)
    assert amounts["column"] == pytest.approx({Overhead.STACKED_PIXEL: 0.144, Overhead.COLUMN_TURNED: 3.456})
    assert amounts["one"] == pytest.approx({Overhead.COLUMN_ADDED: 0.144})
    assert amounts["key"] == pytest.approx({Overhead.COLUMN_ADDED: 1.152, Overhead.COLUMN_PIXEL: 0.144})
    assert amounts["value"] == pytest.approx({Overhead.COLUMN_ADDED: 1.152})
    assert amounts["table"] == pytest.approx({Overhead.COLUMN_PIXEL: 0.144})


def test_a_column_of_another_subgraph_that_becomes_a_map() -> None:
    """18, 6, 8, 7 and 2 us for 12 x 12 pixels of 8 channels on bayes-e."""
    scores = named("column", layer(CostKind.MUL, COLUMN, COLUMN, (1, 144, 1, 1)), "key", "one")
    gated = named("gated", layer(CostKind.MUL, COLUMN, COLUMN, GATE), "value", "sum")
    dense = named("dense", layer(CostKind.CONV, COLUMN, COLUMN), "gated")
    back = named("back", layer(CostKind.RESHAPE, (1, 12, 12, 8), COLUMN, motion="view"), "dense")
    amounts = found(scores, summed(), gated, dense, back, handed=("key", "one", "value"))
    elements = dict.fromkeys((Overhead.COLUMN_TURNED, Overhead.COLUMN_ELEMENT), 1.152)
    assert amounts["column"] == pytest.approx({**elements, Overhead.COLUMN_ROW: 0.144, Overhead.COLUMN_PIXEL: 0.144})
    assert amounts["sum"] == pytest.approx({Overhead.COLUMN_ADDED: 1.152})
    assert amounts["gated"] == amounts["dense"] == {Overhead.COLUMN_PIXEL: 0.144}
    assert amounts["back"] == {Overhead.COLUMN_PIXEL: pytest.approx(0.144 / 5)}


def test_whole_blocks_of_channels_are_cut_as_they_lie() -> None:
    cut = named("cut", layer(CostKind.MOVE, COLUMN, (1, 144, 1, 16)), "column")
    assert found(stacked(16), cut) == {"column": {Overhead.STACKED_PIXEL: 0.144}, "cut": {}}


@pytest.mark.parametrize(("width", "turned", "added"), [(64, 1.024, 1.024), (144, 2.304, 2.304), (200, 0, 4.096)])
def test_rows_are_added_up_pixel_by_pixel(width: int, turned: float, added: float) -> None:
    """Rows of 200 pixels lie in two whole vectors of 128 and are not turned before."""
    table = named("table", layer(CostKind.LUT, (1, 16, width, 8), (1, 16, width, 8)))
    total = named("total", layer(CostKind.REDUCE, (1, 16, 1, 8), (1, 16, width, 8)), "table", op_type="HzReduceSum")
    assert adds_rows(total)
    assert not adds_rows(table)
    amounts = found(table, total)
    assert amounts["table"].get(Overhead.ROW_TURNED, 0) == pytest.approx(turned)
    assert amounts["total"] == {Overhead.ROW_ADDED: pytest.approx(added)}


def test_one_channel_is_no_column() -> None:
    assert is_column(COLUMN)
    assert not is_column((1, 144, 1, 1))
    assert not is_column((1, 144, 2, 8))


@pytest.mark.parametrize(
    ("channels", "pixels", "passes", "moved"),
    [
        (65, 16, 1.0, 192 * 65 * 128),
        (65, 16, 1.75, 192 * 65 * 224),
        (65, 12, 1.0, 0),
        (64, 16, 1.0, 0),
    ],
)
def test_large_columns_of_uneven_channels_pass_through_ddr(
    channels: int, pixels: int, passes: float, moved: int
) -> None:
    """Asked on bayes-e and bayes: columns of more elements than fit, each in a vector of 128 bytes."""
    column = stacked(channels, pixels)
    columns = Columns(above=1_300_000, passes=passes, columns=1)
    memory = Memory(MEBIBYTE, MEBIBYTE, weights_on_chip=True, columns=columns)
    inputs = (InputTensor(name=column.inputs[0], dtype="int8", shape=column.input_shapes[0]),)
    schedule = schedule_layers("net", inputs, ("column",), (column,), memory)
    assert column_bytes(column) == (channels % 8 > 0) * pixels * 12 * channels * 128
    assert sum(schedule.relaid.values()) == moved


@pytest.mark.parametrize(
    ("march", "turned", "product", "added"), [("bayes-e", 5.2, 5.4, 18.4), ("bayes", 5.7, 4.7, 15.1)]
)
def test_separable_attention_takes_its_columns_row_by_row(
    march: str, turned: float, product: float, added: float
) -> None:
    """Asked, computing times of 12 x 8 x 24; laying the column for the sum is part of what is in front of it."""
    costs, column = load_latency(march).overheads, (1, 96, 1, 24)

    def us(*layers: Layer) -> float:
        amounts = [each for own in column_amounts(layers) for each in own]
        return sum(amount * costs[overhead].us for overhead, amount in amounts)

    first = layer(CostKind.RESHAPE, column, (1, 12, 8, 24), motion="view")
    total = named("sum", layer(CostKind.REDUCE, (1, 1, 1, 24), column), "y", op_type="HzReduceSum")
    assert us(first) == pytest.approx(turned, rel=0.1)
    assert us(layer(CostKind.MUL, column, column, (1, 96, 1, 1))) == pytest.approx(product, rel=0.1)
    assert us(first, total) - us(first) == pytest.approx(added, rel=0.1)


def test_means_over_rows_and_columns() -> None:
    """Pages: 33 rows of 33 pixels take 9 us on bayes-e, 33 columns of 16 channels 5, a whole map none of it."""
    shape = (1, 33, 24, 16)

    def mean(*after: int) -> dict[Overhead, float]:
        return found(layer(CostKind.REDUCE, after, shape).model_copy(update={"op_type": "HzReduceMean"}))["y"]

    assert mean(1, 33, 1, 16) == pytest.approx({Overhead.MEAN_ROW: 0.033})
    assert mean(1, 1, 24, 16) == {Overhead.REDUCE: 1, Overhead.MEAN_COLUMN: pytest.approx(0.384)}
    assert mean(1, 1, 1, 16) == {}


def test_maps_of_one_channel_are_looked_up_row_by_row_and_turned_for_what_makes_rows_of_them() -> None:
    """2 x 1280 pixels take 17 us on bayes-e and 9 on bayes in front of a reshape, 2 and 1 in front of a sum."""
    boxes = (1, 2, 1280, 1)
    table = named("table", layer(CostKind.LUT, boxes, boxes))
    row = named("row", layer(CostKind.RESHAPE, (1, 2, 1280), boxes, motion="elements"), "table")
    amounts = found(table, row)["table"]
    assert amounts == pytest.approx({Overhead.ROW_TURNED: 2.56, Overhead.SINGLE_TABLE_ROW: 0.002})
    assert found(table, named("sum", layer(CostKind.ADD, boxes, boxes), "table"))["table"].keys() == {
        Overhead.SINGLE_TABLE_ROW
    }
