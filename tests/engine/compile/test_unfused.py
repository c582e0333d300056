"""What layers move where each loads and stores by itself (O0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.unfused import UnfusedLayer
from engine.compile.cost import layer_costs, moving_us
from engine.compile.layers import Layer, Overlap
from engine.compile.memory import Memory
from engine.compile.motion import Motion
from engine.compile.schedule import InputTensor, schedule_layers
from engine.compile.unfused import _ALIKE, UnfusedCost, unfused_costs, unfused_parts
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import alone
from tests.engine.compile.layers import layer as of_shapes

BLOCK = 128
MAP = (1, 28, 28, 64)


def layer(kind: CostKind, shape: tuple[int, ...], *sources: tuple[int, ...], **given: Any) -> Layer:
    (found,) = alone(kind, shape, *sources).layers
    return found.model_copy(update=given)


def kinds(*layers: Layer) -> list[list[str]]:
    return [[kind for kind, _ in parts] for parts in unfused_parts(layers, BLOCK)]


@pytest.mark.parametrize(
    ("shape", "elements"),
    [
        ((1, 1, 64, 64), 2 * 64 * 64),
        ((1, 5, 33, 20), 6 * 40 * 24),
        ((196, 192), 200 * 192 * 2),
        ((1, 8, 8, 1), 8 * 8 * 8),
    ],
)
def test_maps_are_padded_to_blocks(shape: tuple[int, ...], elements: int) -> None:
    """Asked: a row takes as long as two, five rows as six, 20 channels as 24, one as eight."""
    ((parts,),) = unfused_parts([layer(CostKind.LUT, shape, shape)], BLOCK)
    assert (parts[0], parts[1]["maps"]) == ("lut", 2 * elements)


def shown(amounts: Mapping[str, float]) -> dict[str, float]:
    """The amounts that are none of nothing."""
    return {name: amount for name, amount in amounts.items() if amount}


def test_layers_of_weights_tell_what_they_read_and_compute() -> None:
    shape = (1, 8, 8, 16)
    ((parts,),) = unfused_parts([layer(CostKind.CONV, shape, shape, input_bits=16, output_bits=32)], BLOCK)
    moved = {"maps": 2048, "entering": 2048, "leaving": 4096, "wide": 2048, "planes": 128, "lines": 8, "split": 1}
    assert (parts[0], shown(parts[1])) == ("conv", moved)
    assert kinds(layer(CostKind.DEPTHWISE, shape, shape, output_bits=32)) == [["conv"]]
    assert kinds(layer(CostKind.CONV, shape, shape)) == [["conv_entering"]]
    first = layer(CostKind.CONV, shape, shape, output="inner")
    (_, ((_, inner),)) = unfused_parts([first, layer(CostKind.CONV, shape, shape, inputs=("inner",))], BLOCK)
    assert (inner["maps"], inner["entering"]) == (2048, 0)
    dilated = {"kernel": (3, 3), "dilations": (2, 2)}
    assert kinds(layer(CostKind.CONV, shape, shape, **dilated)) == [["conv_dilated_entering"]]
    assert kinds(layer(CostKind.CONV, shape, (1, 8, 8, 3))) == [["conv_image"]]
    assert kinds(layer(CostKind.DEPTHWISE, shape, shape)) == [["conv_entering"]]
    assert kinds(layer(CostKind.MATMUL, (1, 8, 8), (1, 8, 8))) == [["conv"]]
    ((patches,),) = unfused_parts([layer(CostKind.CONV, (1, 2, 2, 16), shape, kernel=(4, 4), strides=(4, 4))], BLOCK)
    moved = {"maps": 1280, "stepped": 512, "entering": 1024, "planes": 128, "lines": 8, "ragged": 2, "steps": 64}
    assert (patches[0], shown(patches[1])) == ("conv_entering", moved)
    assert kinds(layer(CostKind.CONV, shape, shape, kernel=(11, 11))) == [["conv_large_entering"]]
    assert kinds(layer(CostKind.MATMUL, (1, 8, 8), (1, 8, 8), (1, 8, 8))) == [["product"]]


@pytest.mark.parametrize(
    ("kind", "output", "source", "name"),
    [
        (CostKind.REDUCE, (1, 1, 1, 64), MAP, "move"),
        (CostKind.REDUCE, (1, 28, 1, 64), MAP, "reduce_rows"),
        (CostKind.REDUCE, (1, 1, 28, 64), MAP, "reduce_columns"),
        (CostKind.REDUCE, (1, 1, 28, 28, 64), (1, 2, 28, 28, 64), "reduce_deep"),
        (CostKind.RESIZE, (1, 16, 16, 16), (1, 8, 8, 16), "resize"),
        (CostKind.RESIZE, (1, 16, 16, 24), (1, 8, 8, 24), "resize"),
        (CostKind.RESIZE, (1, 18, 18, 16), (1, 9, 9, 16), "resize"),
        (CostKind.MOVE, (1, 28, 28, 32), MAP, "move"),
        (CostKind.MOVE, (1, 28, 28, 12), MAP, "move_uneven"),
        (CostKind.JOIN, (1, 28, 28, 76), MAP, "join_uneven"),
        (CostKind.MOVE, (1, 14, 28, 12), (1, 28, 28, 12), "move"),
        (CostKind.MOVE, (1, 14, 14, 12), (1, 14, 28, 12), "move_stepped"),
        (CostKind.MOVE, (1, 2, 2, 16, 8), (3, 2, 2, 16, 8), "move_deep"),
    ],
)
def test_what_is_done_by_rows_or_within_blocks_is_a_kind_of_its_own(
    kind: CostKind, output: tuple[int, ...], source: tuple[int, ...], name: str
) -> None:
    assert kinds(layer(kind, output, source)) == [[name]]


def test_layout_changes_count_vectors_of_rows_once_for_all_readers() -> None:
    """Asked: 512 bytes for each row of each channel of up to 128 pixels."""
    turned = layer(CostKind.RESHAPE, (1, 64, 64), (1, 64, 8, 8), converted=(0,), motion=Motion.VIEW)
    again = turned.model_copy(update={"name": "again", "output": "again"})
    first, second = unfused_parts([turned, again], BLOCK)
    assert [kind for kind, _ in first] == ["to_planes", "view"]
    assert first[0][1]["rows"] == 64 * 8
    assert [kind for kind, _ in second] == ["view"]
    back = layer(CostKind.CONV, (1, 8, 200, 64), (1, 8, 200, 64), converted=(0,))
    kind, amounts = next(iter(unfused_parts([back], BLOCK)))[0]
    assert (kind, amounts["rows"], amounts["planes"], amounts["pixels"]) == ("to_pixels", 1024, 1024, 8 * 200 * 64)
    product = layer(CostKind.MATMUL, (1, 4, 16, 16), (1, 4, 16, 8), (1, 4, 8, 16), converted=(1,))
    kind, amounts = next(iter(unfused_parts([product], BLOCK)))[0]
    assert (kind, amounts["rows"], amounts["laid"]) == ("to_rows", 4 * 8, 4 * 8 * 16)


@pytest.mark.parametrize(
    ("march", "shape", "us"),
    [
        ("bayes-e", (1, 64, 64, 1), 15),
        ("bayes-e", (1, 256, 256, 1), 144),
        ("bayes-e", (1, 64, 64, 8), 55),
        ("bayes-e", (1, 20, 20, 256), 492),
        ("bayes", (1, 64, 64, 1), 19),
        ("bayes", (1, 400, 192, 1), 169),
        ("bayes", (1, 144, 144, 3), 116),
        ("bayes", (1, 256, 256, 8), 491),
    ],
)
def test_a_map_is_laid_out_pixel_by_pixel(march: str, shape: tuple[int, ...], us: float) -> None:
    """Times of layout changes on the original's pages: rows of each channel are loaded, blocks of channels stored."""
    latency = load_latency(march)
    batch, height, width, channels = shape
    read = layer(CostKind.RESHAPE, (batch, channels, height, width), (batch, channels, height * width))
    read = read.model_copy(update={"motion": Motion.VIEW, "output": "map"})
    table = layer(CostKind.LUT, shape, shape, converted=(0,)).model_copy(update={"inputs": ("map",)})
    table = table.model_copy(update={"name": "table", "output": "table"})
    alone = table.model_copy(update={"converted": ()})
    whole, without = (list(unfused_costs([read, each], latency, {"x0"}))[1] for each in (table, alone))
    moved = (whole.moved - without.moved) / 2 / 1000
    taken = moved / latency.fitted.load_gbps + moved / latency.fitted.store_gbps
    waits = whole.wait_us - without.wait_us
    assert waits + taken * (1 + latency.unfused_work) == pytest.approx(us, rel=0.2)


