"""What layers move at O0, against what the original stores and loads for single branches (``chains``, ``ops``)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.chips.latency import load_latency
from engine.compile.cost import layer_costs, moving_us, subgraph_us
from engine.compile.layers import Layer, Overlap
from engine.compile.motion import Motion
from engine.compile.passes import Passes, layer_passes
from engine.compile.schedule import InputTensor, Schedule
from engine.compile.unfused import unfused_costs, unfused_parts
from engine.ops.core.costs import CostKind

CONV = CostKind.CONV
BAYES, BAYES_E = "bayes", "bayes-e"


def layer(
    name: str, kind: CostKind, shape: tuple[int, ...], *sources: tuple[str, tuple[int, ...]], **more: Any
) -> Layer:
    return Layer(
        name=name,
        op_type=more.pop("op_type", kind.value),
        kind=kind,
        inputs=tuple(source for source, _ in sources),
        output=name,
        input_shapes=tuple(size for _, size in sources),
        output_shape=shape,
        **more,
    )


def conv(name: str, source: str, before: tuple[int, ...], channels: int, **more: Any) -> Layer:
    """A convolution with its packed weights (blocks of 16 x 8) and parameters of eight channels."""
    up = -(-channels // 16) * 16 * (-(-before[-1] // 8) * 8)
    weights = up * more.get("kernel", (1, 1))[0] ** 2
    given = {"macs": 1, "weight_bytes": weights, "parameter_bytes": 8 * (-(-channels // 8) * 8), "planar": True} | more
    shape = given.pop("shape", (*before[:-1], channels))
    return layer(name, CONV, shape, (source, before), **given)


def branch(
    shape: tuple[int, ...], *inner: Layer, last: str = "a", read: tuple[int, ...] = (), channels: int = 8
) -> Schedule:
    """A map that enters, a convolution of one tap, ``inner``, and one whose int32 result leaves."""
    read = read or shape
    first = conv("a", "x", shape, shape[-1])
    leaving = conv("z", last, read, channels, output_bits=32, leaves=True)
    entering = InputTensor(name="x", dtype="int8", shape=shape)
    layers = (first, *inner, leaving)
    groups = tuple((position,) for position in range(len(layers)))
    return Schedule(
        name="s", inputs=(entering,), outputs=("z",), layers=layers, groups=groups, overlap=Overlap.NONE, by_layer=True
    )


def moved(schedule: Schedule, march: str) -> tuple[int, int]:
    costs = layer_costs(schedule, load_latency(march))
    return sum(cost.traffic.loaded for cost in costs), sum(cost.traffic.stored for cost in costs)


CHAINS = {
    (16, 16, 16): {BAYES: (18.3, 33920, 45056), BAYES_E: (22.2, 33920, 45056)},
    (8, 8, 16): {BAYES: (12.9, 17536, 18432), BAYES_E: (13.6, 10368, 11264)},
    (32, 32, 16): {BAYES: (45.8, 132224, 180224), BAYES_E: (55.6, 132224, 180224)},
    (17, 17, 24): {BAYES: (39.9, 112704, 148992), BAYES_E: (42.0, 88512, 124800)},
    (33, 20, 32): {BAYES: (89.5, 281344, 378880), BAYES_E: (90.9, 220416, 317952)},
    (8, 8, 64): {BAYES: (30.7, 79360, 73728), BAYES_E: (25.8, 50688, 45056)},
    (4, 4, 128): {BAYES: (34.1, 117760, 65536), BAYES_E: (30.1, 89088, 36864)},
    (64, 64, 16): {BAYES: (153.4, 525440, 720896), BAYES_E: (189.5, 525440, 720896)},
}
"""Rows, pixels and channels of three convolutions of one tap in a row: microseconds, bytes loaded and stored."""


@pytest.mark.parametrize("march", [BAYES, BAYES_E])
@pytest.mark.parametrize("size", CHAINS)
def test_convolutions_in_a_row_move_what_the_original_moves(size: tuple[int, ...], march: str) -> None:
    shape = (1, *size)
    schedule = branch(shape, conv("b", "a", shape, size[-1]), last="b", channels=size[-1])
    latency = load_latency(march)
    us, loaded, stored = CHAINS[size][march]
    assert moved(schedule, march) == (loaded, stored)
    assert subgraph_us(schedule, layer_costs(schedule, latency), latency.fitted) == pytest.approx(us, rel=0.15)


MAP = (1, 16, 16, 16)
HALF = (1, 8, 8, 16)
ASKED = {
    "table": (layer("b", CostKind.LUT, MAP, ("a", MAP)), MAP, (26304, 28672), (26176, 28672)),
    "maximum": (
        layer("b", CostKind.POOL, HALF, ("a", MAP), kernel=(2, 2), strides=(2, 2), op_type="HzQuantizedMaxPool"),
        HALF,
        (19136, 16384),
        (16064, 13312),
    ),
    "maximum of 5 x 5": (
        layer("b", CostKind.POOL, MAP, ("a", MAP), kernel=(5, 5), op_type="HzQuantizedMaxPool"),
        MAP,
        (43712, 47104),
        (39104, 42496),
    ),
    "part": (layer("b", CostKind.MOVE, (1, 16, 16, 8), ("a", MAP)), (1, 16, 16, 8), (21056, 26624), (21056, 26624)),
}
"""Layers between two convolutions: what bayes and bayes-e load and store."""


@pytest.mark.parametrize("case", ASKED)
def test_other_layers_move_what_the_original_moves(case: str) -> None:
    inner, read, bayes, bayes_e = ASKED[case]
    for march, (loaded, stored) in ((BAYES, bayes), (BAYES_E, bayes_e)):
        found = moved(branch(MAP, inner, last="b", read=read), march)
        assert found[1] == stored
        assert found[0] == pytest.approx(loaded, abs=128)


@pytest.mark.parametrize(("march", "loaded", "stored"), [(BAYES, 44096, 40960), (BAYES_E, 43072, 40960)])
def test_products_join_their_maps_before_they_multiply_them(march: str, loaded: int, stored: int) -> None:
    other = conv("b", "a", MAP, 16)
    product = layer("c", CostKind.MUL, MAP, ("a", MAP), ("b", MAP))
    assert moved(branch(MAP, other, product, last="c"), march) == (loaded, stored)


def test_parts_within_a_block_are_cut_channel_by_channel() -> None:
    """Asked: 12 channels of 9 x 9 are laid out as planes, of which six are kept, and these become blocks again."""
    before, after = (1, 9, 9, 12), (1, 9, 9, 6)
    cut = layer("b", CostKind.MOVE, after, ("a", before))
    loaded, stored = moved(branch(before, cut, last="b", read=after), BAYES)
    assert stored == 18720
    assert loaded == pytest.approx(15552, abs=64)
    assert moved(branch(before, cut, last="b", read=after), BAYES_E)[1] == 36864


def test_steps_read_blocks_of_few_channels_which_only_the_array_leaves_by_itself() -> None:
    """Asked: a table in front of a convolution in steps takes 4.6 us on bayes, 2.3 in front of another."""
    latency = load_latency(BAYES)
    step = conv("c", "b", MAP, 16, shape=HALF, kernel=(3, 3), strides=(2, 2), planar=False)
    table = layer("b", CostKind.LUT, MAP, ("a", MAP))
    _, stepped, *_ = layer_passes(branch(MAP, table, step, last="c", read=HALF).layers, latency, ["x"])
    _, plain, *_ = layer_passes(branch(MAP, table, last="b").layers, latency, ["x"])
    assert plain == Passes(3, 4096, 4096)
    assert stepped == Passes(5, 2 * 4096, 4096 + 2 * 4096)


def test_further_parts_of_a_split_and_maps_of_rows_cost_passes_of_their_own() -> None:
    latency = load_latency(BAYES)
    first = conv("c", "b", (1, 16, 16, 8), 8)
    (further,) = layer_passes([first], latency, ["x"])
    (made,) = layer_passes([first], latency, ["b"])
    assert further is not None
    assert made is not None
    assert (further.transfers, made.transfers) == (6, 6)
    assert further.stored == made.stored == 2 * 2048
    mean = layer("m", CostKind.REDUCE, (1, 16, 1, 16), ("a", MAP))
    before, rows = layer_passes([conv("a", "x", MAP, 16), mean], latency, ["x"])
    assert before is not None
    assert rows is not None
    assert before.stored == 3 * 4096 + 16 * 4096 - 4096
    assert rows.loaded > 2 * 16 * 4096


def test_kinds_that_are_not_known_and_other_marches_have_no_passes() -> None:
    turned = layer("b", CostKind.RESHAPE, (1, 16, 256), ("a", MAP), motion=Motion.ELEMENTS)
    wide = layer("b", CostKind.ADD, MAP, ("a", MAP), ("x", MAP), input_bits=16)
    assert list(layer_passes([turned, wide], load_latency(BAYES))) == [None, None]
    assert list(layer_passes([conv("a", "x", MAP, 16)], load_latency("bernoulli2"))) == [None]


def test_heads_behind_a_table_are_turned_one_element_at_a_time() -> None:
    """Three networks on bayes: 64 x 16 of two heads take 155 us behind a table of 46, 36 x 32 167 behind 38."""
    shape, after = (1, 64, 16, 2), (1, 2, 16, 64)
    latency = load_latency(BAYES)
    table = layer("a", CostKind.LUT, shape, ("x", shape))
    turned = layer("b", CostKind.TRANSPOSE, after, ("a", shape), motion=Motion.ROWS)
    first, second = unfused_costs([table, turned], latency, ["x"])
    assert first.passes is not None
    assert first.passes.stored > 64 * 16 * 256
    assert second.moved == pytest.approx(630 * 2048)
    assert [kind for kind, _ in list(unfused_parts([table, turned], 256))[1]] == ["rows_turned_heads"]


def test_on_bernoulli2_layers_of_weights_wait_by_rows() -> None:
    """Asked: 24 x 24 x 8 that enters and is read in steps takes 21 us, of three channels inside 16 x 16 5.4 us; rows
    of 8 channels that enter take 0.28 us more than those of 16.
    """
    latency = load_latency("bernoulli2")
    before, after = (1, 24, 24, 8), (1, 12, 12, 16)
    step = conv("a", "x", before, 16, shape=after, kernel=(3, 3), strides=(2, 2), planar=False)
    few = conv("b", "a", after, 3, planar=False)
    entering = InputTensor(name="x", dtype="int8", shape=before)
    both = Schedule(
        name="s",
        inputs=(entering,),
        outputs=("b",),
        layers=(step, few),
        groups=((0,), (1,)),
        overlap=Overlap.NONE,
        by_layer=True,
    )
    first, second = layer_costs(both, latency)
    rows = latency.alone_by_rows
    assert rows is not None
    stepped = 24 * (rows.stepped_us + rows.entered_row_us)
    assert first.overhead_us == pytest.approx(rows.layer_us + rows.entering_us + stepped)
    assert second.overhead_us == pytest.approx(rows.layer_us + 12 * rows.made_row_us)


@pytest.mark.parametrize(
    ("march", "shape", "latency_us"),
    [
        # of two: a map of int8 whose rows become one row of each channel, and a plane whose pixels do
        (BAYES, (1, 64, 20, 20), 91.9),
        (BAYES_E, (1, 64, 20, 20), 259.3),
        (BAYES, (1, 16, 16, 1), 715.3),
        (BAYES_E, (1, 16, 16, 1), 866.0),
    ],
)
def test_maps_whose_rows_are_joined_pass_through_ddr(march: str, shape: tuple[int, ...], latency_us: float) -> None:
    """Asked (``heads``): the time of the reshape and of the layout change in front of it."""
    planes = shape[-1] > 1
    row = (1, shape[1], shape[2] * shape[3]) if planes else (1, 1, shape[1] * shape[2])
    motion, converted = (Motion.VIEW, (0,)) if planes else (Motion.ELEMENTS, ())
    joined = layer("b", CostKind.RESHAPE, row, ("a", shape), motion=motion, converted=converted)
    held = (1, *shape[2:], shape[1]) if planes else shape
    costs = layer_costs(branch(held, joined, last="b", read=row), load_latency(march))
    own = costs[1]
    moved = own.traffic.loaded / load_latency(march).fitted.load_gbps
    moved += own.traffic.stored / load_latency(march).fitted.store_gbps
    assert own.working_us + own.overhead_us + moved / 1000 == pytest.approx(latency_us, rel=0.09)


@pytest.mark.parametrize(
    ("march", "shape", "latency_us"),
    [
        (BAYES_E, (1, 32, 32, 3), 63.2),
        (BAYES_E, (1, 48, 48, 3), 94.0),
        (BAYES_E, (1, 64, 64, 3), 128.0),
        (BAYES_E, (1, 48, 32, 1), 52.0),
        (BAYES, (1, 32, 32, 3), 28.5),
        (BAYES, (1, 48, 48, 3), 49.0),
    ],
)
def test_images_whose_pixels_become_channels(march: str, shape: tuple[int, ...], latency_us: float) -> None:
    """Pages of SpaceToDepth of stems: a map that enters."""
    _, height, width, channels = shape
    after = (1, height // 2, width // 2, 4 * channels)
    folded = layer("b", CostKind.TRANSPOSE, after, ("x", shape), motion=Motion.FOLDED)
    latency = load_latency(march)
    schedule = branch(shape).model_copy(update={"layers": (folded,), "groups": ((0,),), "outputs": ("b",)})
    (cost,) = layer_costs(schedule, latency)
    taken = cost.working_us + cost.overhead_us + moving_us(cost, latency.fitted)
    assert taken == pytest.approx(latency_us, rel=0.15)


@pytest.mark.parametrize(("rows", "width", "shown"), [(400, 32, 33), (784, 32, 59), (256, 64, 34), (1600, 96, 272)])
def test_tokens_whose_elements_are_scaled_are_stored_once_more(rows: int, width: int, shown: float) -> None:
    """Times of the original's pages of dense layers in front of heads that are scaled, in microseconds."""
    tokens, latency = (1, 1, rows, width), load_latency(BAYES_E)
    first = conv("a", "x", tokens, width, planar=False)
    scaled = conv("b", "a", (1, rows, width, 1), 1, converted=(0,), leaves=True)
    schedule = Schedule(
        name="s",
        inputs=(InputTensor(name="x", dtype="int8", shape=tokens),),
        outputs=("b",),
        layers=(first, scaled),
        groups=((0,), (1,)),
        overlap=Overlap.NONE,
    )
    cost, _ = layer_costs(schedule, latency)
    assert cost.working_us + cost.overhead_us + moving_us(cost, latency.fitted) == pytest.approx(shown, rel=0.15)
