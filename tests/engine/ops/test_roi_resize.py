"""Bilinear resizing in fixed point: positions, fractions, roundings."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.ops.core.reasons import Code
from engine.ops.roi_resize import (
    coordinate_mode,
    linear_attributes,
    refused_coordinates,
    refused_linear,
    sample_positions,
)
from tests.engine.ops.operators import evaluate, float_node, int8, tensor

OP = "HzQuantizedRoiResize"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("center", ([0, 0, 0, 1], [0, 1, 1, 1], [192, 64, 192, 64])),
        ("origin", ([0, 0, 1, 1], [1, 1, 1, 1], [0, 128, 0, 128])),
        ("given_step", ([0, 0, 0, 0], [1, 1, 1, 1], [0, 85, 170, 255])),
    ],
)
def test_positions_of_a_row_of_two_pixels_made_four(mode: str, expected: tuple[list[int], ...]) -> None:
    """Where the lower index is clamped to the first pixel, so is the upper one."""
    attributes = {"step_decimal_bit": 16, "sizes": np.array([1, 4]), "align_mode": mode, "step": np.array([0, 21845])}
    assert [array.tolist() for array in sample_positions(2, 1, attributes)] == list(expected)


def test_one_rounding_at_the_end_or_two_floors() -> None:
    x, sizes = int8(0, 102, -102), {"sizes": [1, 6], "align_mode": "origin"}
    assert evaluate(OP, [int8(0, 101)], sizes=[1, 4]).ravel().tolist() == [0, 25, 76, 101]
    assert evaluate(OP, [int8(0, 102)], sizes=[1, 4]).ravel().tolist() == [0, 26, 77, 102]
    twice = evaluate(OP, [int8(0, 102)], sizes=[1, 4], is_interpolate_twice=1, step_decimal_bit=8)
    assert twice.ravel().tolist() == [0, 25, 76, 102]
    assert evaluate(OP, [x], **sizes).ravel().tolist() == [0, 51, 102, 0, -102, -102]


def test_rows_are_mixed_like_columns() -> None:
    x = int8(0, 100, shape=(1, 2, 1, 1))
    assert evaluate(OP, [x], sizes=[4, 1]).ravel().tolist() == [0, 25, 75, 100]


def resize(height: int = 16, width: int = 16, inputs: int = 1, **attributes: Any) -> ir.Node:
    given = [tensor("x", 1, 4, 8, 8), *(tensor(f"i{index}", 4) for index in range(1, inputs))]
    return float_node("Resize", given, (1, 4, height, width), **attributes)


def test_coordinates_of_old_operator_sets_are_asymmetric() -> None:
    stated = resize(inputs=2, coordinate_transformation_mode="align_corners")
    assert [coordinate_mode(node) for node in (resize(inputs=2), resize(inputs=3), stated)] == [
        "asymmetric",
        "half_pixel",
        "align_corners",
    ]


@pytest.mark.parametrize(
    ("mode", "align"),
    [
        ("half_pixel", "center"),
        ("pytorch_half_pixel", "center"),
        ("asymmetric", "origin"),
        ("align_corners", "given_step"),
    ],
)
def test_coordinates_by_their_name(mode: str, align: str) -> None:
    node = resize(15, 1, coordinate_transformation_mode=mode)
    found = linear_attributes(node, load_chip("bayes-e"))
    assert (found["align_mode"], found["sizes"], found["step_decimal_bit"]) == (align, [15, 1], 16)
    assert found.get("step") == ([(7 << 16) // 14, 7 << 16] if align == "given_step" else None)
    assert found["is_interpolate_twice"] == 0
    old = linear_attributes(node, load_chip("bernoulli2"))
    assert (old["step_decimal_bit"], old["is_interpolate_twice"]) == (8, 1)
    assert refused_coordinates(node) is None


@pytest.mark.parametrize(
    ("node", "code"),
    [
        (resize(512, 8), None),
        (resize(513, 8), Code.SCALE),
        (resize(8, 1), None),
        (float_node("Resize", [tensor("x", 1, 4, 8, 130)], (1, 4, 8, 2)), Code.SCALE),
        (resize(antialias=1), Code.ANTIALIAS),
    ],
)
def test_factors_up_to_64_either_way(node: ir.Node, code: Code | None) -> None:
    reason = refused_linear(node, load_chip("bayes-e"))
    assert (None if reason is None else reason.code) is code