@pytest.mark.parametrize(
    ("march", "shape", "us"),
    [
        ("bayes-e", (1, 1, 49, 49), 9),
        ("bayes-e", (1, 8, 64, 64), 56),
        ("bayes-e", (1, 20, 20, 192), 90),
        ("bayes", (1, 1, 400, 192), 81),
        ("bayes", (1, 3, 144, 144), 78),
        ("bayes", (1, 8, 256, 256), 373),
    ],
)
def test_a_map_is_laid_out_row_by_row_for_products(march: str, shape: tuple[int, ...], us: float) -> None:
    """Times of layout changes on the original's pages: rows of each channel are stored."""
    latency = load_latency(march)
    batch, channels, height, width = shape
    given = layer(CostKind.LUT, (batch, height, width, channels), (batch, height, width, channels))
    product = layer(CostKind.MATMUL, (*shape[:3], 8), shape, (*shape[:2], width, 8)).model_copy(
        update={"name": "product", "output": "product", "inputs": ("y", "other")}
    )
    turned = product.model_copy(update={"converted": (0,)})
    whole, without = (list(unfused_costs([given, each], latency, {"x0", "other"}))[1] for each in (turned, product))
    moved = (whole.moved - without.moved) / 2 / 1000
    taken = moved / latency.fitted.load_gbps + moved / latency.fitted.store_gbps
    waits = whole.wait_us - without.wait_us
    assert waits + taken * (1 + latency.unfused_work) == pytest.approx(us, rel=0.25)


