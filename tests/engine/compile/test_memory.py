"""Fused groups, and which maps spill."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.chips.latency.layout import Strips
from engine.compile.layers import Layer
from engine.compile.memory import (
    Memory,
    fused_groups,
    planned,
    relaid_bytes,
    spilled_tensors,
    strip_columns,
)
from engine.compile.sizes import activation_bytes
from engine.ops.core.costs import CostKind
from tests.engine.compile.layers import convolution as conv

CHAIN = (conv("a", ("x",)), conv("b", ("a",)), conv("c", ("b",)), conv("d", ("c",)))
MAP = 16 * 16 * 16


def test_without_memory_every_map_spills() -> None:
    none = Memory(group_bytes=0, map_bytes=0)
    groups = fused_groups(CHAIN, none)
    assert groups == ((0,), (1,), (2,), (3,))
    assert spilled_tensors(CHAIN, ("d",), groups, none) == ("a", "b", "c")


def test_a_fused_chain_keeps_its_maps() -> None:
    ample = Memory(group_bytes=1 << 30, map_bytes=0)
    groups = fused_groups(CHAIN, ample)
    assert groups == ((0, 1, 2, 3),)
    assert spilled_tensors(CHAIN, ("d",), groups, ample) == ()


def test_a_map_between_groups_stays_where_it_fits() -> None:
    rows = activation_bytes((1, 8, 16, 16), 8)
    pairs = Memory(group_bytes=3 * rows, map_bytes=MAP)
    groups = fused_groups(CHAIN, pairs)
    assert groups == ((0, 1), (2, 3))
    assert spilled_tensors(CHAIN, ("d",), groups, pairs) == ()
    smaller = Memory(pairs.group_bytes, MAP - 1)
    assert spilled_tensors(CHAIN, ("d",), groups, smaller) == ("b",)


def test_a_full_group_ends_where_it_leaves_least() -> None:
    """Room for four layers, the fourth of which would leave a map of twice the channels."""
    layers = (*CHAIN[:3], conv("d", ("c",), channels=32), conv("e", ("d",), channels=32))
    rows = activation_bytes((1, 8, 16, 16), 8)
    memory = Memory(group_bytes=4 * rows + 2 * rows, map_bytes=0)
    assert fused_groups(layers, memory) == ((0, 1, 2), (3, 4))
    ample = replace(memory, map_bytes=2 * MAP)
    assert fused_groups(layers, ample) == ((0, 1, 2, 3), (4,))


def test_weights_take_of_the_memory_of_maps() -> None:
    layers = tuple(layer.model_copy(update={"weight_bytes": 1000}) for layer in CHAIN)
    rows = activation_bytes((1, 8, 16, 16), 8)
    memory = Memory(group_bytes=3 * rows + 2000, map_bytes=MAP)
    assert planned(layers, ("d",), replace(memory, weights_on_chip=True)) == (((0, 1), (2, 3)), ("b",))
    ample = replace(memory, map_bytes=MAP + 2 * activation_bytes((1, 6, 16, 16), 8) + 2000, weights_on_chip=True)
    assert planned(layers, ("d",), ample)[1] == ()


def test_whole_maps_share_the_memory_with_the_rows_of_the_running_group() -> None:
    """Two groups; the map between them lies whole beside six rows of the two others of either group."""
    layers, rows = CHAIN, activation_bytes((1, 6, 16, 16), 8)
    groups = ((0, 1), (2, 3))
    shared = Memory(group_bytes=1 << 20, map_bytes=MAP + 2 * rows, weights_on_chip=True)
    assert spilled_tensors(layers, ("d",), groups, shared) == ()
    assert spilled_tensors(layers, ("d",), groups, replace(shared, map_bytes=MAP + 2 * rows - 1)) == ("b",)
    assert spilled_tensors(layers, ("d",), groups, Memory(group_bytes=1 << 20, map_bytes=MAP)) == ()


def test_slices_and_concatenations_take_no_rows() -> None:
    """A group of three layers is as large with a slice between two of them where it has no memory of its own."""
    rows = activation_bytes((1, 8, 16, 16), 8)
    layers = (CHAIN[0], conv("b", ("a",)).model_copy(update={"kind": CostKind.MOVE}), conv("c", ("b",)))
    memory = Memory(group_bytes=3 * rows, map_bytes=0)
    assert fused_groups(layers, memory) == ((0, 1), (2,))
    assert fused_groups(layers, replace(memory, weights_on_chip=True)) == ((0, 1, 2),)


def test_what_joins_a_map_from_ddr_begins_a_group() -> None:
    """The large map spills, for a group ends behind it; its second reader stands inside the next one."""
    wide = conv("a", ("x",), channels=64)
    layers = (wide, conv("b", ("a",)), conv("c", ("b",)), conv("d", ("c",)), conv("e", ("d", "a")))
    layers = (
        wide,
        *layers[1:4],
        layers[4].model_copy(update={"input_shapes": (layers[3].output_shape, (1, 16, 16, 64))}),
    )
    rows = activation_bytes((1, 8, 16, 16), 8)
    memory = Memory(group_bytes=(1 + 4 + 1 + 1) * rows, map_bytes=MAP)
    assert planned(layers, ("e",), memory) == (((0,), (1, 2, 3, 4)), ("a",))
    assert planned(layers, ("e",), replace(memory, joins_apart=True)) == (((0,), (1, 2, 3), (4,)), ("a",))


def test_results_of_resizes_are_rearranged_over_ddr() -> None:
    strided = conv("b", ("a",)).model_copy(update={"strides": (2, 2), "kernel": (3, 3)})
    resize = conv("c", ("b",)).model_copy(update={"kind": CostKind.RESIZE})
    layers = (CHAIN[0], strided, resize, conv("d", ("c",)))
    memory = Memory(0, 0, relay_results=True)
    assert relaid_bytes(layers, ("x",), ("d",), ("a", "b", "c"), memory) == {"c": MAP}
    assert relaid_bytes(layers, ("x",), ("d",), (), memory) == {}


def test_the_map_with_the_farthest_use_goes_out() -> None:
    layers = (conv("a", ("x",)), conv("b", ("a",)), conv("c", ("b",)), conv("d", ("c", "a")))
    memory = Memory(group_bytes=0, map_bytes=MAP)
    assert spilled_tensors(layers, ("d",), fused_groups(layers, memory), memory) == ("a",)


STRIPS = Strips(above=64, columns=56, row_bytes=22000)
"""Those of bernoulli2."""


def wide_tail(channels: int, width: int, kernel: int) -> tuple[Layer, ...]:
    """Four convolutions, the last with int32 results."""
    window = {"kernel": (kernel, kernel)}
    chain = [conv(name, (before,), width, channels) for before, name in ("xa", "ab", "bc", "cd")]
    chain[-1] = chain[-1].model_copy(update={"output_bits": 32})
    return tuple(layer.model_copy(update=window) for layer in chain)


@pytest.mark.parametrize(
    ("channels", "width", "kernel", "groups"),
    [
        (64, 56, 3, ((0, 1, 2, 3),)),  # no strips
        (16, 224, 1, ((0, 1, 2, 3),)),
        (64, 112, 1, ((0, 1), (2, 3))),
        (8, 112, 3, ((0, 1, 2, 3),)),
        (16, 224, 3, ((0,), (1, 2, 3))),
        (16, 112, 5, ((0, 1, 2), (3,))),
    ],
)
def test_layers_join_a_tail_in_strips_as_far_as_their_rows_fit(
    channels: int, width: int, kernel: int, groups: tuple[tuple[int, ...], ...]
) -> None:
    layers = wide_tail(channels, width, kernel)
    memory = Memory(group_bytes=1 << 30, map_bytes=1 << 30, strips=STRIPS)
    found = fused_groups(layers, memory)
    assert found == groups
    crossing = () if len(groups) == 1 else (layers[groups[0][-1]].output,)
    assert spilled_tensors(layers, ("d",), found, memory) == crossing


def test_strips_need_the_columns_of_their_windows() -> None:
    layers = wide_tail(16, 112, 3)[2:]
    first, second = strip_columns(layers, STRIPS)
    assert first == {"d": (0, 56), "c": (-1, 57), "b": (-2, 58)}
    assert second["b"] == (54, 114)


def test_what_a_table_reads_goes_through_ddr() -> None:
    table = conv("t", ("a",)).model_copy(update={"kind": CostKind.LUT})
    layers = (CHAIN[0], table, conv("c", ("t",)))
    ample = Memory(group_bytes=1 << 30, map_bytes=1 << 30)
    assert spilled_tensors(layers, ("c",), ((0, 1, 2),), ample) == ()
    assert spilled_tensors(layers, ("c",), ((0, 1, 2),), replace(ample, tables_through_ddr=True)) == ("a",)
    past = (CHAIN[0], conv("b", ("a",)), table.model_copy(update={"inputs": ("b",)}), conv("c", ("t", "a")))
    found = spilled_tensors(past, ("c",), ((0, 1, 2, 3),), replace(ample, tables_through_ddr=True))
    assert set(found) == {"a", "b"}


@pytest.mark.parametrize(("kernel", "spilled"), [(3, ("a",)), (1, ())])
def test_a_map_that_bypasses_windows_is_held_whole(kernel: int, spilled: tuple[str, ...]) -> None:
    inner = conv("b", ("a",)).model_copy(update={"kernel": (kernel, kernel)})
    layers = (CHAIN[0], inner, conv("c", ("b", "a")))
    memory = Memory(group_bytes=1 << 30, map_bytes=0, skips_whole=True)
    assert spilled_tensors(layers, ("c",), ((0, 1, 2),), memory) == spilled


def test_what_is_broadcast_ends_a_group() -> None:
    gate = conv("g", ("a",), size=1)
    product = conv("m", ("a", "g")).model_copy(update={"input_shapes": ((1, 16, 16, 16), (1, 1, 1, 16))})
    assert fused_groups((CHAIN[0], gate, product), Memory(1 << 30, 0)) == ((0, 1), (2,))


def test_operands_leave_that_were_not_computed_right_before() -> None:
    """ghostnet, bisenet, db_text at O1: what a layer adds from further back goes through DDR though it fits."""
    layers = (*CHAIN[:3], conv("d", ("c", "a")))
    memory = Memory(group_bytes=0, map_bytes=1 << 30, operands_leave=True)
    groups = fused_groups(layers, memory)
    assert spilled_tensors(layers, ("d",), groups, memory) == ("a",)
    assert spilled_tensors(layers, ("d",), groups, replace(memory, operands_leave=False)) == ()
