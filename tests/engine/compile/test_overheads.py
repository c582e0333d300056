"""What layers take besides computing and traffic."""

from __future__ import annotations

import math

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.overhead import Measured, Overhead
from engine.compile.cost import layer_costs, subgraph_us
from engine.compile.layers import MAXIMUM, Layer, Overlap
from engine.compile.memory import Memory
from engine.compile.motion import Motion
from engine.compile.overheads import (
    amounts,
    overhead_us,
    product_columns,
    small_table_elements,
    uneven_us,
    vectors_above,
)
from engine.compile.schedule import InputTensor, schedule_layers
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import alone, layer

MAP = (1, 8, 8, 16)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (layer(CostKind.CONV, (1, 1, 1, 8), (1, 1, 1, 16)), (Overhead.PIXEL, 1)),
        (layer(CostKind.CONV, MAP, MAP, kernel=(3, 3), dilations=(2, 2)), (Overhead.DILATED_PAIRS, 2.048)),
        (layer(CostKind.CONV, MAP, MAP, kernel=(3, 3), dilations=(2, 2)), (Overhead.DILATED_PAIR, 1)),
        (layer(CostKind.CONV, MAP, MAP, kernel=(3, 3), dilations=(3, 3)), (Overhead.DILATED, 2 * 81 * 16 / 1e3)),
        (layer(CostKind.CONV, MAP, MAP, kernel=(3, 3), dilations=(3, 4)), (Overhead.DILATED_PHASE, 12)),
        (layer(CostKind.DEPTHWISE, MAP, MAP), (Overhead.SINGLE_TAP, 0.016)),
        (layer(CostKind.DEPTHWISE, (1, 4, 4, 16), MAP, kernel=(3, 3), strides=(2, 2)), (Overhead.STEPPED, 0.016)),
        (layer(CostKind.ADD, MAP, MAP, MAP), (Overhead.SUM, 1)),
        (layer(CostKind.MUL, MAP, MAP, (1, 1, 1, 16)), (Overhead.SUM, 1)),
        (layer(CostKind.LUT, MAP, MAP), (Overhead.TABLE, 1)),
        (layer(CostKind.LUT, MAP, MAP, input_bits=16), (Overhead.TABLE, 1)),
        (layer(CostKind.MOVE, (1, 8, 8, 8), MAP), (Overhead.MOVE, 1)),
        (
            layer(CostKind.POOL, (1, 4, 4, 16), MAP, kernel=(3, 3), strides=(2, 2)),
            (Overhead.POOL, 1),
        ),
        (
            layer(CostKind.POOL, MAP, MAP, kernel=(5, 5)).model_copy(update={"op_type": MAXIMUM}),
            (Overhead.WINDOW, 2),
        ),
        (layer(CostKind.POOL, MAP, MAP, kernel=(5, 5)), (Overhead.AVERAGE, 0.064)),
        (layer(CostKind.POOL, MAP, MAP, kernel=(5, 3)), (Overhead.AVERAGE_TAP, 0.96)),
        (layer(CostKind.REDUCE, (1, 8, 8, 1), MAP), (Overhead.REDUCE, 1)),
        (layer(CostKind.TRANSPOSED, (1, 16, 16, 16), MAP), (Overhead.TRANSPOSED, 1)),
        (layer(CostKind.REDUCE, (1, 1, 2, 8, 8), (1, 2, 2, 8, 8)), (Overhead.DEEP_REDUCE, 0.128)),
        (layer(CostKind.RESIZE, MAP, (1, 4, 4, 16)), (Overhead.RESIZE, 1)),
        (layer(CostKind.JOIN, MAP, (1, 8, 8, 8), (1, 8, 8, 8)), (Overhead.JOIN, 1)),
        (layer(CostKind.JOIN, (1, 3, 8, 8, 7), (1, 3, 8, 8, 2), (1, 3, 8, 8, 5)), (Overhead.ANCHOR_PARTS, 0.192)),
        (
            layer(CostKind.RESHAPE, (1, 3, 7, 8, 6), (1, 21, 8, 6), motion="rows", output_bits=16),
            (Overhead.ANCHOR_PIXEL, 0.048),
        ),
        (
            layer(CostKind.RESHAPE, (1, 192, 7), (1, 3, 8, 8, 7), motion="view", output_bits=16),
            (Overhead.ANCHOR_JOINED, 0.192),
        ),
        (
            layer(CostKind.RESHAPE, (1, 4, 8, 8, 6), (4, 8, 8, 6), motion="rows"),
            (Overhead.ARRANGED_ROWS, 0.256),
        ),
        (layer(CostKind.RESHAPE, (1, 1, 32, 1), (1, 1, 1, 32), motion="view"), (Overhead.LINE, 1)),
        (layer(CostKind.RESHAPE, (1, 480), (1, 480, 1), motion="elements"), (Overhead.LINES, 0.48)),
        (layer(CostKind.JOIN, (1, 20, 6), (1, 16, 6), (1, 4, 6), input_bits=16), (Overhead.JOIN, 1)),
        (layer(CostKind.TRANSPOSE, (1, 2, 64, 16), (1, 64, 2, 16)), (Overhead.STACKED, 0.064)),
        (layer(CostKind.TRANSPOSE, (1, 2, 16, 64), (1, 2, 64, 16)), (Overhead.CROSSED, 2.048)),
        (layer(CostKind.TRANSPOSE, (1, 3, 8, 8, 7), (1, 3, 7, 8, 8)), (Overhead.ANCHOR, 0.192)),
        (layer(CostKind.RESHAPE, (1, 2, 32, 16), (1, 64, 4, 4), motion="laid"), (Overhead.LAID, 0.256)),
        (layer(CostKind.RESHAPE, (1, 64, 4, 4), (1, 2, 32, 16), motion="spread"), (Overhead.SINGLE, 0.512)),
        (layer(CostKind.RESHAPE, (1, 64, 4, 4), (1, 2, 32, 16), motion="spread"), (Overhead.SINGLE_ROW, 0.128)),
        (
            layer(CostKind.RESHAPE, (1, 64, 3, 2, 8), (1, 8, 8, 48), motion="turned"),
            (Overhead.TURNED_ROW, 0.384),
        ),
        (
            layer(CostKind.RESHAPE, (1, 64, 3, 2, 8), (1, 8, 8, 48), motion="turned"),
            (Overhead.TURNED_PIXEL, 0.064),
        ),
        (
            layer(CostKind.RESHAPE, (1, 64, 3, 2, 8), (1, 1, 64, 48), motion="turned"),
            (Overhead.TURNED_TOKEN, 0.064),
        ),
        (layer(CostKind.LUT, (1, 8, 6, 16), (1, 8, 6, 16), copied=True), (Overhead.COPIED, 0.128)),
        (
            layer(CostKind.TRANSPOSE, (3, 1, 2, 5, 16), (1, 5, 3, 2, 16), motion="elements"),
            (Overhead.DEEP_SINGLE, 0.48),
        ),
        (
            layer(CostKind.TRANSPOSE, (3, 1, 2, 5, 16), (1, 5, 3, 2, 16), motion="elements"),
            (Overhead.DEEP_HEAD_ROW, 0.03 / 2**1.5),
        ),
        (
            layer(CostKind.TRANSPOSE, (3, 4, 2, 5, 16), (4, 5, 3, 2, 16), motion="elements"),
            (Overhead.DEEP_SINGLE, 1.92 * (0.14 + 0.86 / 4)),
        ),
        (layer(CostKind.RESHAPE, (1, 12, 16, 1), (1, 1, 1, 12, 16), motion="view"), (Overhead.LINES, 0.192)),
        (
            layer(CostKind.RESHAPE, (1, 4, 4, 64), (1, 16, 64), motion="view", input_bits=16, output_bits=16),
            (Overhead.REGROUPED, 2.048),
        ),
        (
            layer(CostKind.RESHAPE, (1, 80, 400), (1, 80, 20, 20), motion="view", converted=(0,), output_bits=16),
            (Overhead.PLANE_PIXEL, 20 * 32 * 2 / 1e3),
        ),
        (
            layer(CostKind.RESHAPE, (1, 80, 400), (1, 80, 20, 20), motion="view", converted=(0,), output_bits=16),
            (Overhead.PLANE_ROW, 1.6),
        ),
        (layer(CostKind.RESHAPE, (1, 1, 256), (1, 16, 16, 1), motion="elements"), (Overhead.PLANE_SINGLE, 0.256)),
        (layer(CostKind.CONV, MAP, MAP, output_bits=32, leaves=True), (Overhead.PLAIN_PIXEL, 0.064)),
        (layer(CostKind.LUT, MAP, MAP, leaves=True), (Overhead.PLAIN_PIXEL, 0.064)),
        (layer(CostKind.RESHAPE, (1, 5, 3, 2, 16), (1, 1, 5, 96), motion="elements"), (Overhead.DEEP_ROW, 0.03)),
        (layer(CostKind.TRANSPOSE, (2, 2, 2, 4, 2, 8), (2, 2, 4, 2, 2, 8), motion="pixels"), (Overhead.SWAP, 1)),
        (layer(CostKind.TRANSPOSE, (2, 2, 2, 4, 2, 8), (2, 2, 4, 2, 2, 8), motion="pixels"), (Overhead.SWAPPED, 0.512)),
        (layer(CostKind.TRANSPOSE, MAP, MAP, motion="planes"), (Overhead.SHUFFLED_CHANNEL, 0.016)),
        (layer(CostKind.TRANSPOSE, MAP, MAP, motion="planes"), (Overhead.SHUFFLED, 0.128)),
        (layer(CostKind.RESHAPE, (17, 3, 64), (17, 1, 192), motion="columns"), (Overhead.COLUMN, 1)),
        (layer(CostKind.RESHAPE, (1, 17, 192), (17, 1, 3, 64), motion="joined"), (Overhead.JOINED, 3.264)),
        (layer(CostKind.RESHAPE, (1, 17, 192), (17, 1, 3, 64), motion="joined"), (Overhead.JOINED_ROW, 0.051)),
        (layer(CostKind.RESHAPE, (17, 3, 64), (17, 1, 192), motion="columns"), (Overhead.COLUMNS, 3.264)),
        (layer(CostKind.TRANSPOSE, (1, 8, 8, 4), (1, 4, 4, 16), motion="blocks"), (Overhead.BLOCKS, 1.024)),
        (layer(CostKind.RESHAPE, (1, 64, 2, 16), (1, 1, 64, 32), motion="heads"), (Overhead.HEADS, 2.048)),
        (layer(CostKind.LUT, (1, 9, 9, 2), (1, 9, 9, 2), rearranged=(0,)), (Overhead.ARRANGED_PIXELS, 0.081)),
        (layer(CostKind.LUT, (1, 9, 9, 2), (1, 9, 9, 2), rearranged=(0,)), (Overhead.ARRANGED_ROWS, 0.018)),
        (layer(CostKind.RESHAPE, (1, 20, 36), (1, 4, 60, 3)), (Overhead.MOVED, 0.02)),
        (layer(CostKind.RESHAPE, (1, 20, 36), (1, 4, 60, 3), motion="view"), (Overhead.VIEW, 0.24)),
        (layer(CostKind.RESHAPE, (1, 4, 60, 3), (1, 20, 36), motion="view"), (Overhead.VIEW, 0.24)),
        (layer(CostKind.RESHAPE, (1, 1, 1, 128), (1, 16, 2, 4), motion="elements"), (Overhead.SINGLE, 0.128)),
        (layer(CostKind.RESHAPE, (1, 1, 1, 128), (1, 16, 2, 4), motion="elements"), (Overhead.SINGLE_ROW, 0.032)),
        (layer(CostKind.RESHAPE, (1, 16, 64, 1), (1, 16, 8, 8), motion="view"), (Overhead.VIEW, 0.128)),
        (
            layer(CostKind.RESHAPE, (1, 1, 20, 64), (1, 20, 8, 8), motion="view", output_bits=16),
            (Overhead.VIEW, 0.32),
        ),
        (
            layer(CostKind.RESHAPE, (1, 2, 100), (1, 2, 100, 1), motion="elements", output_bits=16),
            (Overhead.SQUEEZED, 0.2),
        ),
    ],
)
def test_each_kind_of_layer_has_its_overhead(found: Layer, expected: tuple[Overhead, float]) -> None:
    found_here = dict(amounts(found, Overlap.ALL, load_latency("bayes-e")))
    assert expected in found_here.items()
    others = {Overhead.TABLE, Overhead.SINGLE, Overhead.DEEP_SINGLE, Overhead.SINGLE_ROW}
    others |= {Overhead.DEEP_ROW, Overhead.DEEP_HEAD_ROW}
    others |= {Overhead.SHUFFLED, Overhead.SHUFFLED_CHANNEL, Overhead.COLUMN, Overhead.COLUMNS}
    others |= {Overhead.JOINED, Overhead.JOINED_ROW, Overhead.DILATED, Overhead.DILATED_PHASE}
    others |= {Overhead.DILATED_PAIR, Overhead.DILATED_PAIRS, Overhead.POOL, Overhead.WINDOW, Overhead.LINE}
    others |= {Overhead.DEPTH_REDUCE, Overhead.SWAP, Overhead.SWAPPED, Overhead.AVERAGE, Overhead.AVERAGE_TAP}
    others |= {Overhead.LINES, Overhead.JOIN, Overhead.MOVE}
    others |= {Overhead.TURNED_ROW, Overhead.TURNED_PIXEL, Overhead.PLANE_ROW, Overhead.PLANE_PIXEL}
    others |= {Overhead.ARRANGED, Overhead.ARRANGED_PIXELS, Overhead.ARRANGED_ROWS}
    assert found_here.keys() - {expected[0]} <= others  # of what else such a layer does