def test_movements_are_told_apart_by_what_they_move() -> None:
    tokens, heads = (1, 64, 32), (1, 64, 2, 16)
    assert kinds(layer(CostKind.RESHAPE, heads, tokens, motion=Motion.ELEMENTS)) == [["elements"]]
    assert kinds(layer(CostKind.RESHAPE, (1, 8, 8, 32), tokens, motion=Motion.VIEW)) == [["rows_moved"]]
    assert kinds(layer(CostKind.RESHAPE, (1, 1, 64, 32), tokens, motion=Motion.VIEW)) == [[]]
    assert kinds(layer(CostKind.RESHAPE, heads, tokens, motion=Motion.HEADS)) == [[]]
    assert kinds(layer(CostKind.RESHAPE, heads, tokens, motion=Motion.NONE)) == [[]]
    assert kinds(layer(CostKind.TRANSPOSE, tokens, tokens, motion=Motion.VIEW)) == [[]]
    assert kinds(layer(CostKind.TRANSPOSE, (1, 2, 64, 16), heads, motion=Motion.ROWS)) == [["rows_moved"]]
    assert kinds(layer(CostKind.TRANSPOSE, (1, 32, 64), tokens, motion=Motion.ROWS)) == [["rows_turned"]]
    cut = layer(CostKind.TRANSPOSE, (1, 4, 4, 2, 2, 32), (1, 4, 2, 4, 2, 32), motion=Motion.PIXELS)
    cut = cut.model_copy(update={"output": "cut"})
    joined = layer(CostKind.RESHAPE, (1, 16, 4, 32), cut.output_shape, motion=Motion.VIEW, inputs=(cut.output,))
    assert kinds(cut, joined) == [["pixels"], ["pixels"]]
    ((parts,), _) = unfused_parts([cut, joined], BLOCK)
    moved = {"rows": 64, "planes": 16 * 2 * 32, "elements": 2048, "maps": 16 * 2 * 8 * 32}
    assert parts[1] == moved | {"pixels": 16 * 4 * 32, "pieces": 64, "batch": 15, "lines": 32}


def test_what_becomes_a_map_or_a_line_is_told_by_who_reads_it() -> None:
    heads, cut = (1, 2, 64, 16), (1, 128, 4, 4)
    rows = layer(CostKind.RESHAPE, cut, heads, motion=Motion.ELEMENTS)
    ((parts,),) = unfused_parts([rows], BLOCK)
    assert (parts[0], parts[1]) == ("planes_cut", {"elements": 2048, "strips": 512, "rows": 512})
    spread = layer(CostKind.RESHAPE, cut, heads, motion=Motion.SPREAD)
    ((parts,),) = unfused_parts([spread], BLOCK)
    assert parts[1]["strips"] == 512 * (0.25 + 0.75 / 2)
    tokens = layer(CostKind.RESHAPE, (1, 16, 4, 4), (1, 16, 16), motion=Motion.ELEMENTS, output="cut")
    reading = layer(CostKind.CONV, (1, 4, 4, 16), (1, 4, 4, 16), inputs=("cut",), converted=(0,))
    assert kinds(tokens) == [["elements"]]
    assert kinds(tokens, reading)[0] == ["planes_cut"]
    assert kinds(layer(CostKind.RESHAPE, (1, 256), (1, 256, 1), motion=Motion.ELEMENTS)) == [["line"]]
    ((parts,),) = unfused_parts([layer(CostKind.RESHAPE, (1, 2, 9), (1, 2, 9, 1), motion=Motion.ELEMENTS)], BLOCK)
    assert shown(parts[1]) == {"elements": pytest.approx(9 * 1.4)}


