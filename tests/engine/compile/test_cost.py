"""Times of layers and subgraphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.chips.latency import Latency, load_latency
from engine.chips.latency.layout import Alignment
from engine.chips.latency.overhead import Overhead
from engine.compile.columns import is_column
from engine.compile.compiler import CompileOptions, memory_of
from engine.compile.cost import (
    Cost,
    aligned_shape,
    layer_costs,
    load_us,
    moving_us,
    store_us,
    subgraph_us,
    transfer_us,
)
from engine.compile.layers import MAXIMUM, Overlap
from engine.compile.motion import Motion
from engine.compile.packing import round_up
from engine.compile.schedule import InputTensor, Schedule, schedule_layers
from engine.compile.traffic import Traffic, joining_depth
from engine.ops.core.costs import CostKind
from engine.terms import OptimizeLevel
from tests.engine.compile.layers import AMPLE, alone, convolution, layer

MAP = (1, 28, 28, 64)
CONV = CostKind.CONV
UNSHAPED = (CostKind.ADD, CostKind.MUL, CostKind.JOIN, CostKind.MOVE, CostKind.RESIZE, CostKind.SLOPE)
"""Kinds of layers of which the cost follows from shapes alone."""


def test_dilated_layers_run_on_each_phase_apart() -> None:
    """28 x 28, dilation 2: four maps of 14 x 14, each 16 x 16 on bayes-e; dilation 14: 196 of 2 x 2, each 4 x 8."""

    def computing(step: int) -> float:
        one = alone(CostKind.CONV, MAP, MAP, kernel=(3, 3), dilations=(step, step), macs=1)
        return layer_costs(one, load_latency("bayes-e"))[0].compute_us

    times = [computing(step) for step in (1, 2, 14)]
    assert times[1] / times[0] == pytest.approx(4 * 16 * 16 / (28 * 32))
    assert times[2] / times[0] == pytest.approx(14 * 14 * 4 * 8 / (28 * 32))


def test_what_enters_a_subgraph_is_brought_into_the_layout_of_the_array() -> None:
    """bernoulli2: 28 x 28 x 64 takes some 38 us more to load, an image or a pixel nothing; elsewhere what enters the
    model alone is arranged.
    """
    latency = load_latency("bernoulli2")
    for inner in (False, True):
        entering = layer_costs(alone(CostKind.CONV, MAP, MAP, inner=inner), latency)[0]
        assert 30 < entering.arrange_us < 50
        for free in ((1, 64, 64, 3), (1, 1, 1, 512)):
            assert layer_costs(alone(CostKind.CONV, free, free, inner=inner), latency)[0].arrange_us == 0
    other = load_latency("bayes-e")
    times = [layer_costs(alone(CostKind.CONV, MAP, MAP, inner=inner), other)[0].entering_us for inner in (False, True)]
    assert times[0] > times[1] == 0


def test_what_the_cpu_leaves_is_arranged_once_and_maps_leave_channel_by_channel() -> None:
    """bayes-e: a map of 33 x 25 x 32 that a Resize of the CPU leaves takes 4 us on its page, 0.5 from a subgraph; one
    of 32 x 24 x 32 that the CPU takes 4, 1.3 inside.
    """
    latency, shape = load_latency("bayes-e"), (1, 33, 25, 32)
    first = convolution("y", ("x",)).model_copy(update={"input_shapes": (shape,), "output_shape": shape})
    again = layer(CostKind.ADD, shape, shape, shape).model_copy(update={"inputs": ("x", "y")})

    def entering(**left: bool) -> list[float]:
        tensors = (InputTensor(name="x", dtype="int8", shape=shape, inner=True, **left),)
        return [
            cost.entering_us
            for cost in layer_costs(schedule_layers("s", tensors, ("y",), (first, again), AMPLE), latency)
        ]

    assert entering(from_cpu=True) == [pytest.approx(4.7, rel=0.05), 0]
    assert entering(plain=True) == [0, 0]
    leaving = [alone(CONV, (1, 32, 24, 32), (1, 32, 24, 8), planar=planar) for planar in (True, False)]
    planes, pixels = (layer_costs(each, latency)[0].overhead_us for each in leaving)
    assert planes - latency.fitted.layer_us == pytest.approx(2.97, rel=0.05)
    assert pixels != planes


def test_loads_leave_one_block_of_channels_as_it_is_and_take_long_over_nv12() -> None:
    """Asked on bernoulli2 at 28 x 28: 4 to 16 channels are not arranged, 17 take what 32 do; NV12 0.85 ns per byte."""
    latency = load_latency("bernoulli2")

    def arranging(channels: int, **details: object) -> float:
        schedule = alone(CostKind.CONV, (1, 28, 28, 16), (1, 28, 28, channels), inner=False)
        image = schedule.inputs[0].model_copy(update=details)
        return layer_costs(schedule.model_copy(update={"inputs": (image,)}), latency)[0].arrange_us

    assert [arranging(channels) for channels in (4, 12, 16)] == [0, 0, 0]
    assert arranging(17) == arranging(32) == pytest.approx(21, rel=0.1)
    assert arranging(3, nv12=True) == pytest.approx(0.85 * 28 * 28 * 1.5 / 1000)


def test_weights_are_loaded_while_the_layers_before_work() -> None:
    """Asked on bernoulli2: weights of 72 KB behind a layer of 147 us cost nothing, those of single pixels all."""
    latency = load_latency("bernoulli2")
    first, second = convolution("a", ("x",)), convolution("b", ("a",))
    second = second.model_copy(update={"weight_bytes": 73_728})
    image = (InputTensor(name="x", dtype="int8", shape=first.output_shape, inner=True),)
    costs = [Cost(147.0, Traffic()), Cost(5.0, Traffic(loaded=73_728))]

    def takes(last: tuple[int, ...]) -> float:
        layers = (first, second.model_copy(update={"output_shape": last}))
        schedule = schedule_layers("s", image, ("b",), layers, memory_of(latency, CompileOptions()))
        return subgraph_us(schedule, costs, latency.fitted) - latency.fitted.fixed_us

    load = load_us(costs[1].traffic, latency.fitted)
    assert takes((1, 16, 16, 16)) == pytest.approx(152)
    assert takes((1, 1, 1, 16)) == pytest.approx(152 + load + 2 * latency.fitted.begin_us, abs=0.5)


def nanoseconds(
    march: str, kind: CostKind, shape: tuple[int, ...], *inputs: tuple[int, ...], **details: object
) -> float:
    """Computing time in nanoseconds of a layer alone."""
    return layer_costs(alone(kind, shape, *inputs, **details), load_latency(march))[0].compute_us * 1000


def test_computing_times_are_amounts_over_rates() -> None:
    """On bayes-e a map of 28 x 28 x 64 is computed as 28 x 32 x 64."""
    fitted = load_latency("bayes-e").fitted
    elements = 28 * 28 * 64
    half = (1, 14, 14, 64)
    expected = {
        (CostKind.ADD, MAP, MAP, MAP): elements / fitted.elementwise_rate,
        (CostKind.MUL, MAP, MAP, MAP): elements / fitted.multiply_rate,
        (CostKind.MUL, MAP, MAP, (1, 1, 1, 64)): elements / fitted.elementwise_rate,
        (CostKind.MUL, MAP, MAP, (1, 28, 28, 1)): elements / fitted.multiply_rate,
        (CostKind.RESIZE, MAP, half): elements / fitted.resize_rate,
        (CostKind.REDUCE, (1, 1, 1, 64), MAP): elements / fitted.pool_rate,
    }
    for (kind, *shapes), time in expected.items():
        assert nanoseconds("bayes-e", kind, *shapes) == pytest.approx(time)
    window = {"kernel": (3, 3)}
    assert nanoseconds("bayes-e", CostKind.POOL, MAP, MAP, **window) == pytest.approx(elements / fitted.window_rate)
    strided = nanoseconds("bayes-e", CostKind.POOL, half, MAP, strides=(2, 2), **window)
    assert strided == pytest.approx((elements + elements / 4) / fitted.pool_rate)


def test_convolutions_cost_their_padded_products_or_what_they_move() -> None:
    fitted = load_latency("bayes-e").fitted
    macs = 28 * 32 * 64 * 64 * 9
    window = {"kernel": (3, 3), "macs": 1}
    assert nanoseconds("bayes-e", CostKind.CONV, MAP, MAP, **window) == pytest.approx(macs / fitted.mac_rate)
    wide = nanoseconds("bayes-e", CostKind.CONV, MAP, MAP, input_bits=16, **window)
    split = 28 * 28 * 64 / fitted.int16_rate
    assert wide == pytest.approx(macs * fitted.int16_factor / fitted.mac_rate + split)
    thin = (1, 28, 28, 2)
    moved = 4 * 28 * 28 / fitted.activation_rate
    least = 28 * 32 * 16 * 8 / fitted.mac_rate
    assert nanoseconds("bayes-e", CostKind.CONV, thin, thin, macs=1) == pytest.approx(max(moved, least))
    grouped = nanoseconds("bayes-e", CostKind.GROUPED, MAP, MAP, group=32, **window)
    assert grouped == pytest.approx(28 * 32 * 64 * 16 * 9 / fitted.mac_rate)
    up = nanoseconds("bayes-e", CostKind.TRANSPOSED, MAP, (1, 14, 14, 64), strides=(2, 2), **window)
    assert up == pytest.approx(28 * 32 * 64 * 64 * 3 / fitted.mac_rate)


@pytest.mark.parametrize(
    ("rows", "pixels", "shown"), [(256, 384, 59), (197, 64, 8), (192, 192, 22), (64, 384, 15), (100, 256, 15)]
)
def test_maps_of_one_channel_are_scaled_half_a_vector_of_a_row_at_a_time(rows: int, pixels: int, shown: float) -> None:
    """Computing times of the original's pages, in microseconds."""
    shape = (1, rows, pixels, 1)
    assert nanoseconds("bayes-e", CostKind.CONV, shape, shape) / 1000 == pytest.approx(shown, rel=0.07)


