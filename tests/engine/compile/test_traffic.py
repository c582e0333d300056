"""Bytes that layers move over DDR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.overhead import Overhead
from engine.compile.cost import layer_costs
from engine.compile.layers import MAXIMUM, Layer, Overlap, Part
from engine.compile.memory import Memory
from engine.compile.motion import Motion
from engine.compile.schedule import InputTensor, Schedule, schedule_layers
from engine.compile.traffic import Traffic, layer_traffic
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import AMPLE, alone, convolution

MAP = (1, 28, 28, 64)
STRIPS = load_latency("bernoulli2").strips


def moved(march: str, schedule: Schedule) -> Traffic:
    ((straight, detour),) = layer_traffic(schedule, load_latency(march))
    return straight + detour


def loaded(march: str, schedule: Schedule) -> int:
    return moved(march, schedule).loaded


@pytest.mark.parametrize(
    ("march", "table", "product", "total"), [("bayes-e", 896, 4096, 2176), ("bayes", 1024, 8192, 4352)]
)
def test_parameters_are_those_of_the_corpus(march: str, table: int, product: int, total: int) -> None:
    """``op_act_*``, ``bin_mul_*`` and ``opx4_mul_*`` beside ``opx4_add_*``, at 28 x 28 x 64."""
    nothing = loaded(march, alone(CostKind.MOVE, MAP, MAP))
    assert loaded(march, alone(CostKind.LUT, MAP, MAP, parameter_bytes=256)) - nothing == table
    both = loaded(march, alone(CostKind.JOIN, MAP, MAP, MAP))
    assert loaded(march, alone(CostKind.MUL, MAP, MAP, MAP)) - both == product
    assert loaded(march, alone(CostKind.ADD, MAP, MAP, MAP)) - both == total


@pytest.mark.parametrize(("shape", "more"), [((1, 1, 1, 64), 1024), ((1, 28, 28, 1), 0)])
def test_averages_over_all_pixels_load_parameters(shape: tuple[int, ...], more: int) -> None:
    nothing = loaded("bayes-e", alone(CostKind.MOVE, shape, MAP))
    assert loaded("bayes-e", alone(CostKind.REDUCE, shape, MAP)) - nothing == more


@pytest.mark.parametrize(
    ("channels", "padded"),
    [(2, 4), (5, 8), (6, 8), (8, 8), (12, 16), (17, 32), (21, 32), (49, 64), (72, 72), (100, 100), (196, 196)],
)
def test_channels_of_results_that_stay_nhwc_are_padded_as_pixels_of_a_row(channels: int, padded: int) -> None:
    """Asked on bayes-e: bytes stored by subgraphs of seeds 41 and 4129 to 4136, 100 columns of a product among them."""
    plain = alone(CostKind.CONV, (1, 9, 9, channels), (1, 9, 9, 16), output_bits=32, planar=False)
    assert moved("bayes-e", plain).stored == 9 * 9 * padded * 4


def test_rows_of_bytes_are_padded_as_those_of_int32_that_hold_them() -> None:
    """Asked on bayes-e: what leaves as it is (33 x 33 x 12: 16 bytes a pixel) and as NCHW besides (64 bytes a row)."""
    shape = (1, 33, 33, 12)
    both = alone(CostKind.LUT, shape, shape, planar=True, copied=True)
    assert moved("bayes-e", both).stored == 33 * 33 * 16 + 12 * 33 * 64
    half = alone(CostKind.LUT, (1, 24, 24, 5), (1, 24, 24, 5), input_bits=16, output_bits=16)
    assert moved("bayes-e", half).stored == 24 * 24 * 16


def test_what_another_subgraph_leaves_pixel_by_pixel_is_loaded_so() -> None:
    """Asked on bayes-e: 64 x 64 x 24 loads 32 bytes a pixel; whole blocks of channels take no time besides."""
    latency = load_latency("bayes-e")
    taken = {}
    for channels in (24, 32):
        schedule = alone(CostKind.CONV, (1, 64, 64, channels), (1, 64, 64, channels))
        plain = schedule.inputs[0].model_copy(update={"plain": True})
        read = schedule.model_copy(update={"inputs": (plain,)})
        costs = [layer_costs(one, latency)[0] for one in (schedule, read)]
        assert costs[1].traffic.loaded - loaded("bayes-e", schedule) == 64 * 64 * (32 - channels)
        taken[channels] = costs[1].overhead_us - costs[0].overhead_us
    assert taken == {24: pytest.approx(4.096 * latency.overheads[Overhead.READ_PIXEL].us), 32: 0}


def test_products_of_bernoulli2_load_258_bytes_per_channel() -> None:
    one = loaded("bernoulli2", alone(CostKind.MUL, MAP, MAP, MAP))
    assert one - loaded("bernoulli2", alone(CostKind.JOIN, MAP, MAP, MAP)) == 258 * 64


def test_small_tables_of_bernoulli2_load_their_program_and_large_ones_nothing() -> None:
    small = (1, 8, 8, 16)
    more = loaded("bernoulli2", alone(CostKind.LUT, small, small, parameter_bytes=256))
    assert more - loaded("bernoulli2", alone(CostKind.MOVE, small, small)) == 29184
    table = alone(CostKind.LUT, MAP, MAP, parameter_bytes=256)
    assert loaded("bernoulli2", table) == loaded("bernoulli2", alone(CostKind.MOVE, MAP, MAP))


@pytest.mark.parametrize(("march", "channels"), [("bayes-e", 16), ("bayes", 16), ("bernoulli2", 8)])
def test_int32_results_that_stay_nhwc_pad_their_channels_and_not_their_rows(march: str, channels: int) -> None:
    """``tail_softmax_c``: 28 x 28 x 64 x 4 bytes; SSD heads of 9 and 12 channels."""
    stored = {
        shape: moved(march, alone(CostKind.CONV, shape, MAP, output_bits=32)).stored for shape in (MAP, (1, 16, 16, 9))
    }
    assert stored == {MAP: 28 * 28 * 64 * 4, (1, 16, 16, 9): 16 * 16 * (16 // channels * channels) * 4}
    planar = moved(march, alone(CostKind.CONV, MAP, MAP, output_bits=32, planar=True))
    assert planar.stored == 28 * 32 * 64 * 4


def chain(*names: str, **details: object) -> tuple[Layer, ...]:
    """Convolutions of 16 x 16 x 16, each of the one before."""
    layers = [convolution(name, (before,)) for before, name in pairwise(("x", *names))]
    return tuple(layer.model_copy(update=details) for layer in layers)


MEMORYLESS = Memory(0, 0)
SQUARE = 16 * 16 * 16


def subgraph(layers: Sequence[Layer], memory: Memory, **tensor: object) -> Schedule:
    content = {"name": "x", "dtype": "int8", "shape": (1, 16, 16, 16), "inner": True, **tensor}
    return schedule_layers("s", (InputTensor.model_validate(content),), (layers[-1].output,), tuple(layers), memory)


def test_spilled_maps_go_once_out_and_once_in_per_group_that_reads_them() -> None:
    layers = (*chain("a", "b"), convolution("c", ("b", "a")))
    by_name = dict(zip("abc", layer_traffic(subgraph(layers, MEMORYLESS), load_latency("bayes-e")), strict=True))
    assert [detour for _, detour in by_name.values()] == [
        Traffic(0, SQUARE),
        Traffic(SQUARE, SQUARE),
        Traffic(2 * SQUARE, 0),
    ]
    straight = [moved for moved, _ in by_name.values()]
    assert straight == [Traffic(SQUARE, 0), Traffic(0, 0), Traffic(0, SQUARE)]


def test_an_input_that_two_layers_read_is_loaded_once() -> None:
    layers = (*chain("a"), convolution("b", ("a", "x")))
    first, second = layer_traffic(subgraph(layers, AMPLE), load_latency("bayes-e"))
    assert (first[0].loaded, second[0].loaded) == (SQUARE, 0)


def test_each_part_of_a_map_that_leaves_is_stored() -> None:
    """Asked on bernoulli2 (4129-5): three parts of 8 x 64 x 2 leave, two of them channel by channel: 1024 bytes and 992
    for six planes, 64 short of the 3296 loaded.
    """
    shape, part = (1, 8, 64, 2), (1, 2, 64, 2)
    parts = (
        Part(output="b", output_shape=part, planar=True, leaves=True),
        Part(output="c", output_shape=(1, 4, 64, 2), planar=True, leaves=True),
        Part(output="d", output_shape=part),
    )
    cut = alone(CostKind.MOVE, part, shape, parts=parts, inner=True)
    assert moved("bernoulli2", cut) == Traffic(3296 - 64, 1024)


def test_narrow_maps_of_other_subgraphs_are_loaded_with_rows_of_eight_pixels() -> None:
    """``yolov8_decode``: 336 rows of four pixels; loads of bernoulli2 arrange them in any case."""
    narrow = (1, 336, 4, 8)
    of_user, of_other = (alone(CostKind.MOVE, narrow, narrow, inner=inner) for inner in (False, True))
    assert (loaded("bayes-e", of_user), loaded("bayes-e", of_other)) == (336 * 16 * 8, 336 * 8 * 8)
    assert loaded("bernoulli2", of_user) == loaded("bernoulli2", of_other)


def test_images_of_luma_and_half_as_many_chromas_are_dense() -> None:
    layers = chain("a", input_shapes=((1, 6, 10, 3),))
    image = subgraph(layers, AMPLE, shape=(1, 6, 10, 3), nv12=True)
    assert layer_traffic(image, load_latency("bayes-e"))[0][0].loaded == 90


def test_every_core_loads_all_weights_but_shares_those_of_a_single_pixel() -> None:
    latency = load_latency("bayes")
    for size, copies in ((2, 2), (1, 1)):
        shape = (1, size, size, 16)
        layer = {"weight_bytes": 4096, "output_shape": shape, "input_shapes": (shape,)}
        schedule = subgraph(chain("a", **layer), AMPLE, shape=shape)
        (one,), (two,) = (layer_traffic(on, latency) for on in (schedule, schedule.on_cores(2)))
        assert two[0].loaded - one[0].loaded == (copies - 1) * 4096


def test_wide_inputs_load_more_parameters() -> None:
    """48 bytes per channel and 896 once on bayes-e; 84 and 768, rounded up to 256, on bayes."""
    more = {}
    for march in ("bayes-e", "bayes"):
        narrow, wide = (
            alone(CostKind.CONV, MAP, MAP, macs=1, parameter_bytes=512, input_bits=bits) for bits in (8, 16)
        )
        more[march] = loaded(march, wide) - 2 * loaded(march, narrow) + 512
    assert more == {"bayes-e": 48 * 64 + 896, "bayes": 24 * 256}


def test_one_tap_over_many_channels_loads_more_of_them() -> None:
    """10 channels are packed in blocks of 16, and loaded in blocks of 32 where there are 32 inputs or more.

    Asked (8 x 8 and 4 x 4 pixels, 24 to 128 channels into 16): 512 bytes more from 32 channels, 1024 from 64.
    """
    found = {}
    for depth in (31, 32):
        shapes = (1, 8, 8, 10), (1, 8, 8, depth)
        without, conv = (alone(CostKind.CONV, *shapes, macs=1, weight_bytes=size) for size in (0, 1600))
        found[depth] = loaded("bayes-e", conv) - loaded("bayes-e", without)
    assert found == {31: 1600, 32: 3200}


@pytest.mark.parametrize(
    ("march", "channels", "kernel", "step", "per_filter"),
    [
        ("bayes-e", 3, (3, 3), 2, 48),
        ("bayes-e", 3, (3, 3), 1, 72),
        ("bayes-e", 20, (7, 7), 1, 1040),
        ("bayes-e", 20, (3, 3), 1, 216),
        ("bayes-e", 3, (1, 7), 1, 56),
        ("bayes-e", 1, (5, 5), 1, 112),
        ("bayes", 3, (3, 3), 2, 40),
        ("bayes", 3, (3, 3), 1, 72),
        ("bayes", 3, (5, 5), 1, 104),
    ],
)
def test_channels_of_windows_are_padded_to_four_where_that_is_less(
    march: str, channels: int, kernel: tuple[int, int], step: int, per_filter: int
) -> None:
    """Asked, exact: so many weights of each of 32 filters are loaded (of 3 x 3 in steps of one in most networks)."""
    source, result = (1, 32, 32, channels), (1, 32, 32, 32)
    size = 32 * kernel[0] * kernel[1] * -(-channels // 8) * 8
    conv, pool = (
        alone(kind, result, source, kernel=kernel, strides=(step, step), macs=1, weight_bytes=weights)
        for kind, weights in ((CostKind.CONV, size), (CostKind.GROUPED, 0))
    )
    assert loaded(march, conv) - loaded(march, pool) == 32 * per_filter


@pytest.mark.parametrize(
    ("side", "width", "deep", "channels", "filters", "taps"),
    [
        (5, 32, 16, 8, 8, 28),
        (5, 32, 16, 24, 24, 28),
        (5, 32, 16, 40, 40, 28),
        (5, 32, 16, 16, 16, 25),
        (5, 12, 16, 8, 8, 28),
        (5, 8, 16, 8, 16, 25),
        (4, 32, 16, 8, 8, 16),
        (7, 32, 16, 24, 24, 52),
        (3, 32, 32, 8, 8, 12),
        (3, 32, 32, 24, 32, 9),
        (3, 32, 8, 8, 16, 9),
        (3, 8, 16, 8, 16, 9),
    ],
)
def test_channels_of_windows_are_padded_to_half_a_block_where_that_is_less_to_compute(
    side: int, width: int, deep: int, channels: int, filters: int, taps: int
) -> None:
    """Asked on bayes-e: windows between two convolutions of one tap, bytes exact."""
    layer = alone(
        CostKind.CONV,
        (1, 32, width, channels),
        (1, 32, width, deep),
        kernel=(side, side),
        weight_bytes=-(-channels // 16) * 16 * side * side * deep,
        parameter_bytes=channels * 8,
        macs=1,
    )
    nothing = loaded("bayes-e", alone(CostKind.MOVE, (1, 32, width, deep), (1, 32, width, deep)))
    assert loaded("bayes-e", layer) - nothing - channels * 8 == filters * taps * deep


def test_maps_pass_a_layer_of_their_own_on_the_way_into_bernoulli2() -> None:
    """17 bytes per channel, padded to 16, and 256; none before a depthwise layer, none per channel of images and of
    single pixels, whose bytes are padded to 32; they load the 256 only where results leave as int32.
    """
    shape, image, pixel = (1, 8, 16, 20), (1, 8, 16, 3), (1, 1, 1, 20)
    assert loaded("bernoulli2", alone(CostKind.CONV, shape, shape)) == 8 * 16 * 32 + 17 * 32 + 256
    assert loaded("bernoulli2", alone(CostKind.CONV, shape, image)) == 8 * 16 * 4 + 256
    assert loaded("bernoulli2", alone(CostKind.DEPTHWISE, shape, shape)) == 8 * 16 * 32 + 256
    assert loaded("bernoulli2", alone(CostKind.CONV, pixel, pixel)) == 32
    assert loaded("bernoulli2", alone(CostKind.CONV, pixel, pixel, output_bits=32)) == 32 + 256


@pytest.mark.parametrize(
    ("source", "result", "total"),
    [
        ((1, 1, 1, 8), (1, 1, 1, 5), 864),
        ((1, 1, 1, 24), (1, 1, 1, 7), 864),
        ((1, 1, 1, 32), (1, 1, 1, 10), 1440),
        ((1, 1, 16, 16), (1, 1, 16, 48), 2704),
        ((1, 4, 24, 16), (1, 4, 24, 16), 3216),
        ((1, 4, 64, 24), (1, 4, 64, 72), 11872),
        ((1, 16, 16, 1), (1, 16, 16, 1), 1600),
    ],
)
def test_filters_of_one_tap_with_int32_results_are_padded_to_32_channels_on_bernoulli2(
    source: tuple[int, ...], result: tuple[int, ...], total: int
) -> None:
    """Asked, exact (24 subgraphs of networks): to 64 where they read a single pixel."""
    conv = alone(CostKind.CONV, result, source, output_bits=32, macs=1, weight_bytes=1, parameter_bytes=8 * result[-1])
    assert loaded("bernoulli2", conv) == total


@pytest.mark.parametrize(
    ("shape", "more", "stored"),
    [((1, 8, 16, 16), 16384, 0), ((1, 16, 32, 16), 65536 + 65536, 65536), ((1, 16, 16, 64), 258 * 64, 0)],
)
def test_small_products_of_bernoulli2_are_computed_in_eight_passes(
    shape: tuple[int, ...], more: int, stored: int
) -> None:
    """Asked: of up to 8192 elements, within 256 bytes of what is loaded and 2048 of what is stored."""
    product, joined = (moved("bernoulli2", alone(kind, shape, shape, shape)) for kind in (CostKind.MUL, CostKind.JOIN))
    assert (product.loaded - joined.loaded, product.stored - joined.stored) == (more, stored)


def test_dilated_layers_of_bernoulli2_pass_through_ddr_phase_by_phase() -> None:
    """28 x 28 x 64 in four phases of 14 x 16: the corpus stores one map more for each such layer."""
    near, far = (moved("bernoulli2", alone(CostKind.CONV, MAP, MAP, kernel=(3, 3), dilations=(d, d))) for d in (1, 2))
    phases = 4 * 14 * 16 * 64
    assert (far.loaded - near.loaded, far.stored - near.stored) == (2 * phases, phases)


def test_a_convolution_that_adds_a_map_loads_parameters_of_the_sum() -> None:
    """Asked (8 x 8 x 16 and 64 on bayes-e and bayes): 8 bytes per channel."""
    for march, more in (("bayes-e", 8 * 64), ("bayes", 8 * 64), ("bernoulli2", 0)):
        one, both = (alone(CostKind.CONV, MAP, *[MAP] * count, macs=1) for count in (1, 2))
        maps = loaded(march, alone(CostKind.JOIN, MAP, MAP, MAP)) - loaded(march, alone(CostKind.MOVE, MAP, MAP))
        assert loaded(march, both) - loaded(march, one) == maps + more


@pytest.mark.parametrize(
    ("kind", "channels", "more"),
    [(CostKind.ADD, 16, 384), (CostKind.ADD, 64, 1856), (CostKind.MUL, 16, 256), (CostKind.MUL, 64, 1728)],
)
def test_a_mean_over_channels_is_broadcast_by_parameters(kind: CostKind, channels: int, more: int) -> None:
    """Asked (8 x 8 x 8 to 128 on bayes-e): exact for differences but for 8 channels, within 130 bytes for products."""
    shape, one = (1, 8, 8, channels), (1, 8, 8, 1)
    mean, total = alone(CostKind.REDUCE, one, shape), alone(kind, shape, shape, one)
    reduced = mean.layers[0].model_copy(update={"output": "mean"})
    summed = total.layers[0].model_copy(update={"inputs": ("x0", "mean")})
    schedule = schedule_layers("s", mean.inputs, ("y",), (reduced, summed), AMPLE)
    each = {CostKind.ADD: 34, CostKind.MUL: 64}[kind]
    assert layer_traffic(schedule, load_latency("bayes-e"))[1][0].loaded == each * channels + more


def test_shuffled_channels_of_bernoulli2_load_a_convolution() -> None:
    """Asked, exact for 16, 32 and 64 channels."""
    for channels, more in ((16, 640), (32, 1280), (64, 4608)):
        shape = (1, 8, 8, channels)
        shuffled = alone(CostKind.TRANSPOSE, shape, shape, motion="planes")
        assert loaded("bernoulli2", shuffled) - loaded("bernoulli2", alone(CostKind.MOVE, shape, shape)) == more


def test_strips_load_their_columns_rounded_outwards() -> None:
    """112 columns are 0 to 64 and 48 to 112, with a halo of a pixel on either side: 128 are loaded."""
    shape = (1, 4, 112, 16)
    narrow = alone(CostKind.CONV, shape, shape, output_bits=8)
    wide = alone(CostKind.CONV, shape, shape, output_bits=32)
    wide = schedule_layers("s", wide.inputs, wide.outputs, wide.layers, replace(AMPLE, strips=STRIPS))
    assert loaded("bernoulli2", wide) - loaded("bernoulli2", narrow) == 4 * (128 - 112) * 16


@pytest.mark.parametrize(
    ("kind", "shape", "stored", "besides"),
    [
        (CostKind.CONV, (1, 4, 4, 16), 2048, 0),
        (CostKind.CONV, (1, 33, 33, 16), 33792, 0),
        (CostKind.ADD, (1, 24, 16, 4), 3072, 0),
        (CostKind.MUL, (1, 32, 32, 16), 32768, 16384),
        (CostKind.LUT, (1, 33, 17, 16), 33792, 16896),
        (CostKind.LUT, (1, 13, 9, 16), 6656, 0),
    ],
)
def test_int8_results_of_bernoulli2_leave_in_rows_of_32_pixels(
    kind: CostKind, shape: tuple[int, ...], stored: int, besides: int
) -> None:
    """Asked, stores exact: tables of more than 8192 elements and products are turned on another way through DDR; loads
    within 64 bytes (192 per channel for small tables).
    """
    planar, inner = (moved("bernoulli2", alone(kind, shape, shape, planar=flag)) for flag in (True, False))
    assert planar.stored == stored
    assert planar.loaded - inner.loaded == 196 * shape[-1] - 320 + besides


def test_even_windows_of_bernoulli2_load_one_more_row_and_column() -> None:
    """Asked, exact: 6 x 6 windows load the weights of 7 x 7."""
    sizes = (36 * 16 * 64, 0)
    conv, without = (alone(CostKind.CONV, MAP, MAP, kernel=(6, 6), macs=1, weight_bytes=size) for size in sizes)
    assert loaded("bernoulli2", conv) - loaded("bernoulli2", without) == 49 * 16 * 64


def test_inputs_of_few_channels_have_four_on_bernoulli2() -> None:
    """Asked: a map of 64 x 64 x 2 loads 16384 bytes."""
    thin, single = (alone(CostKind.GROUPED, (1, 64, 64, 2), (1, 64, 64, count)) for count in (2, 4))
    assert loaded("bernoulli2", thin) == loaded("bernoulli2", single)


def test_rearranged_maps_pass_through_ddr_again() -> None:
    schedule = subgraph(chain("a"), AMPLE).model_copy(update={"relaid": {"x": 100, "a": 30}})
    ((_, detour),) = layer_traffic(schedule, load_latency("bayes-e"))
    assert detour == Traffic(130, 130)


def test_at_o0_each_layer_loads_and_stores_what_it_moves_by_itself() -> None:
    """Maps that enter are brought into blocks, joined, and added up; marches without figures keep to their maps."""
    latency = load_latency("bayes-e")
    total = alone(CostKind.ADD, MAP, MAP, MAP)
    ((straight, detour),) = layer_traffic(total.model_copy(update={"overlap": Overlap.NONE}), latency)
    assert straight == Traffic(34 * 64)
    assert detour == Traffic(6 * 28 * 32 * 64, 5 * 28 * 32 * 64)
    unknown = load_latency("bernoulli2").model_copy(update={"unfused_layers": {}})
    unfused = layer_traffic(total.model_copy(update={"overlap": Overlap.NONE}), unknown)
    assert unfused == layer_traffic(total, unknown)


def test_a_product_of_two_maps_loads_a_filter_that_turns_the_second() -> None:
    """Asked (``matmul_10``): 8704 bytes for four products of 16 x 32 and 32 x 32, 6144 of them the operands."""
    left, right = (1, 4, 16, 32), (1, 4, 32, 32)
    product = alone(CostKind.MATMUL, left, left, right, macs=1)
    assert loaded("bayes-e", product) - loaded("bayes-e", alone(CostKind.JOIN, left, left, right)) == 8704 - 6144


@pytest.mark.parametrize(
    ("matrices", "rows", "depth", "columns", "bytes_"),
    [
        (1, 64, 16, 256, 138368),
        (1, 64, 256, 64, 43520),
        (2, 64, 400, 32, 82304),
        (8, 16, 64, 16, 17536),
        (1, 64, 16, 320, 8704),
        (1, 64, 64, 512, 40960),
    ],
)
def test_wide_operands_of_products_are_turned_without_a_filter(
    matrices: int, rows: int, depth: int, columns: int, bytes_: int
) -> None:
    """Asked on bayes-e at O2: products of two inputs; 256 columns are the last that load a filter."""
    left, right, result = ((1, matrices, *each) for each in ((rows, depth), (depth, columns), (rows, columns)))
    operands = loaded("bayes-e", alone(CostKind.JOIN, left, left, right))
    assert loaded("bayes-e", alone(CostKind.MATMUL, result, left, right, macs=1)) == bytes_
    unfused = alone(CostKind.MATMUL, result, left, right, macs=1).model_copy(update={"overlap": Overlap.NONE})
    assert loaded("bayes-e", unfused) >= operands + 2 * columns * columns


def test_constant_operands_load_the_parameters_of_their_channels() -> None:
    """Asked (``scaled``, ``scal``): as many as a second map, and the constant as int16 in eight rows."""
    both = loaded("bayes-e", alone(CostKind.MUL, MAP, MAP, MAP)) - loaded(
        "bayes-e", alone(CostKind.JOIN, MAP, MAP, MAP)
    )
    one = loaded("bayes-e", alone(CostKind.MUL, MAP, MAP, parameter_bytes=64))
    assert one - loaded("bayes-e", alone(CostKind.MOVE, MAP, MAP)) == both + 2 * 8 * 64


@pytest.mark.parametrize(
    ("march", "kind", "tokens", "constant", "loads"),
    [
        ("bayes-e", CostKind.ADD, (64, 64), 64, 7296),
        ("bayes-e", CostKind.ADD, (49, 24), 24, 2848),
        ("bayes-e", CostKind.MUL, (64, 256), 256, 36864),
        ("bayes-e", CostKind.MUL, (64, 64), 1, 8320),
        ("bayes-e", CostKind.ADD, (100, 256), 25600, 87168),
        ("bayes", CostKind.ADD, (49, 24), 49 * 24, 6432),
        ("bayes", CostKind.MUL, (16, 64), 64, 11264),
    ],
)
def test_constants_of_tokens_are_loaded_as_int16_in_whole_blocks_of_rows(
    march: str, kind: CostKind, tokens: tuple[int, int], constant: int, loads: int
) -> None:
    """Asked (``scal``): 46 sums and products a march, exact; rows of what enters are padded as those of maps."""
    shape = (1, *tokens)
    assert loaded(march, alone(kind, shape, shape, parameter_bytes=constant)) == loads


def pool(size: int, window: int, step: int = 1, *, padded: bool = True, channels: int = 16) -> Schedule:
    source, result = (1, size, size, channels), (1, size // step, size // step, channels)
    details = {"kernel": (window, window), "strides": (step, step), "padded": padded}
    schedule = alone(CostKind.POOL, result, source, **details)
    (only,) = schedule.layers
    return schedule.model_copy(update={"layers": (only.model_copy(update={"op_type": MAXIMUM}),)})


@pytest.mark.parametrize(
    ("found", "moves"),
    [
        (pool(16, 3), 6144),
        (pool(16, 5), 19584),
        (pool(8, 5, channels=64), 27648),
        (pool(32, 5, channels=32), 126720),
        (pool(16, 13), 98304),
        (pool(16, 3, 2, padded=False), 2048),
        (pool(16, 3, 2), 0),
        (pool(16, 2, 2, padded=False), 0),
    ],
)
def test_maxima_of_overlapping_windows_pass_through_ddr_tap_by_tap_on_bernoulli2(found: Schedule, moves: int) -> None:
    """Asked: bytes of 22 pools between two convolutions, exact."""
    (only,) = found.layers
    average = found.model_copy(update={"layers": (only.model_copy(update={"op_type": "HzQuantizedAveragePool"}),)})
    assert moved("bernoulli2", found) - moved("bernoulli2", average) == Traffic(moves, moves)
    assert moved("bayes-e", found) == moved("bayes-e", average)


@pytest.mark.parametrize(("march", "each"), [("bernoulli2", 8), ("bayes-e", 64), ("bayes", 128)])
def test_a_product_with_a_pixel_loads_fewer_parameters_than_one_of_two_maps(march: str, each: int) -> None:
    """Asked on bernoulli2: products with means of 16, 24 and 64 channels load 250 bytes per channel less."""
    gate = (1, 1, 1, 64)
    both = loaded(march, alone(CostKind.JOIN, MAP, MAP, gate))
    assert loaded(march, alone(CostKind.MUL, MAP, MAP, gate)) - both == each * 64


@pytest.mark.parametrize(("tokens", "heads", "depth", "passes"), [(100, 2, 64, True), (64, 1, 64, False)])
def test_queries_keys_and_values_pass_through_ddr_where_two_heads_do_not_fit(
    tokens: int, heads: int, depth: int, passes: bool
) -> None:
    """Asked on bayes-e: 100 tokens of two heads of 64 store and load 4.95 MB, 64 tokens of one head nothing."""
    shapes = (3, 1, heads, tokens, depth), (1, tokens, 3, heads, depth)
    turned = alone(CostKind.TRANSPOSE, *shapes, motion=Motion.ELEMENTS)
    groups = turned.model_copy(update={"overlap": Overlap.GROUPS})
    vectors = 3 * heads * tokens * depth * 128 * passes
    assert moved("bayes-e", groups) - moved("bayes-e", turned) == Traffic(vectors, vectors)


def test_what_leaves_in_two_layouts_is_stored_twice() -> None:
    """Asked (normalisations of ConvNeXtV2): 24 x 24 x 160 store 215040 bytes, 6 x 6 x 320 store 42240."""
    latency = load_latency("bayes-e")
    for shape, stored in (((1, 24, 24, 160), 215040), ((1, 6, 6, 320), 42240)):
        schedule = alone(CostKind.LUT, shape, shape)
        (table,) = schedule.layers
        schedule = schedule.model_copy(
            update={"layers": (table.model_copy(update={"planar": True, "copied": True}),), "outputs": (table.output,)}
        )
        ((straight, _),) = layer_traffic(schedule, latency)
        assert straight.stored == stored


@pytest.mark.parametrize(("march", "each"), [("bayes-e", 94), ("bayes", 190), ("bernoulli2", 48)])
def test_slopes_load_more_than_their_parameters(march: str, each: int) -> None:
    """Asked (``chain``): eleven chains of slopes of 16 to 128 channels, exact; on bernoulli2 ``slo``, 8 and 16."""
    nothing = loaded(march, alone(CostKind.MOVE, MAP, MAP))
    assert loaded(march, alone(CostKind.SLOPE, MAP, MAP, parameter_bytes=128)) - nothing - 128 == 64 * each


def test_a_constant_for_each_pixel_of_a_plane_is_loaded_in_blocks() -> None:
    """Decoding of 720 boxes: 43 KB more for each of two constants of 2 x 720."""
    plane = (1, 2, 720, 1)
    constant = alone(CostKind.ADD, plane, plane, parameter_bytes=1440)
    one = alone(CostKind.ADD, plane, plane, parameter_bytes=8)
    assert loaded("bayes-e", constant) - loaded("bayes-e", one) == 2 * 768 * 16 - 8