def test_tokens_that_are_cut_into_heads_are_no_joined_rows() -> None:
    """Asked (``area``): a map, its rows joined, turned and cut into heads takes one layout change."""
    joined = layer(CostKind.RESHAPE, (1, 48, 64), (1, 48, 8, 8), converted=(0,), motion=Motion.NONE, output="a")
    turned = layer(CostKind.TRANSPOSE, (1, 64, 48), (1, 48, 64), inputs=("a",), motion=Motion.NONE, output="b")
    cut = layer(CostKind.RESHAPE, (1, 64, 2, 24), (1, 64, 48), inputs=("b",), motion=Motion.ELEMENTS)
    assert kinds(joined, turned, cut) == [[], [], ["tokens_cut"]]


def test_a_layer_takes_the_figures_of_its_kind() -> None:
    figures = {"lut": UnfusedLayer(us=2.0, bytes={"maps": 1.5}, layers=9)}
    latency = load_latency("bayes-e").model_copy(update={"alone": None, "unfused_layers": figures, "unfused_work": 0.5})
    table = alone(CostKind.LUT, MAP, MAP).model_copy(update={"overlap": Overlap.NONE})
    moved = 1.5 * 2 * 28 * 32 * 64
    assert list(unfused_costs(table.layers, latency)) == [UnfusedCost(2.0, moved)]
    other = alone(CostKind.ADD, MAP, MAP)
    assert list(unfused_costs(other.layers, latency)) == [UnfusedCost(moved=2 * 28 * 32 * 64)]
    special = layer(CostKind.RESIZE, (1, 18, 18, 16), (1, 9, 9, 16))
    figures = {"resize": UnfusedLayer(us=3.0, bytes={}, layers=9)}
    known = latency.model_copy(update={"unfused_layers": figures})
    assert list(unfused_costs([special], known)) == [UnfusedCost(3.0)]
    (cost,) = layer_costs(table, latency)
    assert cost.detour.loaded == cost.detour.stored == moved / 2
    fitted = latency.fitted
    transfer = moved / 2 / 1000 * (1 / fitted.load_gbps + 1 / fitted.store_gbps)
    assert cost.working_us == pytest.approx(transfer / 2)


def test_layers_of_weights_of_int16_are_several_layers_and_compute_what_steps_leave_out() -> None:
    """Asked: 16 x 16 x 16 in 3 x 3 take 29 us, in steps of two 32; 8 x 8 x 8 12 us, and 3 in int8."""
    wide = {"input_bits": 16, "output_bits": 16, "kernel": (3, 3), "weight_bytes": 2304}
    for side, by in ((16, 1), (8, 2)):
        conv = layer(CostKind.CONV, (1, side, side, 16), (1, 16, 16, 16), **wide, strides=(by, by))
        (((_, amounts),),) = unfused_parts([conv], BLOCK)
        assert (amounts["split"], amounts["wide"], amounts["wide_weights"]) == (1, 2 * 2 * 16 * 16 * 16, 2304)
    pool = layer(CostKind.POOL, (1, 8, 8, 16), (1, 16, 16, 16), input_bits=16, output_bits=16, strides=(2, 2))
    assert kinds(pool) == [["pool_wide"]]


@pytest.mark.parametrize(
    ("kernel", "shape", "block", "stored", "loaded"),
    [
        ((1, 1), (1, 16, 16, 16), 128, 0, 0),
        ((3, 3), (1, 16, 16, 16), 128, 22272, 32000 - 2 * 2048),
        ((5, 5), (1, 16, 16, 16), 128, 26112, 45568 - 2 * 6144),
        ((1, 3), (1, 16, 16, 16), 128, 18432, 23552 - 2 * 512),
        ((3, 1), (1, 16, 16, 16), 128, 10752, 12800 - 2 * 512),
        ((3, 3), (1, 8, 8, 16), 128, 9728, 16896 - 2 * 2048),
        ((3, 3), (1, 32, 32, 16), 128, 59648, 74496 - 2 * 2048),
        ((3, 3), (1, 64, 16, 16), 128, 77568, 99584 - 2 * 2048),
        ((3, 3), (1, 16, 16, 16), 256, 33792, 48128 - 2 * 2048),
        ((3, 3), (1, 8, 8, 16), 256, 6656, 11776 - 2 * 2048),
    ],
)
def test_windows_of_int16_get_their_borders_on_the_way(
    kernel: tuple[int, int], shape: tuple[int, ...], block: int, stored: int, loaded: int
) -> None:
    """Asked: the bytes that a window moves more than one tap does, without its weights, which are loaded twice."""
    conv = layer(CostKind.CONV, shape, shape, input_bits=16, output_bits=16, kernel=kernel)
    (((_, amounts),),) = unfused_parts([conv], block)
    assert amounts["bordered"] == stored + loaded