def test_products_of_maps_are_convolutions_of_one_row_per_matrix() -> None:
    """On bayes-e a row counts as four; second operands are turned first, and what enters the model is moved besides."""
    fitted = load_latency("bayes-e").fitted
    shapes = (1, 2, 5, 3), (1, 2, 5, 7), (1, 2, 7, 3)
    macs, turned = 4 * 8 * 8 * 32, 4 * 8 * 16 * 16
    expected = 2 * (1000 * fitted.matrix_us + (macs + fitted.turning * turned) / fitted.product_rate)
    assert nanoseconds("bayes-e", CostKind.MATMUL, *shapes, macs=210) == pytest.approx(expected)
    given = load_latency("bernoulli2").fitted
    plain = 2 * 1000 * given.matrix_us + 210 / given.mac_rate
    assert nanoseconds("bernoulli2", CostKind.MATMUL, *shapes, macs=210) == pytest.approx(plain)
    entering = nanoseconds("bayes-e", CostKind.MATMUL, *shapes, macs=210, inner=False)
    assert entering - expected > 2 * 5 * 16 * (fitted.left_ns + fitted.product_ns)  # ten rows, channels padded to 16


def test_wide_steps_are_computed_two_pixels_at_a_time_or_each() -> None:
    """Asked: 16 x 16 results of steps of four are 31 x 31 on the page, 21 x 21 of steps of three 61 x 61."""
    fitted = load_latency("bayes-e").fitted
    for step, size, rows, pixels in ((4, 16, 32, 32), (3, 21, 64, 64), (2, 32, 32, 32)):
        source, result = (1, 64, 64, 16), (1, size, size, 64)
        conv = nanoseconds("bayes-e", CONV, result, source, kernel=(3, 3), strides=(step, step), macs=1)
        assert conv == pytest.approx(rows * pixels * 64 * 16 * 9 / fitted.mac_rate)
        unit = nanoseconds(
            "bayes-e", CostKind.DEPTHWISE, (1, size, size, 16), source, kernel=(3, 3), strides=(step, step)
        )
        assert unit == pytest.approx(rows * pixels * 16 * 9 / fitted.depthwise_rate)


