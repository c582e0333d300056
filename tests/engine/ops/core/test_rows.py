"""Rows: which ones an operator reads for a band of its output, and when it cannot be cut."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.ops.core.rows import ROW_WINDOWS, SAME_ROWS, WHOLE_MAP, Rows, window_of


def image(height: int, channels: int = 4, name: str = "x", constant: bool = False) -> ir.Value:
    shape = ir.Shape([1, height, 5, channels])
    value = ir.Value(name=name, shape=shape, type=ir.TensorType(ir.DataType.INT8))
    if constant:
        value.const_value = ir.tensor([0] * (height * 5 * channels), dtype=ir.DataType.INT8)
    return value


def node(op_type: str, inputs: list[ir.Value], height: int, **attributes: object) -> ir.Node:
    return ir.node(op_type, inputs, attributes, outputs=[image(height, name="y")])  # type: ignore[arg-type]  # numbers


def test_whole_maps_are_never_cut() -> None:
    assert not WHOLE_MAP.splits(node("Resize", [image(8)], 16))


@pytest.mark.parametrize(("axis", "expected"), [(3, True), (1, False)])
def test_channels_are_joined_row_by_row(axis: int, expected: bool) -> None:
    assert SAME_ROWS.splits(node("Concat", [image(8), image(8)], 8, axis=axis)) is expected


def test_a_map_of_one_row_is_read_whole() -> None:
    both = node("Add", [image(8), image(1)], 8)
    assert SAME_ROWS.splits(both)
    assert [SAME_ROWS.read(both, position, Rows(2, 4)) for position in (0, 1)] == [Rows(2, 4), Rows(0, 1)]


def test_a_constant_of_several_rows_is_not_cut() -> None:
    assert not SAME_ROWS.splits(node("Add", [image(8), image(8, constant=True)], 8))
    assert SAME_ROWS.splits(node("Add", [image(8), image(1, constant=True)], 8))


def test_the_band_of_a_window_has_its_own_padding() -> None:
    pooled = node("MaxPool", [image(8)], 4, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    assert ROW_WINDOWS.splits(pooled)
    assert ROW_WINDOWS.read(pooled, 0, Rows(0, 2)) == Rows(0, 4)
    assert ROW_WINDOWS.attributes(pooled, Rows(0, 2))["pads"].as_ints() == (1, 1, 0, 1)
    assert ROW_WINDOWS.attributes(pooled, Rows(1, 3))["pads"].as_ints() == (0, 1, 0, 1)
    assert window_of(pooled, Rows(3, 4)).rows == Rows(5, 8)


def test_windows_that_lie_in_the_padding_are_not_cut() -> None:
    assert not ROW_WINDOWS.splits(node("MaxPool", [image(2)], 5, kernel_shape=[1, 1], pads=[2, 0, 1, 0]))
    assert not ROW_WINDOWS.splits(node("MaxPool", [image(8)], 4, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1))


def test_the_hull_holds_both_bands() -> None:
    assert Rows(2, 4).hull(Rows(6, 7)) == Rows(2, 7)
    assert Rows(2, 4).hull(None) == Rows(2, 4)
    assert Rows(2, 4).count == 2


def test_every_operand_has_one_row_or_all() -> None:
    assert not SAME_ROWS.splits(node("Add", [image(8), image(4)], 8))
    assert not SAME_ROWS.splits(node("Add", [image(4), image(8)], 8))
    assert SAME_ROWS.splits(node("Add", [image(1), image(1)], 8))
    added = {"kernel_shape": [1, 1]}
    assert ROW_WINDOWS.splits(node("Conv", [image(8), image(1, constant=True), image(8)], 8, **added))
    assert not ROW_WINDOWS.splits(node("Conv", [image(8), image(1, constant=True), image(1)], 8, **added))