@pytest.mark.parametrize(
    "free",
    [
        layer(CostKind.CONV, MAP, MAP),
        layer(CostKind.RESHAPE, (1, 10), (1, 1, 1, 10)),
        layer(CostKind.RESHAPE, (1, 65, 32), (1, 1, 65, 32), motion="view"),
        layer(CostKind.TRANSPOSE, (1, 32, 64), (1, 64, 32), motion="none"),
    ],
)
def test_what_hides_behind_other_work_costs_nothing(free: Layer) -> None:
    assert list(amounts(free, Overlap.ALL, load_latency("bayes-e"))) == []


def test_reducing_channels_takes_more_than_reducing_pixels() -> None:
    found = layer(CostKind.REDUCE, (1, 8, 8, 1), MAP)
    assert list(amounts(found, Overlap.ALL, load_latency("bayes-e"))) == [
        (Overhead.REDUCE, 1),
        (Overhead.DEPTH_REDUCE, 1.024),
    ]


def test_slopes_wait_and_take_time_per_element() -> None:
    latency = load_latency("bayes-e")
    slope = layer(CostKind.SLOPE, MAP, MAP)
    assert list(amounts(slope, Overlap.ALL, latency)) == [(Overhead.SLOPED, 1), (Overhead.SLOPE, 1.024)]