def test_bernoulli2_computes_the_rows_of_odd_steps_and_even_windows_with_one_more_row_and_column() -> None:
    """Asked: 5 x 5 in steps of 5 take the time of 12 x 56 results, 6 x 6 that of 28 x 28 results of 7 x 7."""
    fitted = load_latency("bernoulli2").fitted
    for window, step, side, size, rows, pixels, taps in ((5, 5, 60, 12, 12, 56, 25), (6, 6, 64, 10, 28, 32, 49)):
        source, result = (1, side, side, 16), (1, size, size, 64)
        details = {"kernel": (window, window), "strides": (step, step), "macs": 1}
        conv = nanoseconds("bernoulli2", CONV, result, source, **details)
        assert conv == pytest.approx(rows * pixels * 64 * 16 * taps / fitted.mac_rate)


def test_windows_over_few_channels_are_computed_on_four_of_them() -> None:
    """Asked: three channels of 25 taps load 28 x 4 weights per filter on bayes-e, 26 x 4 on bayes; a row keeps 8."""
    for march, taps in (("bayes-e", 28), ("bayes", 26)):
        latency = load_latency(march)
        image, result = (1, 64, 64, 3), (1, 64, 64, 64)
        conv = nanoseconds(march, CONV, result, image, kernel=(5, 5), macs=1)
        assert conv == pytest.approx(64 * 64 * 64 * taps * 4 / latency.fitted.mac_rate)
        narrow = nanoseconds(march, CONV, result, image, kernel=(1, 7), macs=1)
        assert narrow == pytest.approx(64 * 64 * 64 * 7 * 8 / latency.fitted.mac_rate)


@pytest.mark.parametrize(
    ("shape", "aligned"),
    [
        ((2, 28, 28, 64), (2, 28, 32, 64)),
        ((1, 3, 9, 17), (1, 4, 16, 24)),
        ((1, 1, 1, 10), (1, 6, 7, 16)),
        ((5, 7), (5, 7)),
    ],
)
def test_dimensions_are_rounded_up_when_they_are_computed(shape: tuple[int, ...], aligned: tuple[int, ...]) -> None:
    alignment = Alignment(height=2, width=16, out_channels=8, in_channels=4, single_pixel=(6, 7))
    assert aligned_shape(shape, alignment) == aligned


def test_a_subgraph_takes_its_busiest_engine_and_the_exposed_part_of_the_others() -> None:
    fitted = load_latency("bayes-e").fitted
    schedule = alone(CostKind.ADD, MAP, MAP, MAP)
    traffic = Traffic(int(fitted.load_gbps * 4000), int(fitted.store_gbps * 1000))
    cost = Cost(10.0, traffic, Traffic(), 0.0, 0.0, 2.0)
    tiles = ((traffic.loaded + traffic.stored) / fitted.pipeline_bytes) ** fitted.pipeline_power
    fixed = fitted.fixed_us + 2.0
    transfer = load_us(traffic, fitted) + store_us(traffic, fitted)
    assert transfer == pytest.approx(5.0, rel=1e-3)
    assert subgraph_us(schedule, [cost], fitted) == pytest.approx(fixed + 10 + transfer / (1 + tiles))
    apart = schedule.model_copy(update={"overlap": Overlap.NONE})
    assert fitted.alone_us is not None
    assert subgraph_us(apart, [cost], fitted) == pytest.approx(fitted.alone_us + 2.0 + 10 + transfer)
    detour = replace(cost, detour=traffic)
    borders = schedule.model_copy(update={"overlap": Overlap.BORDERS})
    assert subgraph_us(borders, [detour], fitted) == pytest.approx(fixed + 10 + transfer)
    assert transfer_us(traffic, fitted) == transfer


def test_blocks_of_pixels_are_loaded_when_all_are_stored() -> None:
    """24 x 24 pixels into blocks of three (bayes-e, asked): 4,644,864 bytes are stored, then loaded."""
    latency = load_latency("bayes-e")
    schedule = alone(CostKind.TRANSPOSE, (1, 72, 72, 8), (1, 24, 24, 72), motion=Motion.BLOCKS, leaves=False)
    moved = {"y": 4_644_864}
    groups = schedule.model_copy(update={"overlap": Overlap.GROUPS, "relaid": moved, "outputs": ()})
    (cost,) = layer_costs(groups, latency)
    assert cost.traffic.stored == moved["y"]
    loaded = load_us(Traffic(loaded=moved["y"]), latency.fitted)
    assert cost.overhead_us == pytest.approx(loaded + 72 * 72 * 16 / 1e3 * latency.overheads[Overhead.BLOCKS].us)
    assert subgraph_us(groups, [cost], latency.fitted) == pytest.approx(1270, rel=0.1)


