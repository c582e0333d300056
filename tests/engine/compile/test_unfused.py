"""What layers move where each loads and stores by itself (O0)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.chips.latency import UnfusedLayer, load_latency
from engine.compile.cost import layer_costs
from engine.compile.layers import Layer, Overlap
from engine.compile.motion import Motion
from engine.compile.unfused import UnfusedCost, unfused_costs, unfused_parts
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import alone

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
        ((1, 8, 8, 1), 8 * 8 * 2),
    ],
)
def test_maps_are_padded_to_blocks(shape: tuple[int, ...], elements: int) -> None:
    """Asked: a row takes as long as two, five rows as six, 20 channels as 24."""
    ((parts,),) = unfused_parts([layer(CostKind.LUT, shape, shape)], BLOCK)
    assert parts == ("lut", {"maps": 2 * elements, "planes": parts[1]["planes"]})


def test_layers_of_weights_tell_what_they_read_and_compute() -> None:
    shape = (1, 8, 8, 16)
    ((parts,),) = unfused_parts([layer(CostKind.CONV, shape, shape, input_bits=16, output_bits=32)], BLOCK)
    assert parts == ("conv", {"maps": 2048, "entering": 2048, "leaving": 4096, "wide": 2048, "planes": 128})
    first = layer(CostKind.CONV, shape, shape, output="inner")
    (_, ((_, inner),)) = unfused_parts([first, layer(CostKind.CONV, shape, shape, inputs=("inner",))], BLOCK)
    assert (inner["maps"], inner["entering"]) == (2048, 0)
    dilated = {"kernel": (3, 3), "dilations": (2, 2)}
    assert kinds(layer(CostKind.CONV, shape, shape, **dilated)) == [["conv_dilated"]]
    assert kinds(layer(CostKind.MATMUL, (1, 8, 8), (1, 8, 8))) == [["conv"]]
    ((patches,),) = unfused_parts([layer(CostKind.CONV, (1, 2, 2, 16), shape, kernel=(4, 4), strides=(4, 4))], BLOCK)
    assert patches == ("conv_stepped", {"maps": 1280, "stepped": 512, "entering": 1024, "planes": 128})
    assert kinds(layer(CostKind.CONV, shape, shape, kernel=(11, 11))) == [["conv_large"]]
    assert kinds(layer(CostKind.MATMUL, (1, 8, 8), (1, 8, 8), (1, 8, 8))) == [["matmul"]]


@pytest.mark.parametrize(
    ("kind", "output", "source", "name"),
    [
        (CostKind.REDUCE, (1, 1, 1, 64), MAP, "reduce"),
        (CostKind.REDUCE, (1, 28, 28, 1), MAP, "reduce"),
        (CostKind.REDUCE, (1, 28, 1, 64), MAP, "reduce_rows"),
        (CostKind.MOVE, (1, 28, 28, 32), MAP, "move"),
        (CostKind.MOVE, (1, 28, 28, 12), MAP, "move_uneven"),
        (CostKind.JOIN, (1, 28, 28, 76), MAP, "join_uneven"),
        (CostKind.MOVE, (1, 14, 28, 12), (1, 28, 28, 12), "move"),
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
    assert first[0][1] == {"rows": 64 * 8}
    assert [kind for kind, _ in second] == ["view"]
    back = layer(CostKind.CONV, (1, 8, 200, 64), (1, 8, 200, 64), converted=(0,))
    assert next(iter(unfused_parts([back], BLOCK)))[0] == ("to_pixels", {"rows": 8 * 64 * 2})
    product = layer(CostKind.MATMUL, (1, 4, 16, 16), (1, 4, 16, 8), (1, 4, 8, 16), converted=(1,))
    assert next(iter(unfused_parts([product], BLOCK)))[0] == ("to_matrix", {"rows": 4 * 8})


def test_movements_are_told_apart_by_what_they_move() -> None:
    tokens, heads = (1, 64, 32), (1, 64, 2, 16)
    assert kinds(layer(CostKind.RESHAPE, heads, tokens, motion=Motion.ELEMENTS)) == [["elements"]]
    assert kinds(layer(CostKind.RESHAPE, (1, 8, 8, 32), tokens, motion=Motion.VIEW)) == [[]]
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
    assert parts[1] == {"rows": 64, "planes": 16 * 2 * 32, "elements": 2048, "maps": 16 * 2 * 8 * 32}


def test_a_layer_takes_the_figures_of_its_kind() -> None:
    figures = {"lut": UnfusedLayer(us=2.0, bytes={"maps": 1.5}, work=0.5, layers=9)}
    latency = load_latency("bayes-e").model_copy(update={"unfused_layers": figures})
    table = alone(CostKind.LUT, MAP, MAP).model_copy(update={"overlap": Overlap.NONE})
    moved = 1.5 * 2 * 28 * 32 * 64
    assert list(unfused_costs(table.layers, latency)) == [UnfusedCost(2.0, moved, moved / 2)]
    other = alone(CostKind.ADD, MAP, MAP)
    assert list(unfused_costs(other.layers, latency)) == [UnfusedCost()]
    (cost,) = layer_costs(table, latency)
    assert cost.detour.loaded == cost.detour.stored == moved / 2
    fitted = latency.fitted
    transfer = moved / 2 / 1000 * (1 / fitted.load_gbps + 1 / fitted.store_gbps)
    assert cost.working_us == pytest.approx(transfer / 2)


def test_rows_that_are_cut_into_more_than_three_dimensions_wait_one_by_one() -> None:
    """Asked (``network_o0_16``): 1359 us of transfers for 72 rows of 32 elements, but 231 us for what they move."""
    cut = layer(CostKind.RESHAPE, (1, 72, 2, 2, 8), (1, 9, 8, 32), motion=Motion.ELEMENTS)
    ((parts,),) = unfused_parts([cut], BLOCK)
    assert (parts[0], parts[1]["items"]) == ("elements_deep", 72)
    figures = {"elements_deep": UnfusedLayer(us=1.0, item_us=2.0, bytes={}, layers=5)}
    latency = load_latency("bayes-e").model_copy(update={"unfused_layers": figures})
    assert list(unfused_costs([cut], latency)) == [UnfusedCost(1.0 + 2.0 * 72)]


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