@pytest.mark.parametrize(
    ("march", "shape", "kernel", "us"),
    [
        ("bayes-e", (1, 16, 16, 16), 3, 36.8),
        ("bayes-e", (1, 8, 8, 72), 5, 199.0),
        ("bayes-e", (1, 16, 16, 16), 13, 129.0),
        ("bayes-e", (1, 4, 128, 16), 3, 31.0),
        ("bayes", (1, 8, 8, 128), 3, 184.4),
        ("bayes", (1, 16, 16, 16), 7, 57.4),
    ],
)
def test_pools_of_int16_take_time_per_channel_row_and_tap(
    march: str, shape: tuple[int, ...], kernel: int, us: float
) -> None:
    """Asked: latencies of branches with such a pool less those of branches without."""
    latency = load_latency(march)
    pool = layer(CostKind.POOL, shape, shape, input_bits=16, output_bits=16, kernel=(kernel, kernel), padded=True)
    assert overhead_us(pool, Overlap.GROUPS, latency) == pytest.approx(us, rel=0.08)
    single = layer(CostKind.POOL, shape, shape, input_bits=16, output_bits=16)
    assert overhead_us(single, Overlap.GROUPS, latency) == 0


def test_a_change_of_scale_waits_less_than_a_sum() -> None:
    """Eight networks compiled with and without them: 0.9 to 1.3 us each (80 of them), a sum 2.2."""
    scaled = layer(CostKind.ADD, MAP, MAP).model_copy(update={"op_type": "HzRequantize"})
    assert list(amounts(scaled, Overlap.ALL, load_latency("bayes-e"))) == [(Overhead.SCALE, 1)]
    for march in ("bayes-e", "bayes"):
        costs = load_latency(march).overheads
        assert costs[Overhead.SCALE].us < costs[Overhead.SUM].us