def test_small_blocks_of_pixels_wait_for_their_passes() -> None:
    """Asked on bayes-e: 6 x 4 pixels of 32 channels into blocks of two take 4.4 us longer than their elements."""
    latency = load_latency("bayes-e")
    schedule = alone(CostKind.TRANSPOSE, (1, 12, 8, 8), (1, 6, 4, 32), motion=Motion.BLOCKS)
    groups = schedule.model_copy(update={"overlap": Overlap.GROUPS, "relaid": {"y": 2304}, "outputs": ()})
    waits = [layer_costs(each, latency)[0].overhead_us for each in (groups, schedule)]
    assert waits[0] - waits[1] == pytest.approx(4.4)


def test_tables_work_among_themselves_beside_the_array() -> None:
    """Asked networks on bernoulli2: two tables follow one another, whatever the array does meanwhile."""
    latency = load_latency("bernoulli2")
    layers = [convolution("a", ("x",))]
    for name, source in (("t", "x"), ("u", "x")):
        table = layer(CostKind.LUT, layers[0].output_shape, layers[0].output_shape)
        layers.append(table.model_copy(update={"inputs": (source,), "output": name, "name": name}))
    image = (InputTensor(name="x", dtype="int8", shape=layers[0].output_shape, inner=True),)
    schedule = schedule_layers("s", image, ("a", "t", "u"), tuple(layers), memory_of(latency, CompileOptions()))
    costs = [Cost(time, Traffic()) for time in (30.0, 20.0, 25.0)]
    assert subgraph_us(schedule, costs, latency.fitted) - latency.fitted.fixed_us == pytest.approx(45)


def test_channels_of_a_pixel_are_looked_up_while_weights_are_loaded() -> None:
    """Asked on bernoulli2: the table of a pixel of 1024 channels takes 13.5 us more, though it computes 66."""
    latency = load_latency("bernoulli2")
    pixel = (1, 1, 1, 1024)
    dense = layer(CostKind.CONV, pixel, pixel, macs=1 << 20, weight_bytes=1 << 20)
    dense = dense.model_copy(update={"inputs": ("x",), "output": "a", "name": "a"})
    table = layer(CostKind.LUT, pixel, pixel).model_copy(update={"inputs": ("a",), "output": "t", "name": "t"})
    entering = (InputTensor(name="x", dtype="int8", shape=pixel, inner=True),)
    memory = memory_of(latency, CompileOptions())
    taken = []
    for layers, output in (((dense,), "a"), ((dense, table), "t")):
        schedule = schedule_layers("s", entering, (output,), layers, memory)
        costs = [Cost(4.0, Traffic(1 << 20)), Cost(66.0, Traffic())]
        taken.append(subgraph_us(schedule, costs[: len(layers)], latency.fitted))
    assert taken[1] - taken[0] == pytest.approx(13.5, abs=4)


def test_groups_that_share_a_memory_follow_one_another() -> None:
    """Each moves a third of ``pipeline_bytes``: its tiles overlap less than those of three thirds together."""
    fitted = load_latency("bayes-e").fitted.model_copy(update={"begin_us": 0.0, "ahead_share": 0.0})
    one = alone(CostKind.ADD, MAP, MAP, MAP)
    cost = Cost(10.0, Traffic(int(fitted.pipeline_bytes / 3)))
    three = one.model_copy(update={"layers": one.layers * 3, "groups": ((0,), (1,), (2,))})
    apart = three.model_copy(update={"overlap": Overlap.GROUPS})
    alone_us, together = (subgraph_us(schedule, [cost] * n, fitted) for schedule, n in ((one, 1), (three, 3)))
    assert subgraph_us(apart, [cost] * 3, fitted) == pytest.approx(3 * alone_us - 2 * fitted.fixed_us)
    assert together < subgraph_us(apart, [cost] * 3, fitted)


@pytest.mark.parametrize(("size", "channels", "measured"), [(8, 16, 1.42), (64, 16, 4.33), (16, 64, 7.53)])
def test_a_convolution_more_takes_what_does_not_hide_behind_the_one_before(
    size: int, channels: int, measured: float
) -> None:
    """Asked on bayes-e: chains of two to eight equal layers of 3 x 3, microseconds for each one more."""
    latency = load_latency("bayes-e")

    def chain_us(count: int) -> float:
        names = [f"c{position}" for position in range(count + 1)]
        one = convolution("c", (), size, channels)
        macs, weights = size * size * channels * channels * 9, 9 * channels * channels
        details = {"kernel": (3, 3), "macs": macs, "weight_bytes": weights, "parameter_bytes": 8 * channels}
        shapes = {"input_shapes": (one.output_shape,)}
        layers = [
            one.model_copy(update={**details, **shapes, "name": name, "inputs": (before,), "output": name})
            for before, name in pairwise(names)
        ]
        image = (InputTensor(name="c0", dtype="int8", shape=one.output_shape, inner=True),)
        schedule = schedule_layers("s", image, (names[-1],), layers, memory_of(latency, CompileOptions()))
        return subgraph_us(schedule, layer_costs(schedule, latency), latency.fitted)

    assert (chain_us(8) - chain_us(2)) / 6 == pytest.approx(measured, rel=0.2)


def test_loads_run_ahead_as_far_as_there_is_room() -> None:
    """A long layer hides the load behind it, and of later ones what ``ahead_bytes`` hold."""
    fitted = load_latency("bayes-e").fitted.model_copy(update={"begin_us": 1.0, "ahead_share": 0.5, "load_gbps": 1.0})
    layers = [convolution(name, (before,)) for before, name in pairwise("xabc")]
    sized = [layer.model_copy(update={"weight_bytes": 4000}) for layer in layers]
    image = (InputTensor(name="x", dtype="int8", shape=(1, 16, 16, 16), inner=True),)
    schedule = schedule_layers("s", image, ("c",), sized, memory_of(load_latency("bayes-e"), CompileOptions()))
    costs = [Cost(100.0, Traffic(4000)), Cost(0.0, Traffic(4000)), Cost(0.0, Traffic(4000))]
    times = [
        subgraph_us(schedule, costs, fitted.model_copy(update={"ahead_bytes": float(ahead)}))
        for ahead in (0, 3000, 10_000)
    ]
    assert times[0] - times[1] == pytest.approx(3.0)
    assert times[1] - times[2] == pytest.approx(2.0)