def test_rows_are_whole_pieces_of_vectors() -> None:
    """Asked on bayes: 8 x 8 x 16 of int16 moves what 8 x 16 x 16 does."""
    narrow, wide = (
        unfused_parts([layer(CostKind.CONV, shape, shape, input_bits=16, output_bits=16)], 256)
        for shape in ((1, 8, 8, 16), (1, 8, 16, 16))
    )
    ((_, one),), ((_, other),) = next(narrow), next(wide)
    assert one["wide"] == other["wide"] == 2 * 2 * 8 * 16 * 16


def test_each_map_of_a_batch_is_split() -> None:
    """Draws: 6 x 8 x 8 x 16 of int16 take 58 us, a map 14 to 17."""
    shape = (6, 8, 8, 16)
    conv = layer(CostKind.CONV, shape, shape, input_bits=16, output_bits=16)
    (((_, amounts),),) = unfused_parts([conv], BLOCK)
    assert amounts["split"] == 1 + 5 / 2


def test_kinds_that_take_the_same_have_the_same_constants() -> None:
    """Pages of 8,387 layers on bayes-e and bayes: errors of networks of no fit stay with 54 kinds instead of 71."""
    maps = (1, 16, 16, 24)
    for kind in (CostKind.ADD, CostKind.MUL):
        assert kinds(layer(kind, maps, maps)) == kinds(layer(kind, maps, maps, maps)) == [["add"]]
        assert kinds(layer(kind, maps, maps, (1, 1, 1, 24))) == [["mul_pixel"]]
        assert kinds(layer(kind, maps, maps, (1, 16, 1, 24))) == [["mul_row"]]
    assert kinds(layer(CostKind.JOIN, (1, 16, 16, 16), (1, 16, 16, 8), (1, 16, 16, 8))) == [["move"]]
    assert not set(_ALIKE) & set(_ALIKE.values())


def test_rows_that_are_cut_into_more_than_three_dimensions_wait_one_by_one() -> None:
    """Asked (``network_o0_16``): 1359 us of transfers for 72 rows of 32 elements, but 231 us for what they move."""
    cut = layer(CostKind.RESHAPE, (1, 72, 2, 2, 8), (1, 9, 8, 32), motion=Motion.ELEMENTS)
    ((parts,),) = unfused_parts([cut], BLOCK)
    assert (parts[0], parts[1]["items"]) == ("elements_deep", 72)
    figures = {"elements_deep": UnfusedLayer(us=1.0, waits={"items": 2.0, "pieces": 0.5}, bytes={}, layers=5)}
    latency = load_latency("bayes-e").model_copy(update={"alone": None, "unfused_layers": figures})
    assert list(unfused_costs([cut], latency)) == [UnfusedCost(1.0 + 2.0 * 72 + 0.5 * 288)]


def test_each_map_of_a_batch_is_loaded_and_stored_by_itself() -> None:
    """Asked: a table of 8 x 8 x 8 takes 3.5, 5.5 and 10.5 us for batches of two, four and eight."""
    batch = (8, 8, 8, 8)
    ((parts,),) = unfused_parts([layer(CostKind.LUT, batch, batch)], BLOCK)
    assert shown(parts[1]) == {"maps": 8192, "planes": 512, "lines": 64, "batch": 7}
    few = (4, 16, 16, 2)
    ((parts,),) = unfused_parts([layer(CostKind.LUT, few, few)], BLOCK)
    assert (parts[1]["batch"], parts[1]["uneven"], parts[1]["halves"]) == (3, 3, 2048)
    heads = layer(CostKind.MATMUL, (4, 2, 16, 8), (4, 2, 16, 16), (4, 2, 16, 8))
    ((product,),) = unfused_parts([heads], BLOCK)
    assert (product[0], product[1]["batch"], product[1]["uneven"]) == ("product", 7, 8)