def test_what_computing_times_tell_is_free_where_a_march_does_not_name_it() -> None:
    """Depthwise layers in steps are dense on bernoulli2."""
    stepped = layer(CostKind.DEPTHWISE, (1, 4, 4, 16), MAP, kernel=(3, 3), strides=(2, 2))
    assert not list(amounts(stepped, Overlap.ALL, load_latency("bernoulli2")))


@pytest.mark.parametrize(
    ("march", "shape", "us"),
    [
        ("bayes-e", (1, 197, 197, 1), 21),
        ("bayes-e", (1, 144, 144, 4), 15),
        ("bayes-e", (1, 14, 14, 192), 19),
        ("bayes-e", (1, 4, 4, 128), 4),
        ("bayes-e", (1, 8, 8, 32), 2),
    ],
)
def test_a_change_of_layout_takes_time_per_pixel_and_per_row_of_each_channel(
    march: str, shape: tuple[int, ...], us: int
) -> None:
    """Asked of the original: 109 changes in front of layers on bayes-e and 60 on bayes, 16 and 20 % off in the mean."""
    latency = load_latency(march)
    turned, plain = layer(CostKind.LUT, shape, shape, rearranged=(0,)), layer(CostKind.LUT, shape, shape)
    more = overhead_us(turned, Overlap.ALL, latency) - overhead_us(plain, Overlap.ALL, latency)
    assert more == pytest.approx(us, rel=0.25)


