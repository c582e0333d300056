"""Row padding in DDR, fused groups, and which maps spill."""

from __future__ import annotations

import pytest

from engine.compile.layers import Layer, LayerKind
from engine.compile.memory import Memory, activation_bytes, ddr_bytes, fused_groups, row_width, spilled_tensors
from engine.march.latency import RowPadding, load_latency


def conv(name: str, inputs: tuple[str, ...], size: int = 16, channels: int = 16) -> Layer:
    shape = (1, size, size, channels)
    return Layer(
        name=name,
        op_type="HzSQuantizedConv",
        kind=LayerKind.CONV,
        inputs=inputs,
        output=name,
        input_shapes=(shape,) * len(inputs),
        output_shape=shape,
    )


CHAIN = (conv("a", ("x",)), conv("b", ("a",)), conv("c", ("b",)), conv("d", ("c",)))
MAP = 16 * 16 * 16


@pytest.mark.parametrize(
    ("march", "width", "stored"),
    [
        ("bayes-e", 7, 8),
        ("bayes-e", 33, 36),
        ("bayes-e", 56, 64),
        ("bayes-e", 112, 112),
        ("bayes-e", 168, 168),
        ("bayes", 33, 64),
        ("bayes", 65, 68),
        ("bayes", 112, 128),
        ("bayes", 168, 192),
        ("bayes", 224, 224),
        ("bernoulli2", 17, 24),
        ("bernoulli2", 56, 56),
    ],
)
def test_stored_rows_have_the_measured_widths(march: str, width: int, stored: int) -> None:
    assert row_width(width, load_latency(march).output_row) == stored


@pytest.mark.parametrize(("width", "loaded"), [(1, 16), (28, 32), (112, 128), (168, 192), (224, 256)])
def test_loaded_rows_have_the_measured_widths(width: int, loaded: int) -> None:
    assert row_width(width, load_latency("bayes-e").input_row) == loaded


def test_image_channels_are_not_padded() -> None:
    padding = RowPadding(block=128, minimum=16, channels=16)
    assert ddr_bytes((1, 2, 16, 3), 8, padding) == 2 * 16 * 3
    assert ddr_bytes((1, 2, 16, 24), 8, padding) == 2 * 16 * 32


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


def test_the_map_with_the_farthest_use_goes_out() -> None:
    layers = (conv("a", ("x",)), conv("b", ("a",)), conv("c", ("b",)), conv("d", ("c", "a")))
    memory = Memory(group_bytes=0, map_bytes=MAP)
    assert spilled_tensors(layers, ("d",), fused_groups(layers, memory), memory) == ("a",)