def test_rows_of_several_planes_are_joined_row_by_row() -> None:
    """Asked: 128 rows of eight pixels take 531 us as four lines of 256, and 523 back; as 16 lines of 64, 24 us."""
    planes, rows = (1, 16, 8, 8), (1, 4, 256)
    joined = layer(CostKind.RESHAPE, rows, planes, motion=Motion.ELEMENTS)
    back = layer(CostKind.RESHAPE, planes, rows, motion=Motion.ELEMENTS)
    for each in (joined, back):
        ((parts,),) = unfused_parts([each], BLOCK)
        assert (parts[0], shown(parts[1])) == ("planes_joined", {"elements": 1024, "pieces": 128, "strips": 128})
    assert kinds(layer(CostKind.RESHAPE, planes, (1, 16, 64), motion=Motion.ELEMENTS)) == [["elements"]]


def test_larger_blocks_of_pixels_and_a_batch_that_becomes_a_map_are_kinds_of_their_own() -> None:
    """Asked: DepthToSpace of 24 x 24 pixels into 8 channels takes 41, 2068 and 5925 us for blocks of 2, 3 and 4."""
    for block, kind in ((2, "rows_turned"), (3, "blocks"), (4, "blocks")):
        unfolded = layer(
            CostKind.TRANSPOSE, (1, 24 * block, 24 * block, 8), (1, 24, 24, 8 * block**2), motion=Motion.BLOCKS
        )
        ((parts,),) = unfused_parts([unfolded], BLOCK)
        assert (parts[0], parts[1]["lines"]) == (kind, 24 * block**2)
    assert kinds(layer(CostKind.RESHAPE, (1, 16, 12, 8), (96, 2, 4, 2), motion=Motion.VIEW)) == [["view_of_batch"]]
    assert kinds(layer(CostKind.TRANSPOSE, (3, 1, 2, 16, 8), (1, 16, 3, 2, 8), motion=Motion.ELEMENTS)) == [
        ["heads_turned"]
    ]


def test_tokens_that_become_the_channels_of_a_map_are_turned() -> None:
    """Asked (``network_o0_4130-3``): 309 us for 4 x 16 tokens of 48, which rows of each channel would take 16 for."""
    cut = layer(CostKind.RESHAPE, (4, 16, 1, 48), (1, 64, 48), motion=Motion.VIEW, output="cut")
    part = layer(CostKind.MOVE, (4, 16, 16, 1), (4, 48, 16, 1), inputs=("cut",), rearranged=(0,), converted=(0,))
    assert kinds(cut, part) == [["rows_moved"], ["to_turned", "move"]]


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        (layer(CostKind.REDUCE, (1, 16, 16, 1), (1, 16, 16, 24)), "for_reduce"),
        (layer(CostKind.REDUCE, (1, 16, 1, 24), (1, 16, 16, 24)), "for_reduce"),
        (layer(CostKind.REDUCE, (1, 1, 1, 24), (1, 16, 16, 24)), ""),
        (layer(CostKind.RESIZE, (1, 32, 32, 24), (1, 16, 16, 24)), "for_resize_uneven"),
        (layer(CostKind.LUT, (1, 16, 16, 24), (1, 16, 16, 24)), ""),
    ],
)
def test_a_map_that_is_wanted_in_another_layout_is_stored_once_more(reader: Layer, name: str) -> None:
    """Asked: a convolution of 16 x 16 x 24 takes 4.5 us, 18 in front of a mean over channels, 24 of one over rows."""
    maker = layer(CostKind.CONV, (1, 16, 16, 24), (1, 16, 16, 24), output="map")
    first, _ = kinds(maker, reader.model_copy(update={"inputs": ("map",)}))
    assert first == [*([name] if name else []), "conv_entering"]


def test_a_mean_over_channels_that_is_taken_off_is_read_as_it_lies() -> None:
    mean = layer(CostKind.REDUCE, (1, 16, 16, 1), (1, 16, 16, 24), output="mean")
    centred = layer(CostKind.ADD, (1, 16, 16, 24), (1, 16, 16, 24), (1, 16, 16, 1), inputs=("x", "mean"))
    assert kinds(mean, centred) == [["move"], ["add_plane"]]


def test_pixels_and_channels_change_places_row_by_row_in_maps_and_one_by_one_in_tokens() -> None:
    """Asked: ``edgenext`` 446 us of transfers for 16 x 16 x 144, which elements would take 3878 for; ``xcit``."""
    cut = (1, 64, 3, 2, 16)
    ((of_map,),) = unfused_parts([layer(CostKind.RESHAPE, cut, (1, 8, 8, 96), motion=Motion.TURNED)], BLOCK)
    ((of_tokens,),) = unfused_parts([layer(CostKind.RESHAPE, cut, (1, 1, 64, 96), motion=Motion.TURNED)], BLOCK)
    assert (of_map[0], of_map[1]["planes"]) == ("turned", 8 * 96)
    assert (of_tokens[0], of_tokens[1]["items"]) == ("elements_deep", 64)
    ((laid,),) = ([*unfused_parts([layer(CostKind.RESHAPE, cut, cut, motion=Motion.LAID)], BLOCK)],)
    assert laid == []