@pytest.mark.parametrize(
    ("march", "shape", "dilation", "us"),
    [
        ("bayes-e", (1, 16, 16, 16), 4, 15),
        ("bayes-e", (1, 32, 32, 16), 4, 32),
        ("bayes-e", (1, 12, 12, 16), 6, 21),
        ("bayes-e", (1, 24, 24, 16), 3, 18),
        ("bayes-e", (1, 28, 28, 64), 2, 29),
        ("bayes-e", (1, 32, 32, 16), 2, 4),
        ("bayes", (1, 16, 16, 16), 4, 13),
        ("bayes", (1, 32, 32, 16), 4, 27),
        ("bernoulli2", (1, 8, 8, 16), 2, 5),
        ("bernoulli2", (1, 16, 16, 16), 2, 9),
    ],
)
def test_dilated_layers_take_what_their_pages_say(march: str, shape: tuple[int, ...], dilation: int, us: int) -> None:
    """Asked of the original: computing times in whole microseconds, a third off at most."""
    latency = load_latency(march)
    macs = math.prod(shape) * 9 * shape[-1]
    found = alone(CostKind.CONV, shape, shape, kernel=(3, 3), dilations=(dilation, dilation), macs=macs, leaves=False)
    wait = latency.fitted.layer_us
    cost = layer_costs(found, latency)[0]
    assert cost.compute_us + cost.overhead_us - wait == pytest.approx(us, rel=0.33)


def test_layers_between_which_nothing_stays_wait_for_each_change_of_layout_too() -> None:
    latency = load_latency("bayes-e")
    turned = layer(CostKind.ADD, MAP, MAP, MAP, converted=(0, 1))
    assert dict(amounts(turned, Overlap.NONE, latency)) == {Overhead.UNFUSED: 3, Overhead.SUM: 1}
    assert dict(amounts(turned, Overlap.ALL, latency)) == {Overhead.SUM: 1}


def test_single_elements_wait_for_ddr_where_their_vectors_do_not_fit() -> None:
    latency = load_latency("bayes-e")
    few = layer(CostKind.RESHAPE, (1, 1, 1, 8192), (1, 16, 2, 256), motion="elements")
    many = layer(CostKind.RESHAPE, (1, 1, 1, 8256), (1, 16, 2, 258), motion="elements")
    single = {
        (found, overlap): dict(amounts(found, overlap, latency)).get(Overhead.SINGLE_DDR, 0.0)
        for found in (few, many)
        for overlap in (Overlap.NONE, Overlap.BORDERS, Overlap.ALL)
    }
    assert list(single.values()) == [0.0, 0.0, 0.0, 0.0, 8.256, 0.0]
    assert vectors_above(Overlap.BORDERS, load_latency("bernoulli2")) == math.inf


def test_layers_that_are_not_fused_wait_for_each_other() -> None:
    assert list(amounts(layer(CostKind.CONV, MAP, MAP), Overlap.NONE, load_latency("bayes-e"))) == [
        (Overhead.UNFUSED, 1)
    ]