def test_inputs_are_arranged_by_blocks_of_channels_while_weights_are_loaded() -> None:
    """Asked on bayes-e, pages less multiply-accumulates: 128 x 128 pixels take 8.5 to 10.7 us up to 8 channels."""
    latency = load_latency("bayes-e")
    times = {
        channels: layer_costs(alone(CostKind.CONV, (1, 128, 128, 16), (1, 128, 128, channels), inner=False), latency)[
            0
        ].entering_us
        for channels in (1, 3, 8, 16)
    }
    assert times[1] == times[3] == times[8] == pytest.approx(9.6, rel=0.12)
    assert times[16] == pytest.approx(2 * times[8])


def test_what_a_table_reads_from_ddr_is_stored_before() -> None:
    """bernoulli2: the layers up to such a table and those from it on overlap among themselves alone."""
    latency = load_latency("bernoulli2")
    memory = memory_of(latency, CompileOptions())
    before, behind = convolution("a", ("x",), size=40), convolution("b", ("t",), size=40)
    table = layer(CostKind.LUT, (1, 40, 40, 16), (1, 40, 40, 16)).model_copy(update={"inputs": ("a",), "output": "t"})
    image = (InputTensor(name="x", dtype="int8", shape=(1, 40, 40, 16), inner=True),)
    schedule = schedule_layers("s", image, ("b",), (before, table, behind), memory)
    assert schedule.spilled == ("a",)
    apart = [Cost(10.0, Traffic(40_000, 30_000))] * 3
    whole, parts = (
        subgraph_us(each, apart, latency.fitted) - latency.fitted.fixed_us
        for each in (schedule.model_copy(update={"spilled": ()}), schedule)
    )
    first = alone(CONV, MAP, MAP).model_copy(update={"overlap": Overlap.ALL})
    two = first.model_copy(update={"layers": first.layers * 2, "groups": ((0, 1),)})
    one_us, two_us = (
        subgraph_us(each, apart[:count], latency.fitted) - latency.fitted.fixed_us
        for count, each in enumerate((first, two), 1)
    )
    assert parts == pytest.approx(one_us + two_us)
    assert whole < parts


def test_pools_compute_beside_the_array_where_groups_follow_one_another() -> None:
    fitted = load_latency("bayes-e").fitted
    layers = (*alone(CONV, MAP, MAP).layers, *alone(CostKind.POOL, MAP, MAP).layers)
    schedule = alone(CONV, MAP, MAP).model_copy(update={"layers": layers, "groups": ((0, 1),)})
    costs = [Cost(10.0, Traffic(int(fitted.pipeline_bytes))), Cost(4.0, Traffic())]
    load = load_us(costs[0].traffic, fitted)
    serial = subgraph_us(schedule, costs, fitted) - fitted.fixed_us
    beside = subgraph_us(schedule.model_copy(update={"overlap": Overlap.GROUPS}), costs, fitted) - fitted.fixed_us
    assert serial == pytest.approx(load + 14 / 2, rel=1e-3)  # one tile more: half of the rest is exposed
    assert beside == pytest.approx(serial)
    array = [Cost(load, costs[0].traffic), costs[1]]
    longer = subgraph_us(schedule, array, fitted) - subgraph_us(
        schedule.model_copy(update={"overlap": Overlap.GROUPS}), array, fitted
    )
    assert longer == pytest.approx(4 - 4 / 2, rel=1e-3)


def test_layers_of_weights_wait_for_them() -> None:
    latency = load_latency("bayes-e")
    slower = latency.model_copy(update={"fitted": latency.fitted.model_copy(update={"layer_us": 10.0})})
    more = {
        kind: layer_costs(alone(kind, MAP, MAP), slower)[0].overhead_us
        - layer_costs(alone(kind, MAP, MAP), latency)[0].overhead_us
        for kind in (CostKind.CONV, CostKind.DEPTHWISE, CostKind.TRANSPOSED, CostKind.LUT, CostKind.RESHAPE)
    }
    waiting = pytest.approx(10.0 - latency.fitted.layer_us)
    assert list(more.values()) == [waiting, waiting, waiting, 0.0, 0.0]


def test_draining_hides_behind_computing_as_far_as_the_march_lets_it() -> None:
    fitted = load_latency("bayes-e").fitted
    one = alone(CostKind.ADD, MAP, MAP, MAP)
    schedule = one.model_copy(update={"layers": one.layers * 2})
    costs = [Cost(10.0, Traffic(), drain_us=4.0), Cost(1.0, Traffic(), drain_us=5.0)]
    fixed = fitted.fixed_us
    working = 11.0 + fitted.drain_apart * (15.0 - 11.0) + fitted.drain_exposed * 5.0
    assert subgraph_us(schedule, costs, fitted) == pytest.approx(fixed + working)


def test_cores_wait_for_each_other_between_groups() -> None:
    fitted = load_latency("bayes-e").fitted
    one = alone(CostKind.ADD, MAP, MAP, MAP).model_copy(update={"groups": ((0,), (1,), (2,))})
    costs = [Cost(1.0, Traffic())]
    more = subgraph_us(one.on_cores(2), costs, fitted) - subgraph_us(one, costs, fitted)
    assert more == pytest.approx(2 * fitted.sync_us)