def test_what_leaves_in_two_layouts_changes_its_layout_besides() -> None:
    """Asked: 332 us of transfers for 160 channels of 24 rows (``convnextv2``)."""
    table = layer(CostKind.LUT, (1, 24, 24, 160), (1, 24, 24, 160)).model_copy(update={"copied": True})
    ((change, own),) = unfused_parts([table], BLOCK)
    assert (change[0], change[1]["rows"], own[0]) == ("to_pixels", 3840, "lut")


def test_layers_are_told_by_themselves_at_o0_alone() -> None:
    """O1 of the oldest march overlaps nothing either, but keeps maps on the chip and rearranges what leaves."""
    latency = load_latency("bernoulli2")
    table = alone(CostKind.LUT, MAP, MAP).model_copy(update={"overlap": Overlap.NONE})
    kept = table.model_copy(update={"relaid": {"y": 1 << 16}})
    assert table.is_told_by_layer
    assert not kept.is_told_by_layer
    (told,), (other,) = (layer_costs(schedule, latency) for schedule in (table, kept))
    unknown = latency.model_copy(update={"unfused_layers": {}})
    assert (other,) == layer_costs(kept, unknown)
    assert told.traffic != other.traffic
    assert told.compute_us == other.compute_us


def test_bytes_of_the_oldest_march_are_those_of_its_transfers_and_times_those_of_kinds() -> None:
    """Asked on bernoulli2 at O0: a convolution of 16 x 16 x 16 loads 42128 and stores 53248 bytes, its input rearranged
    over DDR once and its result twice; an image is not rearranged, and eight pixels a row are sixteen.
    """
    latency = load_latency("bernoulli2")
    relay = Memory(
        0, 0, relay_inputs=True, relay_outputs=latency.output_relay.rows, overlap=Overlap.NONE, by_layer=True
    )

    def traffic(side: int, channels: int) -> tuple[int, int]:
        shape, result = (1, side, side, channels), (1, side, side, 16)
        only = of_shapes(
            CostKind.CONV,
            result,
            shape,
            output_bits=32,
            planar=True,
            leaves=True,
            macs=side * side * 16 * channels,
            weight_bytes=16 * channels,
            parameter_bytes=128,
        )
        inputs = (InputTensor(name="x0", dtype="int8", shape=shape),)
        schedule = schedule_layers("s", inputs, ("y",), (only,), relay)
        assert schedule.is_told_by_layer
        (cost,) = layer_costs(schedule, latency)
        assert cost.moving_us is not None
        return cost.traffic.loaded, cost.traffic.stored

    assert traffic(16, 16) == (42128, 53248)
    assert traffic(8, 64) == (27072, 20480)
    assert traffic(16, 3)[1] == 49152


@pytest.mark.parametrize(
    ("march", "kind", "before", "after", "given", "latency_us"),
    [
        # rows of a map that are cut into heads, of tokens, into maps of a batch; single elements; heads by a constant
        ("bayes-e", CostKind.RESHAPE, (1, 8, 8, 16), (1, 64, 2, 8), {"motion": Motion.VIEW}, 41.6),
        ("bayes-e", CostKind.RESHAPE, (1, 8, 8, 32), (1, 64, 4, 8), {"motion": Motion.VIEW}, 69.1),
        ("bayes", CostKind.RESHAPE, (1, 12, 8, 16), (1, 96, 2, 8), {"motion": Motion.VIEW}, 45.0),
        ("bayes-e", CostKind.RESHAPE, (1, 16, 24, 4), (64, 6, 2, 2), {"motion": Motion.VIEW}, 178.2),
        ("bayes", CostKind.RESHAPE, (1, 16, 16, 4), (64, 4, 2, 2), {"motion": Motion.VIEW}, 174.5),
        ("bayes-e", CostKind.RESHAPE, (64, 6, 2, 2), (1, 16, 24, 4), {"motion": Motion.LAID}, 547.6),
        ("bayes-e", CostKind.TRANSPOSE, (1, 1, 48, 64), (1, 64, 48, 1), {"motion": Motion.ELEMENTS}, 544.1),
        ("bayes", CostKind.TRANSPOSE, (1, 1, 48, 64), (1, 64, 48, 1), {"motion": Motion.ELEMENTS}, 449.8),
        ("bayes-e", CostKind.MATMUL, (1, 2, 8, 64), (1, 2, 10, 64), {}, 44.4),
    ],
)
def test_movements_of_attention_take_what_pages_say(
    march: str,
    kind: CostKind,
    before: tuple[int, ...],
    after: tuple[int, ...],
    given: dict[str, Any],
    latency_us: float,
) -> None:
    """Asked: blocks of the hunt's grammar and heads cut out of maps (``mapheads``)."""
    schedule = alone(kind, after, before)
    (only,) = schedule.layers
    only = only.model_copy(update=given)
    (cost,) = layer_costs(
        schedule.model_copy(update={"layers": (only,), "overlap": Overlap.NONE, "by_layer": True}), load_latency(march)
    )
    fitted = load_latency(march).fitted
    taken = cost.working_us + cost.overhead_us + moving_us(cost, fitted)
    assert taken == pytest.approx(latency_us, rel=0.15)