def test_small_tables_of_bernoulli2_are_looked_up_one_by_one() -> None:
    """8192 elements with rows padded to 8 pixels and channels to 4; a larger map goes through DDR."""
    latency = load_latency("bernoulli2")
    small, large = (1, 16, 16, 30), (1, 16, 16, 36)
    assert list(amounts(layer(CostKind.LUT, small, small), Overlap.ALL, latency)) == [(Overhead.SMALL_TABLE, 8.192)]
    assert list(amounts(layer(CostKind.LUT, large, large), Overlap.ALL, latency)) == [(Overhead.TABLE, 1)]


@pytest.mark.parametrize(
    ("shape", "elements"),
    [
        ((1, 4, 4, 128), 2048),
        ((1, 4, 4, 1), 128),
        ((1, 8, 1, 8), 256),
        ((1, 4, 4, 12), 384),
        ((1, 64, 4, 24), 8192),
        ((1, 28, 28, 1), 3584),
        ((1, 1, 65, 64), 4160),
        ((1, 3, 12, 16), 768),
        ((1, 7, 7, 32), 1568),
        ((1, 1, 1, 20), 32),
        ((1, 1, 1, 1024), 1024),
        ((1, 6, 6, 224), 8064),
        ((1, 8, 8, 136), 0),
    ],
)
def test_small_tables_pad_rows_or_the_channels_of_pixels(shape: tuple[int, ...], elements: int) -> None:
    """Asked of the original: computing times of 97 tables, 48 to 53 ns each element; 8704 go through DDR."""
    assert small_table_elements(layer(CostKind.LUT, shape, shape), load_latency("bernoulli2").small_tables) == elements


def test_each_block_of_channels_of_small_tables_begins_anew() -> None:
    """1 x 1 x 1024: 66 us, 64 ns each; 4 x 4 x 64 of as many elements: 52 us."""
    latency, pixel, square = load_latency("bernoulli2"), (1, 1, 1, 1024), (1, 4, 4, 64)
    assert list(amounts(layer(CostKind.LUT, pixel, pixel), Overlap.ALL, latency)) == [(Overhead.SMALL_TABLE, 1.28)]
    assert list(amounts(layer(CostKind.LUT, square, square), Overlap.ALL, latency)) == [(Overhead.SMALL_TABLE, 1.04)]


def test_int32_results_of_bernoulli2_leave_by_pixel_where_nothing_wants_planes() -> None:
    """Eight channels of a pixel leave together; what is dequantised and turned into NCHW drains at the general rate."""
    latency = load_latency("bernoulli2")
    plain = layer(CostKind.CONV, (1, 4, 9, 20), MAP, output_bits=32, leaves=True)
    found = [(Overhead.PLAIN, 1), (Overhead.PLAIN_PIXEL, 4 * 9 * 3 / 1000), (Overhead.PLAIN_ROW, 4 * 3 / 1000)]
    assert list(amounts(plain, Overlap.ALL, latency)) == found
    few = plain.model_copy(update={"output_shape": (1, 4, 9, 5)})
    assert [overhead for overhead, _ in amounts(few, Overlap.ALL, latency)] == [Overhead.PLAIN, Overhead.PLAIN_PIXEL]
    planar = plain.model_copy(update={"planar": True})
    assert list(amounts(planar, Overlap.ALL, latency)) == [(Overhead.PLANAR, 0.004)]


def test_an_overhead_adds_to_the_latency_of_its_subgraph() -> None:
    latency = load_latency("bayes-e")
    slower = latency.model_copy(
        update={"overheads": {**latency.overheads, Overhead.TABLE: Measured(us=100.0, networks=2)}}
    )
    table = layer(CostKind.LUT, MAP, MAP)
    inputs = (InputTensor(name="x0", dtype="int8", shape=MAP),)
    schedule = schedule_layers("s", inputs, ("y",), (table,), Memory(1 << 20, 1 << 20))
    found = [subgraph_us(schedule, layer_costs(schedule, data), data.fitted) for data in (latency, slower)]
    more = overhead_us(table, Overlap.ALL, slower) - overhead_us(table, Overlap.ALL, latency)
    assert found[1] - found[0] == pytest.approx(more)
    assert more > 90