def test_results_of_more_than_a_byte_drain() -> None:
    """Asked on bayes-e: a table of int16 of 64 x 64 x 21 that leaves as NCHW takes 48.7 us, 37 without what drains."""
    fast = load_latency("bayes-e")
    half = layer_costs(alone(CostKind.LUT, MAP, MAP, input_bits=16, output_bits=16, planar=True), fast)[0]
    assert half.drain_us == layer_costs(alone(CostKind.CONV, MAP, MAP, output_bits=32, planar=True), fast)[0].drain_us
    latency = load_latency("bernoulli2")
    fitted = latency.fitted
    narrow, wide = (
        layer_costs(alone(CostKind.CONV, MAP, MAP, output_bits=bits, planar=True), latency)[0] for bits in (8, 32)
    )
    assert narrow.drain_us == 0
    assert wide.drain_us == pytest.approx(28 * 28 * 64 / fitted.wide_rate / 1000)
    plain = alone(CostKind.CONV, MAP, MAP, output_bits=32)
    assert layer_costs(plain, latency)[0].drain_us == 0


def test_what_enters_the_model_takes_more_than_what_the_model_computes() -> None:
    """On bayes arranging the input is all that it takes; on bernoulli2, where all are arranged, ``entry_us``."""
    for march in ("bayes-e", "bayes", "bernoulli2"):
        latency = load_latency(march)
        schedules = [alone(CONV, (1, 1, 1, 16), (1, 1, 1, 32), inner=inner) for inner in (False, True)]
        first, second = (subgraph_us(one, layer_costs(one, latency), latency.fitted) for one in schedules)
        assert first - second > latency.fitted.entry_us - 1e-9 >= -1e-9
        assert first > second


ABSURD_NS = 150.0
"""Per element that is read or computed: twice what the slowest measured layer takes (int32 pixels made rows)."""
_SIZES = st.integers(1, 96)


@pytest.mark.parametrize("march", ["bayes-e", "bayes", "bernoulli2"])
@pytest.mark.parametrize("motion", [None, *Motion])
@given(kind=st.sampled_from(UNSHAPED), height=_SIZES, width=_SIZES, channels=_SIZES, grown=st.integers(0, 2))
def test_no_layer_is_absurd(
    march: str, motion: Motion | None, kind: CostKind, height: int, width: int, channels: int, grown: int
) -> None:
    """Times are positive, grow with every dimension and stay within what elements and fixed costs can explain.

    Queries, keys and values of one row or column are tokens, which are turned element by element, and a column that
    leaves is moved pixel by pixel, unlike maps.
    """
    assume(not (motion is Motion.TURNED and (height, width, 0)[grown] == 1))
    assume(not (grown == 1 and march != "bernoulli2" and is_column((1, height, width, channels))))
    latency = load_latency(march)
    if motion is not None:
        kind = CostKind.TRANSPOSE

    def time(*shape: int) -> float:
        one = alone(kind, (1, *shape), (1, *shape), motion=motion or Motion.ROWS)
        return subgraph_us(one, layer_costs(one, latency), latency.fitted)

    shape = [height, width, channels]
    larger = [2 * size if axis == grown else size for axis, size in enumerate(shape)]
    padded = height * round_up(width, 16) * round_up(channels, 16)
    assert 0 < time(*shape) <= time(*larger) * 1.001
    assert time(*shape) < 30 + 2 * padded * ABSURD_NS / 1000


def batched(kind: CostKind, maps: int, **changed: object) -> Schedule:
    shape = (maps, 8, 8, 8)
    return alone(kind, shape, shape).model_copy(update={"overlap": Overlap.GROUPS, **changed})


def test_each_further_map_of_a_batch_is_loaded_and_stored_by_itself() -> None:
    """Asked: convolutions and tables of 8 x 8 x 8, batches of 1, 4 and 8, from outside to outside: 8.8, 15.9 and 27.2
    us on bayes-e, 7.3, 12.3 and 21.4 on bayes; one map as large 8.8, 11.6 and 14.4, 7.3, 8.8 and 11.1.
    """
    for march in ("bayes-e", "bayes"):
        latency = load_latency(march)
        free = latency.model_copy(update={"fitted": latency.fitted.model_copy(update={"map_us": 0.0})})

        def added(schedule: Schedule, latency: Latency = latency, free: Latency = free) -> float:
            costs = layer_costs(schedule, latency)
            return subgraph_us(schedule, costs, latency.fitted) - subgraph_us(schedule, costs, free.fitted)

        assert added(batched(CostKind.LUT, 1)) == 0
        assert added(batched(CostKind.LUT, 8)) == pytest.approx(2 * 7 * latency.fitted.map_us, rel=0.01)
        assert added(batched(CostKind.LUT, 8, overlap=Overlap.NONE)) == 0
        pixels = alone(CostKind.LUT, (8, 1, 1, 64), (8, 1, 1, 64)).model_copy(update={"overlap": Overlap.GROUPS})
        assert added(pixels) == 0


def test_layers_of_weights_of_int16_begin_several_loads() -> None:
    """Asked on bayes-e: five convolutions of 8 x 8 x 8 and less take 26.4 us in int16, 9.7 with one load each."""
    latency = load_latency("bayes-e")
    (conv,) = alone(CostKind.CONV, (1, 8, 8, 8), (1, 8, 8, 8)).layers
    conv = conv.model_copy(update={"weight_bytes": 64, "input_bits": 16, "output_bits": 16})
    once = latency.fitted.model_copy(update={"int16_loads": 1.0})
    schedule = alone(CostKind.CONV, (1, 8, 8, 8), (1, 8, 8, 8)).model_copy(
        update={"layers": (conv,), "overlap": Overlap.GROUPS}
    )
    costs = layer_costs(schedule, latency)
    more = subgraph_us(schedule, costs, latency.fitted) - subgraph_us(schedule, costs, once)
    assert more == pytest.approx((latency.fitted.int16_loads - 1) * latency.fitted.begin_us, rel=0.05)