def test_values_of_attention_are_turned_before_they_become_a_map() -> None:
    """Asked: 504 values of one head 58.5 us on bayes-e and 88.5 on bayes, 1536 of two 112 on bayes-e."""
    values = layer(CostKind.RESHAPE, (1, 7, 9, 8), (1, 63, 1, 8), motion=Motion.VIEW, converted=(0,))
    assert "value" in kinds(values)[0]
    heads = layer(CostKind.RESHAPE, (1, 12, 8, 16), (1, 96, 2, 8), motion=Motion.VIEW, converted=(0,))
    assert "values" in kinds(heads)[0]


@pytest.mark.parametrize(
    ("march", "tokens", "latency_us"), [("bayes-e", 36, 73.9), ("bayes-e", 64, 123.1), ("bayes", 64, 62.9)]
)
def test_heads_that_leave_for_another_subgraph_are_cut_out(march: str, tokens: int, latency_us: float) -> None:
    """Asked: values of a decoder and of PVT, whose product is behind a Softmax on the CPU."""
    rows, heads, after = (1, 1, tokens, 16), (1, tokens, 2, 8), (1, 2, tokens, 8)
    schedule = alone(CostKind.RESHAPE, heads, rows)
    (only,) = schedule.layers
    cut = only.model_copy(update={"motion": Motion.HEADS, "output": "cut", "leaves": False})
    turned = layer(CostKind.TRANSPOSE, after, heads, motion=Motion.NONE, inputs=("cut",), leaves=True)
    update = {"layers": (cut, turned), "overlap": Overlap.NONE, "by_layer": True, "groups": ((0,), (1,))}
    first, _ = layer_costs(schedule.model_copy(update=update), load_latency(march))
    fitted = load_latency(march).fitted
    assert first.working_us + first.overhead_us + moving_us(first, fitted) == pytest.approx(latency_us, rel=0.15)


def test_rows_of_single_channels_are_laid_for_slices_and_turned_for_one_reader() -> None:
    """Asked: attention in linear time, whose three parts a Split or Slices cut."""
    flat = layer(CostKind.RESHAPE, (1, 1, 48, 144), (1, 48, 12, 12))
    turned = layer(CostKind.TRANSPOSE, (1, 144, 48, 1), (1, 1, 48, 144), motion=Motion.ELEMENTS)
    flat, turned = (
        each.model_copy(update={"output": name, "inputs": inputs})
        for each, name, inputs in ((flat, "flat", ("x",)), (turned, "rows", ("flat",)))
    )
    cut = layer(CostKind.MOVE, (1, 144, 16, 1), (1, 144, 48, 1)).model_copy(update={"inputs": ("rows",)})
    second = cut.model_copy(update={"output": "second"})
    assert kinds(flat, turned, cut)[1] == ["pixels_turned"]
    assert kinds(flat, turned, cut, second)[1] == ["to_pixels"]


def test_rows_that_a_product_gave_are_scaled_one_by_one() -> None:
    rows = (1, 144, 16, 1)
    product = layer(CostKind.MATMUL, rows, (1, 144, 17, 1), (1, 17, 16, 1))
    product = product.model_copy(update={"output": "product"})
    scaled = layer(CostKind.MUL, rows, rows, (1, 144, 1, 1)).model_copy(update={"inputs": ("product", "sums")})
    assert kinds(product, scaled)[1] == ["mul_plane_singles"]
    assert kinds(scaled) == [["mul_plane"]]