def test_a_product_broadcast_over_channels_is_as_dear_as_one_of_two_maps() -> None:
    """``op_ln_c``: 440 us on bernoulli2 for 28 x 28 x 64, as ``bin_mul``; a factor per channel is a hundredth."""
    latency = load_latency("bernoulli2")
    shape = (1, 28, 28, 64)

    def computing(other: tuple[int, ...]) -> float:
        inputs = tuple(
            InputTensor(name=f"x{index}", dtype="int8", shape=size, inner=True)
            for index, size in enumerate((shape, other))
        )
        product = layer(CostKind.MUL, shape, shape, other)
        schedule = schedule_layers("s", inputs, ("y",), (product,), Memory(1 << 20, 1 << 20))
        return layer_costs(schedule, latency)[0].compute_us

    assert computing((1, 28, 28, 1)) == pytest.approx(computing(shape))
    assert computing((1, 28, 28, 1)) > 300 > 10 > computing((1, 1, 1, 64))


def test_a_maximum_of_five_dimensions_makes_its_own_the_last() -> None:
    """Asked on bayes-e: the larger of two maps of 16 x 12 x 8 takes 55 us; a mean has its own overhead."""
    shapes = ((1, 1, 8, 16, 12), (1, 2, 8, 16, 12))
    latency = load_latency("bayes-e")
    largest = layer(CostKind.REDUCE, *shapes).model_copy(update={"op_type": "HzQuantizedReduceMax"})
    expected = [(Overhead.DEEP_MAXIMUM, 1.536), (Overhead.DEEP_MAXIMUM_PLANE, 0.008)]
    assert list(amounts(largest, Overlap.GROUPS, latency)) == expected
    assert overhead_us(largest, Overlap.GROUPS, latency) == pytest.approx(55, rel=0.25)
    assert list(amounts(layer(CostKind.REDUCE, *shapes), Overlap.GROUPS, latency)) == [(Overhead.DEEP_REDUCE, 1.536)]


@pytest.mark.parametrize(("march", "us"), [("bayes", 11.7), ("bayes-e", 12.5)])
def test_maps_of_int16_whose_pixels_leave_joined_take_time_per_pixel(march: str, us: float) -> None:
    """Asked: 24 x 24 pixels behind a table, of two channels as of five; behind a convolution, as int32, nothing."""
    wide = {"motion": Motion.NONE, "leaves": True, "input_bits": 16, "output_bits": 16}
    latency = load_latency(march)
    for channels in (2, 5):
        joined = layer(CostKind.RESHAPE, (1, channels, 576), (1, channels, 24, 24), **wide)
        assert overhead_us(joined, Overlap.GROUPS, latency) == pytest.approx(us, rel=0.05)
    result = layer(CostKind.RESHAPE, (1, 5, 576), (1, 5, 24, 24), **wide | {"input_bits": 32, "output_bits": 32})
    assert overhead_us(result, Overlap.GROUPS, latency) < 0.2


def test_heads_of_a_product_take_their_columns() -> None:
    """Asked (``psa``, ``area``): one matrix takes none besides."""
    one = layer(CostKind.MATMUL, (1, 1, 64, 100), (1, 1, 64, 100), (1, 1, 100, 100))
    two = layer(CostKind.MATMUL, (1, 2, 64, 100), (1, 2, 64, 100), (1, 2, 100, 100))
    assert (product_columns(one), product_columns(two)) == (0.0, 0.2)
    assert product_columns(layer(CostKind.MATMUL, (1, 2, 64, 100), (1, 2, 64, 100))) == 0.0


@pytest.mark.parametrize(
    ("found", "us"),
    [
        (layer(CostKind.JOIN, (1, 64, 64, 24), (1, 64, 64, 12), (1, 64, 64, 12)), 11.19),
        (layer(CostKind.JOIN, (1, 64, 64, 36), (1, 64, 64, 12), (1, 64, 64, 24)), 17.34),
        (layer(CostKind.JOIN, (1, 64, 64, 36), (1, 64, 64, 24), (1, 64, 64, 12)), 0.0),
        (layer(CostKind.JOIN, (1, 16, 16, 24), (1, 16, 16, 12), (1, 16, 16, 12)), 2.92),
        (layer(CostKind.MOVE, (1, 64, 64, 12), (1, 64, 64, 16)), 5.0),
        (layer(CostKind.MOVE, (1, 64, 64, 16), (1, 64, 64, 12)), 0.0),
    ],
)
def test_maps_are_joined_channel_by_channel_where_a_part_begins_within_a_block(found: Layer, us: float) -> None:
    """Asked (``joins``), computing times on bayes-e; the last part may be of no whole blocks. A border is no part."""
    assert uneven_us(found, load_latency("bayes-e")) == pytest.approx(us, rel=0.15)