def test_pools_of_int16_take_their_rows_at_o0_too() -> None:
    """Asked on bayes-e: a pool of 16 x 16 x 16 by two computes 20 us, and takes 26 with what it waits for."""
    latency = load_latency("bayes-e")
    pool = alone(CostKind.POOL, (1, 8, 8, 16), (1, 16, 16, 16)).model_copy(update={"overlap": Overlap.NONE})
    (layer_,) = pool.layers
    window: dict[str, object] = {"kernel": (2, 2), "strides": (2, 2)}
    narrow = pool.model_copy(update={"layers": (layer_.model_copy(update=window),)})
    bits = {"input_bits": 16, "output_bits": 16}
    wide = pool.model_copy(update={"layers": (layer_.model_copy(update=window | bits),)})
    narrow_us, wide_us = (layer_costs(each, latency)[0].overhead_us for each in (narrow, wide))
    assert wide_us - narrow_us == pytest.approx(26, rel=0.35)


def test_averages_take_time_per_pixel_and_tap_at_o0_and_o2() -> None:
    """Asked: windows of 5 x 5 over 16 x 16 pixels compute 18.6 us on bayes-e and 15.1 on bayes, of 8 channels as of 64;
    of 3 x 3 and maxima of 3 x 3 less than one.
    """
    for march, us in (("bayes-e", 18.6), ("bayes", 15.1)):
        latency = load_latency(march)
        for channels in (8, 64):
            shape = (1, 16, 16, channels)
            average = alone(CostKind.POOL, shape, shape, leaves=False)
            (layer_,) = average.layers
            large = layer_.model_copy(update={"kernel": (5, 5)})
            fused = average.model_copy(update={"layers": (large,), "overlap": Overlap.GROUPS})
            (cost,) = layer_costs(fused, latency)
            assert cost.overhead_us + cost.compute_us == pytest.approx(us, rel=0.06)
            apart = average.model_copy(update={"layers": (large,), "overlap": Overlap.NONE, "by_layer": True})
            assert layer_costs(apart, latency)[0].compute_us == pytest.approx(us, rel=0.06)
            for small in ({"kernel": (3, 3)}, {"kernel": (3, 3), "op_type": MAXIMUM}):
                layers = (layer_.model_copy(update=small),)
                (cost,) = layer_costs(fused.model_copy(update={"layers": layers}), latency)
                assert cost.overhead_us + cost.compute_us < 1.5


def test_a_product_of_two_maps_waits_for_the_filter_that_turns_its_operand() -> None:
    """Networks of no fit on bayes-e (147): 9.2 / 21.1 % without, 8.7 / 20.1 with it."""
    latency = load_latency("bayes-e")
    free = latency.fitted.model_copy(update={"begin_us": 0.0})
    product = alone(CostKind.MATMUL, (1, 2, 16, 16), (1, 2, 16, 8), (1, 2, 8, 16))
    schedule = product.model_copy(update={"overlap": Overlap.GROUPS})
    costs = layer_costs(schedule, latency)
    waits = subgraph_us(schedule, costs, latency.fitted) - subgraph_us(schedule, costs, free)
    assert waits == pytest.approx(latency.fitted.begin_us, rel=0.01)


@pytest.mark.parametrize(
    ("march", "shape", "work_us"),
    [("bayes-e", (1, 128, 64, 3), 20.0), ("bayes-e", (1, 64, 96, 3), 15.0), ("bayes", (1, 48, 48, 3), 7.0)],
)
def test_pixels_of_few_channels_that_become_channels_are_worked_on(
    march: str, shape: tuple[int, ...], work_us: float
) -> None:
    """Asked (``folded``): computing times of SpaceToDepth on images; whole blocks of channels take none besides."""
    _, height, width, channels = shape
    folded = (1, height // 2, width // 2, 4 * channels)
    latency = load_latency(march)
    image = alone(CostKind.TRANSPOSE, folded, shape, motion=Motion.FOLDED, leaves=False)
    (cost,) = layer_costs(image.model_copy(update={"overlap": Overlap.GROUPS}), latency)
    assert cost.overhead_us == pytest.approx(work_us, rel=0.25)
    even = alone(CostKind.TRANSPOSE, (1, 16, 16, 64), (1, 32, 32, 16), motion=Motion.FOLDED, leaves=False)
    (cost,) = layer_costs(even.model_copy(update={"overlap": Overlap.GROUPS}), latency)
    assert cost.overhead_us == 0


@pytest.mark.parametrize(
    ("march", "heads", "tokens", "columns", "us"),
    [
        ("bayes-e", 8, 50, 32, 93.0),
        ("bayes-e", 3, 17, 16, 22.0),
        ("bayes", 2, 50, 48, 138.0),
        ("bayes", 4, 17, 16, 52.0),
    ],
)
def test_keys_that_were_cut_out_of_stacked_rows_are_turned_slowly_where_layers_run_alone(
    march: str, heads: int, tokens: int, columns: int, us: float
) -> None:
    """Pages of draws (``columns_o0``, 7 a march): other keys of this size take 4 to 15 us."""
    latency = load_latency(march)
    first = layer(CostKind.RESHAPE, (tokens, heads, columns), (1, tokens, 1, heads * columns), motion=Motion.COLUMNS)
    cut = first.model_copy(update={"output": "cut"})
    keys = layer(CostKind.TRANSPOSE, (1, heads, columns, tokens), (1, heads, tokens, columns))
    turned = keys.model_copy(update={"inputs": ("cut",)})
    inputs = (InputTensor(name="x0", dtype="int8", shape=first.input_shapes[0], inner=True),)
    memory = memory_of(latency, CompileOptions(optimize_level=OptimizeLevel.O0))
    schedule = schedule_layers("s", inputs, ("y",), (cut, turned), memory)
    cost = layer_costs(schedule, latency)[1]
    assert cost.working_us + cost.overhead_us + moving_us(cost, latency.fitted) == pytest.approx(us, rel=0.15)


@pytest.mark.parametrize(("march", "us"), [("bayes-e", 200.0), ("bayes", 60.0)])
def test_columns_are_turned_before_they_are_added_up_where_layers_run_alone(march: str, us: float) -> None:
    """Asked (``sepa`` at O0), 12 x 8 x 24: the turning is part of the time of the sum here; of a mean there is none."""
    latency, column = load_latency(march), (1, 96, 1, 24)
    found = layer(CostKind.REDUCE, (1, 1, 1, 24), column)
    inputs = (InputTensor(name="x0", dtype="int8", shape=column, inner=True),)
    memory = memory_of(latency, CompileOptions(optimize_level=OptimizeLevel.O0))

    def waits(op_type: str) -> float:
        one = found.model_copy(update={"op_type": op_type})
        return layer_costs(schedule_layers("s", inputs, ("y",), (one,), memory), latency)[0].overhead_us

    assert latency.alone is not None
    elements_us = latency.alone.added_element_ns * 96 * 24 / 1e3
    alone_us = latency.alone.added_us + latency.alone.added_pixel_ns * 96 / 1e3 + elements_us
    assert waits("HzSQuantizedReduceSum") - waits("HzSQuantizedReduceMean") == pytest.approx(alone_us)
    assert 0 < alone_us < us


@pytest.mark.parametrize(("kernel", "steps"), [(3, 1), (5, 25 / 9), (7, 25 / 9 + 1), (9, 50 / 9), (13, 75 / 9)])
def test_maxima_go_by_windows_of_five_and_whole_blocks_of_channels(kernel: int, steps: float) -> None:
    """Pages of 48 x 32 pixels of 6 channels on bayes-e: 5, 9 and 13 pixels a side take 4, 7 and 10 us."""
    fitted, shape = load_latency("bayes-e").fitted, (1, 48, 32, 6)
    one = layer(CostKind.POOL, shape, shape, kernel=(kernel, kernel)).model_copy(update={"op_type": MAXIMUM})
    inputs = (InputTensor(name="x0", dtype="int8", shape=shape, inner=True),)
    cost = layer_costs(schedule_layers("s", inputs, ("y",), (one,), AMPLE), load_latency("bayes-e"))[0]
    assert cost.compute_us == pytest.approx(steps * 48 * 32 * 8 / fitted.window_rate / 1e3)


@pytest.mark.parametrize(("parts", "us", "loaded"), [((33, 31), 79, 5632), ((34, 30), 79, 5632), ((9, 16), 18, 1280)])
def test_bernoulli2_joins_parts_of_no_whole_blocks_by_a_convolution(
    parts: tuple[int, int], us: float, loaded: int
) -> None:
    """Asked: 64 x 64 pixels; the last part may end anywhere."""
    latency, shapes = load_latency("bernoulli2"), [(1, 64, 64, part) for part in parts]
    join = layer(CostKind.JOIN, (1, 64, 64, sum(parts)), *shapes)
    inputs = [InputTensor(name=f"x{at}", dtype="int8", shape=shape, inner=True) for at, shape in enumerate(shapes)]
    load = latency.weight_load.model_copy(update={"joins_by_filter": False})
    plain = latency.model_copy(update={"weight_load": load})
    found, without = (
        layer_costs(schedule_layers("s", inputs, (), (join,), AMPLE), each)[0] for each in (latency, plain)
    )
    assert found.compute_us == pytest.approx(us, rel=0.1)
    assert found.traffic.loaded - without.traffic.loaded == loaded
    assert joining_depth(join, latency) == sum(round_up(part, 4) for part in parts)
    whole = layer(CostKind.JOIN, (1, 64, 64, 64), (1, 64, 64, 36), (1, 64, 64, 28))
    assert joining_depth(whole, latency) == 0


def test_bernoulli2_arranges_rows_of_16_pixels() -> None:
    """Asked: 16 rows of 2, 8 or 16 pixels of 64 channels load in 20 us, of 40 pixels in 33."""
    latency = load_latency("bernoulli2")

    def us(width: int) -> float:
        shape = (1, 16, width, 64)
        return layer_costs(alone(CostKind.CONV, (1, 16, width, 8), shape, inner=False), latency)[0].arrange_us

    assert us(2) == us(8) == us(16) == pytest.approx(18, rel=0.05)
    assert us(40) == pytest.approx(28, rel=0.05)


def test_windows_compute_a_single_pixel_in_a_row_on_bernoulli2() -> None:
    """Pages: 384 channels by 5 x 5 to 384 take 118 us, by one tap as much as their multiplications."""
    pixel, fitted = (1, 1, 1, 384), load_latency("bernoulli2").fitted

    def us(side: int) -> float:
        schedule = alone(CostKind.CONV, pixel, pixel, kernel=(side, side), macs=384 * 384 * side * side)
        return layer_costs(schedule, load_latency("bernoulli2"))[0].compute_us

    assert us(5) == pytest.approx(118, rel=0.05)
    assert us(1) == pytest.approx(384 * 384 / fitted.mac_rate / 1e3, rel=0.1)
